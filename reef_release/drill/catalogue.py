"""Which attacks there are: every `ATTACKS` of every module in `attacks`, found by looking there."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from reef_release.drill import attacks
from reef_release.drill.attack import Attack
from reef_release.errors import BadRequest

__all__ = ["catalogue", "chosen"]


@cache
def catalogue() -> tuple[Attack, ...]:
    """All attacks, by their first row and then in the order of their module.

    Raises `BadRequest` for two of one name.
    """
    found: list[Attack] = []
    for module in sorted(pkgutil.iter_modules(attacks.__path__), key=lambda each: each.name):
        found += importlib.import_module(f"{attacks.__name__}.{module.name}").ATTACKS
    names = [attack.name for attack in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadRequest(f"Two attacks are called {', '.join(twice)}; give each its own name.")
    return tuple(sorted(found, key=lambda attack: attack.rows[0]))


def chosen(names: Sequence[str], *, quick: bool) -> tuple[Attack, ...]:
    """Those of *names*, which may be row numbers too; all without names. *quick*: only such.

    Raises `BadRequest` for a name that no attack has.
    """
    every = catalogue()
    known = {attack.name for attack in every} | {str(row) for each in every for row in each.rows}
    unknown = sorted(set(names) - known)
    if unknown:
        raise BadRequest(
            f"There is no attack {', '.join(unknown)}.",
            next_step="`reef-release drill --list` names all of them.",
        )
    return tuple(
        attack
        for attack in every
        if (attack.quick or not quick)
        and (not names or {attack.name, *map(str, attack.rows)} & set(names))
    )
