"""The sessions of one arm: a problem each, replies until one is accepted, at most four.

What always holds: what is asked depends on the seed and the replies alone, and the arms of a seed
bring the same problems with the same sampling seeds; a session's line is written before
``after_session`` is called, and a session that has a line is not held again; a tag is used for
one attempt at one session.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from trainer.stream.endpoint import Endpoint
from trainer.stream.memory import Memory, Placement, with_memory
from trainer.stream.records import RecordFile, Reply, Session
from trainer.stream.student import Reaction, Student
from trainer.stream.tasks import Task
from trainer.stream.taste import Taste
from trainer.stream.voice import Voice

__all__ = ["MAX_REPLIES", "Stream", "call_seed"]

MAX_REPLIES = 4
_TAG = "x-reef-tag-session"
_CLOSING_TOKENS = 1
"""Nobody reads the reply to a word of thanks."""

Messages = list[dict[str, str]]


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks what of whom."""

    endpoint: Endpoint
    taste: Taste
    arm: str
    seed: int
    max_replies: int = MAX_REPLIES
    closing: bool = False
    """Send the reaction to a session's last reply, too, so that who records sees it."""
    memory: Memory | None = None
    placement: Placement = "system"
    voice: Voice | None = None
    """Who words what the student says; without one, the taste's own words are said."""
    release_of: Callable[[], str | None] | None = None
    """Which release is served; for endpoints whose answers do not say."""

    def run(
        self,
        tasks: Sequence[Task],
        out: RecordFile,
        after_session: Callable[[Session], None] | None = None,
    ) -> list[Session]:
        """Hold the sessions of *tasks* that *out* has not got; all of them, in order.

        *after_session* may wait for whatever has to happen before the next one. It is called
        again for the last session of an interrupted run, so waiting twice must do no harm.
        Raises a `ReefError` when the endpoint does not answer; what was held stays written.
        """
        held = out.sessions(self.arm, self.seed)
        done: list[Session] = []
        for place, task in enumerate(tasks, 1):
            session = held.get(place)
            if session is None:
                session = self._hold(place, task)
                out.add(session)
            elif place + 1 in held or place == len(tasks):
                done.append(session)
                continue
            done.append(session)
            if after_session is not None:
                after_session(session)
        return done

    def shown(self, messages: Messages) -> Messages:
        """What is sent for *messages*: with the memory, where the arm has one."""
        if self.memory is None:
            return messages
        return with_memory(messages, self.memory, self.placement)

    def _hold(self, place: int, task: Task) -> Session:
        student = Student(self.taste, f"{self.seed}/{place}", task.key)
        # Another attempt at the session would look like retries of the first one's calls.
        tag = f"{self.arm}-{self.seed}-{place:03d}-{secrets.token_hex(4)}"
        messages: Messages = [{"role": "user", "content": task.question}]
        replies: list[Reply] = []
        complaints: list[str] = []
        start = time.monotonic()
        while True:
            asked = time.monotonic()
            answer = self.endpoint.chat(
                self.shown(messages),
                call_seed(self.seed, place, len(replies)),
                headers={_TAG: tag},
            )
            wall_s = round(time.monotonic() - asked, 3)
            reaction = student.react(answer.text, cut=answer.cut)
            if self.voice is not None:
                seed = call_seed(self.seed, place, len(replies))
                said = self.voice.say(reaction.text, answer.text, seed)
                reaction = msgspec.structs.replace(reaction, text=said)
            release = answer.release
            if release is None and self.release_of is not None:
                release = self.release_of()
            replies.append(
                Reply(
                    text=answer.text,
                    accepted=reaction.accepted,
                    complaint=reaction.kind,
                    reaction=reaction.text,
                    right=reaction.right,
                    calculations=reaction.reading.calculations,
                    marks=reaction.reading.marks,
                    cut=answer.cut,
                    release=release,
                    receipt=answer.receipt,
                    wall_s=wall_s,
                )
            )
            messages = continued(messages, answer.text, reaction)
            if not reaction.accepted:
                complaints.append(reaction.text)
            if reaction.accepted or len(replies) == self.max_replies:
                break
        if self.closing:
            self.endpoint.chat(
                self.shown(messages),
                call_seed(self.seed, place, len(replies)),
                headers={_TAG: tag},
                max_tokens=_CLOSING_TOKENS,
            )
        if self.memory is not None:
            # Only now: within the session the conversation itself says it.
            for complaint in complaints:
                self.memory.add(place, complaint)
        return Session(
            arm=self.arm,
            seed=self.seed,
            session=place,
            tag=tag,
            task_id=task.id,
            question=task.question,
            key=str(task.key),
            replies=replies,
            wall_s=round(time.monotonic() - start, 3),
        )


def continued(messages: Messages, reply: str, reaction: Reaction) -> Messages:
    """The conversation after *reply* and what the student said to it."""
    return [
        *messages,
        {"role": "assistant", "content": reply},
        {"role": "user", "content": reaction.text},
    ]


def call_seed(seed: int, session: int, reply: int) -> int:
    """The sampling seed of a call, the same in every arm; 31 bits, which every server takes."""
    digest = hashlib.sha256(f"{seed}/{session}/{reply}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
