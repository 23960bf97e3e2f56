"""The whole look-over, in the order in which things would fail.

What always holds: nothing is started, nothing is downloaded, and no GPU is asked for; what a line
does not say was not looked at.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from reef_release.domain.gating.rules import slot_count
from reef_release.domain.policy import parse_policy
from reef_release.domain.suite import Suite
from trainer.recipe import containers, memory
from trainer.recipe.commands import parsed, read_command
from trainer.recipe.compose import Compose, gpus, load, words
from trainer.recipe.problems import PROBLEMS, apart, policy_with, read_problems
from trainer.recipe.report import Report

__all__ = ["Given", "check"]

GPUS = 7
_TRAINED = "Qwen3-4B"
_TRAINING_SHARE = 0.9
"""Of a GPU; the rest is for what an allocator leaves unused."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """Where things are, and what the user has."""

    recipe: Path
    gpu_gb: float = 80.0
    problems: Path | None = None
    development: Path | None = None
    suite: Path | None = None
    models: Path | None = None

    @property
    def compose_files(self) -> tuple[Path, Path]:
        """In the order in which they are laid over one another."""
        return self.recipe.parent / "compose.yaml", self.recipe / "compose.yaml"


def check(given: Given) -> Report:
    """Look at everything."""
    report = Report()
    compose: list[Compose] = []

    def read() -> str:
        compose.append(load(given.compose_files))
        return " and ".join(map(str, given.compose_files))

    report.look("compose files", read)
    if compose:
        _containers(report, compose[0])
        _launch(report, given, compose[0])
        _memory(report, given, compose[0])
    _settings(report, given)
    _data(report, given)
    return report


def _containers(report: Report, compose: Compose) -> None:
    report.look("declarations", lambda: containers.declared(compose))
    report.look("files", lambda: containers.built_from(compose))
    report.look("paths in commands", lambda: containers.mounted(compose))
    report.look("waits", lambda: containers.waits(compose))
    report.look("addresses", lambda: containers.addresses(compose))
    report.look("ports", lambda: containers.ports(compose))
    report.look("GPUs", lambda: containers.devices(compose, GPUS))
    for name, service in sorted(compose.services.items()):
        given = words(service)
        if given:
            report.look(f"command of {name}", partial(read_command, given))
    known: list[set[str]] = []

    def settings() -> str:
        command = [sys.executable, "-m", "reef_release.cli", "status", "--settings", "--json"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        known.append({f"REEF_{name.upper()}" for name in json.loads(done.stdout)})
        return f"{len(known[0])} of the service"

    report.look("settings", settings)
    used = compose.services["service"].get("environment", {})
    for name in sorted(name for name in used if name.startswith("REEF_")):
        report.look(f"setting {name}", partial(_known, name, known))


def _known(name: str, known: list[set[str]]) -> str:
    if not any(name in names for names in known):
        raise ValueError("the service has no such setting")
    return "known"


def _launch(report: Report, given: Given, compose: Compose) -> None:
    path = given.recipe / "fsdp.yaml"

    def sharding() -> str:
        from accelerate.commands.config.config_args import load_config_from_file
        from accelerate.commands.launch import launch_command_parser

        found = load_config_from_file(str(path))
        options = [
            part for name, value in found.fsdp_config.items() for part in (f"--{name}", str(value))
        ]
        parsed(launch_command_parser(), [*options, "script"])
        if found.fsdp_config.get("fsdp_version") != 2:
            raise ValueError("fsdp_version is not 2")
        if found.fsdp_config.get("fsdp_cpu_ram_efficient_loading") is not False:
            raise ValueError("fsdp_cpu_ram_efficient_loading leaves one process without a teacher")
        processes, devices = found.num_processes, gpus(compose.services["trainer"])
        if processes != len(devices):
            raise ValueError(f"{processes} processes for {len(devices)} GPUs")
        return f"{len(found.fsdp_config)} options of FSDP, {processes} processes"

    def layer() -> str:
        name = yaml.safe_load(path.read_text("utf-8"))["fsdp_config"][
            "fsdp_transformer_layer_cls_to_wrap"
        ]
        # Read, not imported: that would take seconds.
        library = importlib.util.find_spec("transformers")
        if library is None or library.origin is None:
            raise ValueError("transformers is not installed; install the extra `train`")
        modules = Path(library.origin).parent / "models"
        source = (modules / "qwen3" / "modeling_qwen3.py").read_text("utf-8")
        if f"class {name}(" not in source:
            raise ValueError(f"Qwen3 has no layers of the class {name}")
        return str(name)

    report.look("accelerate's configuration", sharding)
    report.look("sharded layers", layer)


def _memory(report: Report, given: Given, compose: Compose) -> None:
    models: dict[str, memory.Dimensions] = {}

    def read() -> str:
        models.update(memory.read_models(given.recipe / "models.toml"))
        shown = (f"{name} {each.parameters / 1e9:.2f}" for name, each in models.items())
        return ", ".join(shown) + " billion parameters"

    def fits(needed: float, share: float) -> str:
        room = given.gpu_gb * share
        text = f"about {needed:.0f} GB of {room:.0f} on each GPU"
        if needed > room:
            raise ValueError(text)
        return text

    def serving(service: dict[str, Any]) -> str:
        line = words(service)
        option = {name: line[place + 1] for place, name in enumerate(line[:-1])}
        needed = memory.serving_gb(
            models[Path(line[2]).name],
            int(option["--max-model-len"]),
            int(option.get("--tensor-parallel-size", "1")),
        )
        if int(option.get("--tensor-parallel-size", "1")) != len(gpus(service)):
            raise ValueError("--tensor-parallel-size is not the number of GPUs")
        return fits(needed, float(option["--gpu-memory-utilization"]))

    def training() -> str:
        from trainer.worker.settings import read_worker_settings

        settings = read_worker_settings(given.recipe / "train.toml").training
        devices = len(gpus(compose.services["trainer"]))
        return fits(
            memory.training_gb(
                models[_TRAINED], settings.max_sample_tokens, settings.micro_batch, devices
            ),
            _TRAINING_SHARE,
        )

    report.look("dimensions", read)
    for name, service in sorted(compose.services.items()):
        if words(service)[:2] == ["vllm", "serve"]:
            report.look(f"memory of {name}", partial(serving, service))
    report.look("memory of trainer", training)
    for name, stated in models.items():
        if given.models is None:
            report.skip(f"model {name}", "give --models DIR")
        else:
            look = partial(memory.compared, name, stated, given.models / name)
            report.look(f"model {name}", look)


def _settings(report: Report, given: Given) -> None:
    def training() -> str:
        from trainer.worker.settings import read_worker_settings

        settings = read_worker_settings(given.recipe / "train.toml").training
        return f"{settings.epochs} step per batch, learning rate {settings.adam.learning_rate}"

    def policy() -> str:
        template = json.loads((given.recipe / "policy.json").read_text("utf-8"))
        example = policy_with(template, b'{"id": "1", "question": "1 + 1", "answer": "2"}')
        found = parse_policy(example.encode(), lambda name: name.startswith("answer@"))
        budget = "no budget" if found.budget is None else f"a budget of {found.budget.alpha}"
        return f"{found.name}, {slot_count(found.standard.rule)} trials, {budget}"

    report.look("settings of the trainer", training)
    report.look("policy", policy)


def _data(report: Report, given: Given) -> None:
    wanted = {
        "problems": given.problems,
        "development tasks": given.development,
        "gate tasks": given.suite,
    }
    found: dict[str, Suite] = {}

    def read(name: str, path: Path) -> str:
        found[name] = read_problems(path)
        count = len(found[name].tasks)
        if name == "problems" and count != PROBLEMS:
            raise ValueError(f"there are {count}, not {PROBLEMS}")
        return f"{count}"

    for name, path in wanted.items():
        if path is None:
            report.skip(name, "give the file; see --help")
        else:
            report.look(name, partial(read, name, path))
    if len(found) > 1:
        report.look("no question twice", lambda: apart(found))
