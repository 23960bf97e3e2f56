"""Which module has which verb. A module is imported when one of its verbs is asked for, not before.

The groups of verbs stand here as module and name of their `Typer`; a module of single verbs has
a `register` that adds them. The root's help needs every verb, so it imports all.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

__all__ = ["Verbs"]

_SINGLE = {
    "demo": "demo",
    "drill": "drill",
    "up": "service",
    "serve": "service",
    "migrate": "service",
    "signer": "signer",
    "status": "status",
    "rollback": "operate",
    "hold": "operate",
    "resume": "operate",
    "revoke": "operate",
    "restore": "operate",
    "approve": "operate",
    "erase": "erase",
    "backup": "backup",
    "recover": "backup",
}
_GROUPS = {
    "audit": "audit.app",
    "candidate": "candidates.candidate",
    "policy": "candidates.policy",
    "scenario": "candidates.scenario",
    "gate": "gate.app",
    "judge": "judge.app",
    "keys": "keys.keys",
    "token": "keys.token",
    "node": "node.app",
    "signal": "signal.app",
    "train": "train.app",
    "verifier": "verifier.app",
    "witness": "witness.app",
}


class Verbs(TyperGroup):
    """The root of the command tree."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()


class _Commands(MutableMapping[str, Any]):
    """The command of each verb, by its name."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = dict.fromkeys((*_SINGLE, *_GROUPS))

    def __getitem__(self, verb: str) -> Any:
        if self._made[verb] is None:
            self._made.update(_import(verb))
        return self._made[verb]

    def __setitem__(self, verb: str, command: Any) -> None:
        self._made[verb] = command

    def __delitem__(self, verb: str) -> None:
        del self._made[verb]

    def __contains__(self, verb: object) -> bool:
        return verb in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _import(verb: str) -> MutableMapping[str, Any]:
    """The commands that come with the one of *verb*."""
    part = typer.Typer()
    if verb in _SINGLE:
        import_module(f"reef_release.cli.{_SINGLE[verb]}").register(part)
    else:
        module, _, name = _GROUPS[verb].partition(".")
        group = getattr(import_module(f"reef_release.cli.{module}"), name)
        part.add_typer(group, name=verb)
    return typer.main.get_group(part).commands
