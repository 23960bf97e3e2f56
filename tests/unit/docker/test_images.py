"""The images: built from what is really there, in stages, pinned, and run without root."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

DOCKERFILES = sorted((REPOSITORY / "docker").glob("*.Dockerfile"))
IMAGES = pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
SECRETS = (
    "keys/gate/private.pem",
    "token.secret",
    "reef_release/private.pem",
    ".git/config",
    ".venv",
)


def instructions(file: Path) -> list[tuple[str, str]]:
    """(instruction, argument) in order, comments dropped and continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text("utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", " ", text)
    return [
        (word.upper(), rest.strip())
        for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def stages(file: Path) -> Iterator[list[tuple[str, str]]]:
    stage: list[tuple[str, str]] | None = None
    for word, rest in instructions(file):
        if word == "FROM":
            if stage is not None:
                yield stage
            stage = []
        if stage is not None:
            stage.append((word, rest))
    assert stage is not None
    yield stage


def left_out(path: str) -> bool:
    """Whether .dockerignore keeps *path* from the builder; the last pattern that fits decides."""
    ignored = False
    parts = path.split("/")
    prefixes = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    for line in (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        negated = pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        anywhere = pattern.startswith("**/")
        pattern = pattern.removeprefix("**/")
        tried = [*prefixes, *parts] if anywhere else prefixes
        if any(fnmatch.fnmatchcase(each, pattern) for each in tried):
            ignored = not negated
    return ignored


def copied(file: Path) -> list[str]:
    """Every source that COPY takes from the build context."""
    sources = []
    for word, rest in instructions(file):
        if word == "COPY" and "--from=" not in rest:
            sources += rest.split()[:-1]
    return sources


def test_there_is_an_image_with_and_one_without_a_training_stack() -> None:
    assert [file.name for file in DOCKERFILES] == ["service.Dockerfile", "training.Dockerfile"]


@IMAGES
def test_copied_files_exist_and_reach_the_builder(file: Path) -> None:
    sources = copied(file)
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source
        assert not left_out(source), source


@IMAGES
def test_everything_that_the_package_is_built_from_is_copied(file: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"]}
    assert needed | {"pyproject.toml"} <= set(copied(file))


@pytest.mark.parametrize("path", SECRETS)
def test_secrets_and_work_in_progress_never_reach_the_builder(path: str) -> None:
    assert left_out(path)


@IMAGES
def test_the_base_image_is_pinned_to_a_minor_version(file: Path) -> None:
    arguments = dict(
        rest.split("=", 1) for word, rest in instructions(file) if word == "ARG" and "=" in rest
    )
    for word, rest in instructions(file):
        if word == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], rest.split()[0])
            assert re.fullmatch(r"python:3\.\d+-slim-\w+", image), image


@IMAGES
def test_the_last_stage_takes_only_the_built_environment_and_drops_root(file: Path) -> None:
    *build, last = stages(file)
    assert len(build) == 1
    words = [word for word, _ in last]
    assert [rest for word, rest in last if word == "COPY"] == ["--from=build /opt/reef /opt/reef"]
    users = [rest for word, rest in last if word == "USER"]
    assert users
    assert users[-1] not in ("0", "root", "0:0")
    # Numeric, so that an orchestrator can see that it is not root.
    assert re.fullmatch(r"\d+:\d+", users[-1])
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN")
    assert [rest for word, rest in last if word == "ENTRYPOINT"] == ['["reef-release"]']


@IMAGES
def test_commands_are_vectors_and_nothing_is_added_from_elsewhere(file: Path) -> None:
    for word, rest in instructions(file):
        assert word != "ADD"
        if word in ("CMD", "ENTRYPOINT"):
            assert rest.startswith("["), rest
        assert "://" not in rest


def test_the_service_image_proves_that_it_has_no_torch() -> None:
    runs = [rest for word, rest in instructions(DOCKERFILES[0]) if word == "RUN"]
    assert any("find_spec('torch') is not None" in run for run in runs)
    assert not any("[train" in run or "[gpu" in run for run in runs)


def test_the_training_image_takes_an_extra_that_exists() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    arguments = dict(
        rest.split("=", 1)
        for word, rest in instructions(DOCKERFILES[1])
        if word == "ARG" and "=" in rest
    )
    assert arguments["EXTRA"] in project["optional-dependencies"]
    assert "gpu" in project["optional-dependencies"]
    assert (REPOSITORY / arguments["CONSTRAINTS"]).is_file()
