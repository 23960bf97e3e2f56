"""A model that words what the student says, so that no two complaints are the same.

What always holds: the rules have decided before, and the model is told what to say; it sees
neither the key nor a wish that was not broken; when it says nothing whole, the rules' own words
are taken.
"""

from __future__ import annotations

import msgspec

from trainer.stream.endpoint import Endpoint

__all__ = ["Voice"]

_ROLE = (
    "You play a student who is given help with homework in a chat. Write the student's next "
    "message and nothing else: one or two short sentences, in the student's own words. Do not "
    "solve, check or correct anything, do not quote, and ask for nothing that you are not told "
    "to ask for."
)
_TASK = "The helper wrote:\n\n{reply}\n\nThe student wants to say: {text}"


class Voice(msgspec.Struct, frozen=True, kw_only=True):
    """The model at *endpoint*, as the student."""

    endpoint: Endpoint

    def say(self, text: str, reply: str, seed: int) -> str:
        """*text* about *reply*, in other words. Raises as the endpoint does."""
        said = self.endpoint.chat(
            [
                {"role": "system", "content": _ROLE},
                {"role": "user", "content": _TASK.format(reply=reply, text=text)},
            ],
            seed,
        )
        worded = " ".join(said.text.split())
        return text if said.cut or not worded else worded
