"""What a model thought aloud is no part of what it said.

What always holds: text before the last closing tag is dropped, whether or not an opening tag is
there (templates open the tag in the prompt, so replies often carry the closing one alone), and
an opening tag that is never closed hides everything after it.
"""

from __future__ import annotations

import re

__all__ = ["without_reasoning"]

_NAME = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
_END = re.compile(rf"</\s*{_NAME}\s*>|\[/THINK\]|<\|channel\|>final<\|message\|>", re.I)
_START = re.compile(rf"<\s*{_NAME}\s*>|\[THINK\]", re.I)


def without_reasoning(text: str) -> str:
    """The part of a model's *text* that its reader is meant to see."""
    visible = _END.split(text)[-1]
    return _START.split(visible, maxsplit=1)[0].strip()
