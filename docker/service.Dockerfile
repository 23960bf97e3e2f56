# The service, the signer and the node: everything under reef_release, without a training stack.
# Build from the root of the repository: docker build -f docker/service.Dockerfile .

ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/reef
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY reef_release reef_release
COPY judge judge
COPY trainer trainer
RUN /opt/reef/bin/pip install . \
    && /opt/reef/bin/python -c "import sys; from importlib.util import find_spec; sys.exit(find_spec('torch') is not None)"

FROM ${PYTHON}
# Writable for whichever user compose runs it as; secrets have an owner outside.
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin reef \
    && install -d -o reef -g reef -m 1777 /var/lib/reef-release
COPY --from=build /opt/reef /opt/reef
ENV PATH=/opt/reef/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REEF_HOME=/var/lib/reef-release
USER 10001:10001
WORKDIR /var/lib/reef-release
ENTRYPOINT ["reef-release"]
CMD ["serve"]
