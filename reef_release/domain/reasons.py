"""A reason: why something was refused, as a value that people and programs can read."""

from __future__ import annotations

import msgspec

__all__ = ["Reason"]


class Reason(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One cause of a refusal.

    `code` is stable kebab-case for programs, `message` says in plain words what is wrong and
    what to do, `where` names the place (a file, a tensor, a field; "" if there is none).
    """

    code: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" [{self.where}]" if self.where else "")
