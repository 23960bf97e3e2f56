# Engines and the gate worker: the same package with a training stack beside it.
# Build from the root of the repository:
#
#   docker build -f docker/training.Dockerfile .                          # CPU
#   docker build -f docker/training.Dockerfile --build-arg EXTRA=gpu .    # with vLLM
#
# The default index may give a CUDA build of PyTorch; TORCH_INDEX names one with CPU builds.

ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ARG EXTRA=train
ARG CONSTRAINTS=constraints/cpu.txt
ARG TORCH_INDEX=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/reef
COPY constraints constraints
RUN /opt/reef/bin/pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -c "$CONSTRAINTS" torch
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY reef_release reef_release
COPY judge judge
COPY trainer trainer
RUN /opt/reef/bin/pip install -c "$CONSTRAINTS" ".[$EXTRA]"

FROM ${PYTHON}
# Writable for whichever user compose runs it as; secrets have an owner outside.
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin reef \
    && install -d -o reef -g reef -m 1777 /var/lib/reef-release
COPY --from=build /opt/reef /opt/reef
ENV PATH=/opt/reef/bin:$PATH \
    HF_HUB_OFFLINE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REEF_HOME=/var/lib/reef-release
USER 10001:10001
WORKDIR /var/lib/reef-release
ENTRYPOINT ["reef-release"]
CMD ["gate", "--help"]
