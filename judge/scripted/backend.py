"""The scripted judge in this process, for files without a service; see `judge.scripted.server`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources

from judge.scripted.rules import answer

__all__ = ["MODEL", "ScriptedBackend"]


def _model_name() -> str:
    """The name with a digest of rules and words, so that a judgment says which ones it had."""
    digest = hashlib.sha256()
    files = [
        *resources.files("judge.scripted").iterdir(),
        *(resources.files("judge").joinpath("data", name) for name in _WORDS),
    ]
    for file in sorted(files, key=lambda each: each.name):
        if file.name.endswith((".py", ".toml")):
            digest.update(file.read_bytes())
    return f"scripted-{digest.hexdigest()[:12]}"


_WORDS = ("lexicon.toml", "references.toml")
MODEL = _model_name()


class ScriptedBackend:
    """A `judge.backend.Backend` that is never away."""

    model = MODEL
    settings: Mapping[str, str] = {}

    def complete(self, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        """See `Backend`."""
        return answer(messages, seed)

    def check(self) -> None:
        """See `Backend`."""
