"""What a student minds and how it says so: a rule set that is data.

What always holds: a taste names only measures that the reading has, and has at least one
complaint for every rule; the first rule that a reply breaks, in the order of the file, is what
is complained about.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from reef_release.errors import SettingsError
from trainer.stream.reading import MARKS, Reading

__all__ = ["Rule", "Taste", "load_taste"]

_MEASURES = frozenset({*MARKS, "calculations", "right", "words"})


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on measures; a reply outside one of them breaks the rule."""

    kind: str
    """Which complaints are made about it."""
    at_least: dict[str, int] = {}
    at_most: dict[str, int] = {}

    def broken(self, reading: Reading, right: bool) -> bool:
        """Whether a reply breaks it; *right* says whether it states the key's number."""
        return any(
            reading.measure(name, right=right) < bound for name, bound in self.at_least.items()
        ) or any(reading.measure(name, right=right) > bound for name, bound in self.at_most.items())


class Taste(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole rule set; see ``tastes/homework.toml``."""

    name: str
    rules: list[Rule]
    complaints: dict[str, list[str]]
    thanks: list[str]

    def broken(self, reading: Reading, right: bool) -> str | None:
        """The kind of the first rule that a reply breaks; None if it breaks none."""
        return next((rule.kind for rule in self.rules if rule.broken(reading, right)), None)


def load_taste(name: str) -> Taste:
    """The taste that comes with the package under *name*, or the one in the file *name*.

    Raises `SettingsError` when there is none or it is not of the form.
    """
    shipped = resources.files("trainer.stream").joinpath("tastes", f"{name}.toml")
    try:
        text = (
            Path(name).read_text("utf-8") if name.endswith(".toml") else shipped.read_text("utf-8")
        )
        taste = msgspec.convert(tomllib.loads(text), Taste)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(
            f"The taste {name!r} cannot be used: {error}.",
            next_step="Give the name of a shipped taste (homework) or a TOML file of its form.",
        ) from error
    _check(taste)
    return taste


def _check(taste: Taste) -> None:
    for rule in taste.rules:
        unknown = sorted({*rule.at_least, *rule.at_most} - _MEASURES)
        if unknown:
            raise SettingsError(
                f"The taste {taste.name!r} names measures that nobody takes: {', '.join(unknown)}.",
                next_step=f"Use some of {', '.join(sorted(_MEASURES))}.",
            )
        if not taste.complaints.get(rule.kind):
            raise SettingsError(
                f"The taste {taste.name!r} has no complaint of kind {rule.kind!r}.",
                next_step="Add at least one text under [complaints].",
            )
    if not taste.rules or not taste.thanks:
        raise SettingsError(
            f"The taste {taste.name!r} has no rule, or no word of thanks.",
            next_step="Add at least one of each.",
        )
