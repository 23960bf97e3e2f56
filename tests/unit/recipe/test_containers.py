"""The recipe's containers: hardened as the others are, and each vLLM behind its own process."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reef_release.errors import BadRequest
from reef_release.tokens import TokenRole
from tests.unit.docs.command_tree import command_tree, problem_with
from tests.unit.recipe.conftest import DOCKER, FILES
from trainer.recipe import containers
from trainer.recipe.commands import read_command
from trainer.recipe.compose import Compose, load, mounts, words

Spoil = Callable[[str, str], Compose]
FRONTS = {"policy-vllm": "engine", "gate-vllm": "gate-engine"}
ALONE = {"judge-vllm": "judge", "student-vllm": "stream"}


def test_nothing_runs_as_root_or_may_become_it(compose: Compose) -> None:
    for name, service in compose.services.items():
        assert service["user"].startswith("${REEF_UID:-10001}"), name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "cap_add", "pid", "network_mode", "devices"} & set(service)


def test_only_the_process_in_front_of_a_vllm_reaches_it(compose: Compose) -> None:
    for name, other in (FRONTS | ALONE).items():
        [network] = compose.services[name]["networks"]
        assert compose.document["networks"][network] == {"internal": True}
        inside = {
            each for each in compose.services if network in compose.services[each]["networks"]
        }
        assert inside - {"gate"} == {name, other}


def test_clients_reach_two_routes_of_the_engine_and_no_other(compose: Compose) -> None:
    inside = {name for name in compose.services if "engine" in compose.services[name]["networks"]}
    assert inside == {"engine", "gateway", "node"}
    configuration = (DOCKER / "recipe" / "gateway.conf").read_text("utf-8")
    assert re.findall(r"location (.*?) \{", configuration) == [
        "= /v1/chat/completions",
        "= /v1/models",
        "/",
    ]
    assert "location / { return 404; }" in configuration


def test_a_vllm_sees_the_copies_of_its_front_and_cannot_change_them(compose: Compose) -> None:
    for name, other in FRONTS.items():
        copies = {each for each in mounts(compose.services[name]) if each.target != "/models"}
        own = {
            each
            for each in mounts(compose.services[other])
            if each.target in {copy.target for copy in copies}
        }
        assert {each._replace(read_only=True) for each in own} == copies
        assert not any(each.read_only for each in own)
        line = words(compose.services[other])
        assert line[line.index("--work") + 1] == next(iter(own)).target


def test_a_worker_has_the_token_of_its_role_and_prepare_makes_it(compose: Compose) -> None:
    script = (DOCKER / "prepare.sh").read_text("utf-8")
    [made] = re.findall(r"for role in (.*?); do", script)
    assert set(made.split()) <= {role.value for role in TokenRole}
    for name, secret in compose.document["secrets"].items():
        if name.endswith("_token"):
            assert secret["file"] == "${REEF_SECRETS:-./secrets}/tokens/" + name.removesuffix(
                "_token"
            )
            assert name.removesuffix("_token") in made.split()
    for name, roles in (
        ("judge", {"judge_token"}),
        ("trainer", {"train_token"}),
        ("stream", {"ingest_token", "audit_token"}),
    ):
        assert set(compose.services[name]["secrets"]) - {"root"} == roles


def test_command_lines_of_the_service_can_be_typed(compose: Compose) -> None:
    for service in compose.services.values():
        line = words(service)
        if line[:1] and line[0] not in ("python", "vllm", "accelerate"):
            assert problem_with(line, command_tree()) is None, line


CHECKS: list[tuple[Callable[[Compose], Any], str, str, str]] = [
    (partial(containers.devices, count=7), '["1"]', '["0"]', "GPU 0 is given 2 times"),
    (containers.addresses, "http://judge-vllm:8000", "http://judge-vllm:8001", "port 8001"),
    (containers.addresses, "http://gate-engine:8000", "http://engine:8000", "share no network"),
    (containers.addresses, "http://policy-vllm:8000", "http://vllm:8000", "no service"),
    (containers.built_from, "./recipe/gateway.conf", "./recipe/nginx.conf", "nginx.conf"),
    (containers.mounted, "/recipe/train.toml", "/settings/train.toml", "does not have"),
    (containers.mounted, "- train_token\n      - root", "- root", "train_token"),
    (containers.declared, "  student:\n    internal: true\n", "", "networks does not have"),
    (containers.declared, "  trainer: {}\n", "", "volumes does not have"),
    (containers.waits, "      judge-vllm:\n        condition", "      judges:\n        condition",
     "no service"),
    (containers.waits, "      engine:\n        condition: service_healthy",
     "      signer:\n        condition: service_healthy", "nothing checks"),
    (containers.ports, "  gateway:\n    <<: *hardened\n",
     '  gateway:\n    <<: *hardened\n    ports: ["127.0.0.1:8470:8000"]\n', "published twice"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "old", "new", "said"), CHECKS)
def test_a_mistake_in_the_files_is_found(
    check: Callable[[Compose], str], old: str, new: str, said: str, compose: Compose, spoilt: Spoil
) -> None:
    check(compose)
    with pytest.raises(ValueError, match=said):
        check(spoilt(old, new))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("judge --endpont http://judge:8000", "No such option"),
        ("python -m trainer.engines.vllm serve --vllm http://v:8000", "--work"),
        ("python -m trainer.engines.server --model x", "no parser"),
        ("python -m trainer.nothing", "no module"),
        ("vllm serve /models/m --logprob-mode raw", "--logprob-mode"),
        ("accelerate launch --config-fil x script", "."),
        ("nginx -g daemon", "."),
        ("/bin/sh -c true", "nobody knows"),
    ],
)
def test_a_command_line_that_its_program_does_not_take_is_found(line: str, said: str) -> None:
    with pytest.raises((ValueError, BadRequest), match=said):
        read_command(line.split())


def test_what_is_no_compose_file_is_said(tmp_path: Any) -> None:
    (tmp_path / "a.yaml").write_text("services: [")
    (tmp_path / "b.yaml").write_text("volumes: {}")
    for name in ("a.yaml", "b.yaml"):
        with pytest.raises(ValueError, match=name):
            load([tmp_path / name])


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    != 0,
    reason="the compose plugin is not installed",
)
def test_the_compose_plugin_reads_the_files() -> None:
    names = ("REEF_MODELS", "REEF_SERVING", "REEF_PROBLEMS", "REEF_DEVELOPMENT")
    variables = dict.fromkeys(names, "/given")
    done = subprocess.run(
        ["docker", "compose", "-f", FILES[0], "-f", FILES[1], "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        env=variables | {"PATH": "/usr/bin:/bin:/usr/local/bin"},
    )
    assert done.returncode == 0, done.stderr
