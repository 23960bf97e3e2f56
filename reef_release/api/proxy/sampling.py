"""Whether a call asks for tokens to be drawn in another way than by the temperature alone.

The trainer knows the probabilities of all tokens at a temperature. Whatever cuts, shifts or
constrains them makes other ones of what was sampled, which no ratio may be taken with. OpenAI's
names, and those that vLLM and SGLang add.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["OTHER_SAMPLING", "samples_otherwise"]

OTHER_SAMPLING = "other-sampling"

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "typical_p": (1,),
    "top_a": (0,),
    "tfs": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "min_tokens": (0,),
    "min_new_tokens": (0,),
    "best_of": (1,),
    "logit_bias": ({},),
    "bad_words": ([],),
    "logits_processors": ([],),
    "allowed_token_ids": (),
    "custom_logit_processor": (),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "structured_outputs": (),
    "json_schema": (),
    "regex": (),
    "ebnf": (),
    "structural_tag": (),
}
"""The values that change nothing; null never does."""
_GUIDED = "guided_"
_FREE_FORMATS = ("text",)
_FREE_CHOICES = ("auto", "none")


def samples_otherwise(asked: Mapping[str, Any]) -> bool:
    """Whether a call's settings, as OpenAI's API has them, reach beyond the temperature."""
    for name, value in asked.items():
        if value is None:
            continue
        if name.startswith(_GUIDED):
            return True
        if name in _NEUTRAL and value not in _NEUTRAL[name]:
            return True
    form = asked.get("response_format")
    if form is not None and not (isinstance(form, dict) and form.get("type") in _FREE_FORMATS):
        return True
    # Tools are part of the prompt; to have to call one constrains what may be sampled.
    choice = asked.get("tool_choice")
    return choice is not None and choice not in _FREE_CHOICES
