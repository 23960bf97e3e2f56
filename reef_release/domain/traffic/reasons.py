"""Why a call or a judged turn trains nothing: every code with its meaning in words for people."""

from __future__ import annotations

from collections.abc import Container, Mapping

__all__ = ["CALL_ERRORS", "METHODS", "REFUSALS", "RESTORABLE", "training_fault"]

METHODS: Mapping[str, str] = {
    "recovery": "It echoes a reply that was served, although the rest was rewritten.",
    "tag": "It came under the session tag of the call before.",
    "transcript": "Its messages continue a recorded request and the reply to it.",
}
"""How a call was bound to the one that it continues."""

CALL_ERRORS: Mapping[str, str] = {
    "client-disconnected": "The client went away before the answer ended.",
    "service-stopped": "The service ended in the middle of the call.",
    "timed-out": "The upstream was silent for too long.",
    "upstream-error": "The upstream answered with an error, broke off, or could not be reached.",
}
"""Why a call has no whole answer; it is never judged."""

REFUSALS: Mapping[str, str] = {
    "body-missing": "What was said is missing or damaged, or larger than can be sent.",
    "came-to-nothing": "It was trained on in as many lines of one release as is allowed "
    "(`sample_max_lines`), and none of them came to a release; `restore` lets it be tried again.",
    "erased": "What was said, or what was said about it, is erased.",
    "gate-task": "The request holds a task of the gate, which must never be trained on.",
    "incomplete-token-data": "Prompt ids, sampled ids or log-probabilities are missing.",
    "judge-suspended": "Its judge was suspended when it judged.",
    "length-mismatch": "There are more or fewer log-probabilities, or places of the mask, than "
    "sampled ids.",
    "no-mask": "The mask holds something else than 0 and 1.",
    "no-token-data": "It was recorded without token ids and log-probabilities.",
    "not-a-log-probability": "A log-probability is missing, not finite, above 0, or below -10,000.",
    "other-sampling": "It was sampled otherwise than by the temperature alone, as by top_p.",
    "quarantined": "It stood in a batch whose training failed three times, or that was given back "
    "or lapsed ten times; `restore` lets it be tried again.",
    "stale": "Its reply is of a release that is served no more, or not yet.",
    "temperature": "It was sampled at a temperature below 0.01, as at 0 where nothing is drawn, "
    "or above 10.",
    "token-id-out-of-range": "A token id is negative, or 2^31 or more.",
    "too-long": "Its reply has more tokens than a sample may have.",
    "turn-used": "Another sample trains the same reply.",
    "unknown-release": "Its reply names no release of this scenario.",
}
"""Why a judged turn gives no sample."""

RESTORABLE = frozenset({"came-to-nothing", "quarantined"})
"""Refusals that follow from what trainers did, so that an operator can lift them."""


def training_fault(
    releases: Container[str], release_id: str | None, token_fault: str | None
) -> str | None:
    """Why a reply can never train, as far as its recording alone tells; None if it may."""
    if token_fault is not None:
        return token_fault
    return "unknown-release" if release_id is None or release_id not in releases else None
