"""The compose file: each process alone with its own secrets, and commands that exist.

Checked without an engine; where the compose plugin is there, it reads the file as well.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.unit.docs.command_tree import command_tree, problem_with

DOCKER = REPOSITORY / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
EACH = pytest.mark.parametrize("name", SERVICES)
OURS = pytest.mark.parametrize("name", [name for name in SERVICES if "build" in SERVICES[name]])
# What listens; a worker that only calls others has nothing to be asked for its health.
LISTENING = {"postgres", "service", "engine"}
KEY_OF = {
    "service": {"log_key", "pointer_key", "token_secret"},
    "signer": {"release_key"},
    "gate": {"gate_key"},
}


def secrets_of(name: str) -> dict[str, str]:
    """Secret to the path where the service finds it."""
    result = {}
    for secret in SERVICES[name].get("secrets", []):
        source = secret if isinstance(secret, str) else secret["source"]
        result[source] = f"/run/secrets/{source}" if isinstance(secret, str) else secret["target"]
    return result


def default(text: str) -> str:
    """*text* with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_the_parts_of_the_system_are_all_there() -> None:
    assert set(SERVICES) == {"postgres", "migrate", "service", "signer", "gate", "node", "engine"}


@EACH
def test_no_container_runs_as_root_or_may_become_it(name: str) -> None:
    service = SERVICES[name]
    assert default(service["user"]) == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "network_mode", "devices"} & set(service)


@EACH
def test_whatever_listens_has_a_health_check(name: str) -> None:
    assert ("healthcheck" in SERVICES[name]) == (name in LISTENING)


@EACH
def test_what_a_container_waits_for_can_happen(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"].startswith("on-failure")


@EACH
def test_everything_that_a_service_names_is_declared(name: str) -> None:
    service = SERVICES[name]
    assert set(secrets_of(name)) <= set(COMPOSE["secrets"])
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in COMPOSE["volumes"]


@EACH
def test_secrets_are_files_and_never_in_the_environment(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        assert not re.search(r"://[^/@]*:[^/@]*@", value), f"{variable} has a password"
        if re.search(r"PASS|SECRET|TOKEN|KEY", variable) and variable != "REEF_KEYS":
            assert value in secrets_of(name).values(), variable


@EACH
def test_a_private_key_is_mounted_where_it_is_used_and_nowhere_else(name: str) -> None:
    private = {each for each in secrets_of(name) if each.endswith("_key") or each == "token_secret"}
    assert private == KEY_OF.get(name, set())


@EACH
def test_ports_are_open_on_this_machine_only(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert bool(ports) == (name == "service")


def test_only_the_service_and_the_migration_reach_the_database() -> None:
    reaching = {name for name in SERVICES if "database" in SERVICES[name]["networks"]}
    assert reaching == {"postgres", "migrate", "service"}
    assert COMPOSE["networks"]["database"] == {"internal": True}


def test_only_the_node_reaches_the_engine_which_cannot_change_its_files() -> None:
    reaching = {name for name in SERVICES if "engine" in SERVICES[name]["networks"]}
    assert reaching == {"node", "engine"}
    assert COMPOSE["networks"]["engine"] == {"internal": True}
    [path] = [volume.split(":", 1)[1] for volume in SERVICES["node"]["volumes"]]
    assert SERVICES["engine"]["volumes"] == [f"node:{path}:ro"]


@OURS
def test_images_are_built_from_what_is_there(name: str) -> None:
    build = SERVICES[name]["build"]
    context = (DOCKER / build["context"]).resolve()
    assert context == REPOSITORY
    file = (context / build["dockerfile"]).read_text("utf-8")
    for argument in build.get("args", {}):
        assert re.search(rf"^ARG {argument}=", file, re.MULTILINE), argument


def test_the_database_image_is_an_official_one_of_a_supported_version() -> None:
    assert re.fullmatch(r"postgres:1[5-9]-\w+", SERVICES["postgres"]["image"])


@OURS
def test_commands_can_be_typed(name: str) -> None:
    service = SERVICES[name]
    if "entrypoint" in service:
        assert service["entrypoint"][:2] == ["python", "-m"]
        module = service["entrypoint"][2]
        source = (REPOSITORY / (module.replace(".", "/") + ".py")).read_text("utf-8")
        for word in service["command"]:
            assert not word.startswith("--") or f'"{word}"' in source, word
    else:
        assert problem_with([default(word) for word in service["command"]], command_tree()) is None


@OURS
def test_paths_in_commands_are_mounted(name: str) -> None:
    service = SERVICES[name]
    mounts = {volume.split(":")[1] for volume in service.get("volumes", [])}
    for word in service["command"]:
        if word.startswith("/run/secrets/"):
            assert word in secrets_of(name).values(), word
        elif word.startswith("/"):
            assert any(word.startswith(mount) for mount in mounts), word


def test_the_service_finds_its_keys_where_the_settings_say() -> None:
    targets = secrets_of("service")
    keys = SERVICES["service"]["environment"]["REEF_KEYS"]
    assert targets["root"] == f"{keys}/root.json"
    assert targets["log_key"] == f"{keys}/log/private.pem"
    assert targets["pointer_key"] == f"{keys}/pointer/private.pem"
    assert targets["token_secret"] == f"{keys}/token.secret"


def test_preparing_makes_every_secret_for_its_owner_alone_and_replaces_none(
    tmp_path: Path,
) -> None:
    target = tmp_path / "secrets"
    reef_release = f"{sys.executable} -m reef_release.cli"
    first: dict[Path, bytes] = {}
    for _ in range(2):
        done = subprocess.run(
            [DOCKER / "prepare.sh", target],
            env={**os.environ, "REEF_RELEASE": reef_release},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made = {file: file.read_bytes() for file in target.rglob("*") if file.is_file()}
        assert first in ({}, made)
        first = made
    for name, secret in COMPOSE["secrets"].items():
        file = target / default(secret["file"]).removeprefix("./secrets/")
        assert file.is_file(), name
        if name != "root":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, name
    password = (target / "database" / "reef_service.password").read_text()
    assert re.fullmatch(r"[0-9a-f]{48}", password)
    line = (target / "database" / "reef_service.pgpass").read_text()
    assert line == f"postgres:5432:reef:reef_service:{password}\n"


def test_the_prepared_secrets_are_not_committed_or_sent_to_a_builder() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", "docker/secrets/keys/gate/private.pem"],
        cwd=REPOSITORY,
        check=False,
    )
    assert ignored.returncode == 0


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    != 0,
    reason="the compose plugin is not installed",
)
def test_the_compose_plugin_reads_the_file() -> None:
    done = subprocess.run(
        ["docker", "compose", "-f", DOCKER / "compose.yaml", "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
