"""Asking for the votes on a turn.

What always holds: every vote of a turn is asked with a seed of its own that follows from the
turn; an outage at one of them is an outage of them all, so that a turn is judged by as many
answers as were asked for or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from judge.answer import read_answer
from judge.backend import Backend
from judge.prompts import PROMPT_DIGEST, prompt_messages, shown_replies
from reef_release.wire import JudgeIdentity, TurnAssignment, Vote

__all__ = ["ask", "identity_of", "vote_seed"]


def ask(
    backend: Backend,
    turn: TurnAssignment,
    votes: int,
    *,
    check: Callable[[], None] = lambda: None,
) -> list[Vote]:
    """*votes* answers of *backend* on *turn*, asked side by side, in the order of their seeds.

    Raises what the backend raises, and what *check* raises, which is called in between.
    """
    messages = prompt_messages(turn)
    replies = shown_replies(turn).keys()

    def one(number: int) -> Vote:
        check()
        return read_answer(backend.complete(messages, vote_seed(turn.turn_id, number)), replies)

    with ThreadPoolExecutor(votes, thread_name_prefix="vote") as pool:
        return list(pool.map(one, range(votes)))


def identity_of(backend: Backend, votes: int) -> JudgeIdentity:
    """Who judges: the model, the prompts' digest, and all settings that an answer depends on."""
    return JudgeIdentity(
        model=backend.model,
        prompt_digest=PROMPT_DIGEST,
        settings={**backend.settings, "votes": str(votes)},
    )


def vote_seed(turn_id: str, number: int) -> int:
    """A seed from 0 to 2^31 - 1, which every server takes."""
    digest = hashlib.sha256(f"{turn_id}:{number}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
