"""What can be said about containers without starting one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from trainer.recipe.compose import Compose, gpus, mounts, words

__all__ = ["addresses", "built_from", "declared", "devices", "mounted", "ports", "waits"]

_ADDRESS = re.compile(r"\bhttp://([a-z][a-z-]*):(\d+)")
_DEFAULT_PORTS = {"service": "8470"}


def _every(compose: Compose) -> list[tuple[str, dict[str, Any]]]:
    return sorted(compose.services.items())


def declared(compose: Compose) -> str:
    """Networks, volumes and secrets are declared. Raises `ValueError`."""
    wrong = []
    for name, service in _every(compose):
        for kind in ("networks", "secrets"):
            for each in service.get(kind, ()):
                used = each if isinstance(each, str) else each["source"]
                if used not in compose.document.get(kind, {}):
                    wrong.append(f"{name} uses {used}, which {kind} does not have")
        for mount in mounts(service):
            known = mount.source in compose.document.get("volumes", {})
            if not known and mount.source[:1] not in "./$":
                wrong.append(f"{name} mounts {mount.source}, which volumes does not have")
    return _all(wrong, f"{len(compose.services)} services")


def built_from(compose: Compose) -> str:
    """Build files and mounted files of the repository exist. Raises `ValueError`."""
    seen, wrong = 0, []
    for name, service in _every(compose):
        paths = [mount.source for mount in mounts(service) if mount.source.startswith(".")]
        build = service.get("build")
        if build is not None:
            paths.append(f"{build['context']}/{build['dockerfile']}")
        elif "image" not in service:
            wrong.append(f"{name} has no image")
        for path in paths:
            seen += 1
            if not (compose.directory / path).exists():
                wrong.append(f"{name} needs {path}")
    return _all(wrong, f"{seen} files and directories")


def mounted(compose: Compose) -> str:
    """Paths in command lines are mounted, and secrets are given. Raises `ValueError`."""
    seen, wrong = 0, []
    for name, service in _every(compose):
        targets = [mount.target for mount in mounts(service)]
        secrets = {
            f"/run/secrets/{each}" if isinstance(each, str) else each["target"]
            for each in service.get("secrets", ())
        }
        for word in words(service):
            if not word.startswith("/") or word.startswith("/opt/reef/bin/"):
                continue
            seen += 1
            inside = any(Path(word).is_relative_to(target) for target in targets)
            if not inside and word not in secrets:
                wrong.append(f"{name} is given {word}, which it does not have")
    return _all(wrong, f"{seen} paths")


def waits(compose: Compose) -> str:
    """What a service waits for can come about. Raises `ValueError`."""
    wrong = []
    for name, service in _every(compose):
        for other, how in service.get("depends_on", {}).items():
            target = compose.services.get(other)
            if target is None:
                wrong.append(f"{name} waits for {other}, which is no service")
            elif how["condition"] == "service_healthy" and "healthcheck" not in target:
                wrong.append(f"{name} waits for {other}'s health, which nothing checks")
    return _all(wrong, "every wait can end")


def addresses(compose: Compose) -> str:
    """Services that are called listen where they are called, on a network of the caller's.

    Raises `ValueError`.
    """
    seen, wrong = 0, []
    for name, service in _every(compose):
        texts = [*words(service), *map(str, service.get("environment", {}).values())]
        for host, port in _ADDRESS.findall(" ".join(texts)):
            seen += 1
            target = compose.services.get(host)
            if target is None:
                wrong.append(f"{name} calls {host}, which is no service")
                continue
            if not set(service["networks"]) & set(target["networks"]):
                wrong.append(f"{name} and {host} share no network")
            if port != _listens(host, target, compose.directory):
                wrong.append(f"{name} calls port {port} of {host}")
    return _all(wrong, f"{seen} addresses")


def _listens(name: str, service: dict[str, Any], directory: Path) -> str | None:
    command = words(service)
    if "--port" in command:
        return command[command.index("--port") + 1]
    for mount in mounts(service):
        if mount.source.endswith(".conf"):
            found = re.search(r"^\s*listen (\d+);", (directory / mount.source).read_text(), re.M)
            return found[1] if found else None
    return _DEFAULT_PORTS.get(name)


def ports(compose: Compose) -> str:
    """No two services are published at one port. Raises `ValueError`."""
    published = [
        str(port).rpartition(":")[0].rpartition(":")[2]
        for _, service in _every(compose)
        for port in service.get("ports", ())
    ]
    wrong = [f"port {port} is published twice" for port, n in Counter(published).items() if n > 1]
    return _all(wrong, f"published: {', '.join(published)}")


def devices(compose: Compose, count: int) -> str:
    """Each of *count* GPUs belongs to one service. Raises `ValueError`."""
    given = {name: gpus(service) for name, service in _every(compose)}
    used = Counter(each for ids in given.values() for each in ids)
    wanted = Counter(str(number) for number in range(count))
    wrong = [
        f"GPU {each} is given {used[each]} times"
        for each in (used | wanted)
        if used[each] != wanted[each]
    ]
    shown = ", ".join(f"{name} {'+'.join(ids)}" for name, ids in given.items() if ids)
    return _all(wrong, shown)


def _all(wrong: list[str], right: str) -> str:
    if wrong:
        raise ValueError("; ".join(wrong))
    return right
