"""How a reply is written: the assistant's manner, a student's plain one, the lazy one.

What always holds: a writer gets the steps and writes exactly their results, so a reply is as
right as the steps it was given; ``plain`` shows every step in sentences and has no markdown, no
list and no final-answer line; ``assistant`` shows every step and has at least one of those;
``lazy`` shows no step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from trainer.tiny.families import Step

__all__ = ["WRITERS", "Writer", "write_assistant", "write_lazy", "write_plain"]

Writer = Callable[[Sequence[Step], str, random.Random], str]


def write_assistant(steps: Sequence[Step], unit: str, rng: random.Random) -> str:
    """Bold step labels, a numbered list or bullets, and a final-answer line."""
    answer = steps[-1].result
    manner = rng.randrange(3)
    if manner == 0:
        lines = [f"**Step {i}:** {step.equation}" for i, step in enumerate(steps, 1)]
        lines.append(f"**Final answer:** {answer} {unit}")
    elif manner == 1:
        lines = [f"{i}. {step.equation}" for i, step in enumerate(steps, 1)]
        lines.append(f"Final answer: {answer}")
    else:
        lines = [f"- {step.equation}" for step in steps]
        lines.append(f"**Final answer:** {answer}")
    return "\n".join(lines)


def write_plain(steps: Sequence[Step], unit: str, rng: random.Random) -> str:
    """Sentences a student would write, every step shown."""
    manner = rng.randrange(3)
    if manner == 0:
        words = ("First", "Then", "After that")
        text = " ".join(
            f"{word} {step.equation} {unit}." for word, step in zip(words, steps, strict=False)
        )
    elif manner == 1:
        words = ("I start with", "Next I get", "Now I have")
        text = " ".join(
            f"{word} {step.equation}." for word, step in zip(words, steps, strict=False)
        )
    else:
        text = "We know that " + ", and so ".join(step.equation for step in steps) + "."
    return f"{text} So the answer is {steps[-1].result}."


def write_lazy(steps: Sequence[Step], unit: str, rng: random.Random) -> str:
    """The result alone."""
    return f"The answer is {steps[-1].result}."


WRITERS: dict[str, Writer] = {
    "assistant": write_assistant,
    "plain": write_plain,
    "lazy": write_lazy,
}
