"""The development tasks of a trainer and what grades them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.suite import Task, parse_suite
from reef_release.errors import BadRequest, ReefError, SettingsError
from reef_release.verifiers.registry import is_objective, resolve, verdict

__all__ = ["Development", "read_development"]


class Development(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks and the verifiers, with a digest of both."""

    tasks: tuple[Task, ...]
    verifiers: tuple[str, ...]
    digest: str


def read_development(path: Path, verifiers: Sequence[str], limit: int | None) -> Development:
    """The tasks in a file of JSON lines `{id, question, answer}`.

    Raises `SettingsError` for a file, a verifier or an answer that cannot be used.
    """
    try:
        tasks = parse_suite(path.read_bytes()).tasks[:limit]
        specs = tuple(resolve(name) for name in verifiers)
        if not any(is_objective(spec) for spec in specs):
            raise BadRequest("None of the verifiers looks at the answer.")
        for task in tasks:
            verdict(specs, "", task.answer)
    except OSError as error:
        raise SettingsError(f"The tasks {path} cannot be read: {error.strerror}.") from error
    except ReefError as error:
        raise SettingsError(
            f"Nothing can be screened with {path} and {', '.join(verifiers)}: {error.detail}",
            next_step=error.next_step or "Name answer@1 among --verifiers.",
        ) from error
    digest = sha256_hex(msgspec.json.encode([tasks, specs]))
    return Development(tasks=tasks, verifiers=specs, digest=digest)
