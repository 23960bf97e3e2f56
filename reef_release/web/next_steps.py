"""What comes next for a candidate, and who does it: the sentence under its account."""

from __future__ import annotations

from reef_release.api.openings import closed_reasons
from reef_release.web.candidate_page import CandidatePage
from reef_release.web.past import Past
from reef_release.web.words import count_of

__all__ = ["next_step"]

_OTHER = "It is decided for good: submit other weights (reef-release candidate submit)."
_NEW_KEY = (
    "The next trust root must list a new gate key (reef-release keys new gate, keys rotate --add, "
    "keys sign, keys publish); then start a worker with it (reef-release gate --key)."
)


def next_step(page: CandidatePage, past: Past, *, is_held: bool) -> str:
    """What to do, or what to wait for; *is_held* is whether promotions are held."""
    match page.status:
        case "refused":
            return "Mend every reason and submit again; other files are another candidate."
        case "revoked":
            return "Nothing: it is barred for good. Submit other weights."
        case "submitted":
            return "Wait: its admission reads its files, and a gate opens after that."
        case "failed" | "inconclusive":
            return _OTHER
        case "promoted":
            return _promoted(page)
        case "passed" | "passing":
            return _passed(page, past, is_held)
        case "in gate":
            if not past.key_counts("gate"):
                return _NEW_KEY
            return "Wait: the gate worker (reef-release gate) posts its trials and decides."
        case _:
            return _ungated(page, past)


def _promoted(page: CandidatePage) -> str:
    if page.is_serving:
        if page.reasons:
            return "It is still served: roll back (reef-release rollback), or gate other weights."
        return "Nothing: it is what its channel serves."
    if page.reasons:
        return "Nothing: it was served, and what was revoked bars it from being served again."
    return "Nothing: it was served before. reef-release rollback can serve it again."


def _passed(page: CandidatePage, past: Past, is_held: bool) -> str:
    pointer = past.serving(page.candidate.submitted.channel)
    gate = past.scenario.gates[page.gate_id or ""]
    if pointer is not None and pointer.position > gate.opened_position:
        return "Nothing: what is served has moved since its gate opened. Submit other weights."
    if any(reason.code == "too-few-workers" for reason in page.reasons):
        if closed := closed_reasons(past.history.state, past.scenario, page.candidate):
            return f"Nothing: no other gate worker can pass it ({closed[0]}). Submit other weights."
        return (
            "Another gate worker has to pass it too (reef-release gate, with a gate key and a "
            "token of its own)."
        )
    if page.approvals_given < page.approvals_wanted:
        missing = page.approvals_wanted - page.approvals_given
        return (
            f"{count_of(missing, 'more approval')} of {page.approvals_wanted} "
            f"{'is' if missing == 1 else 'are'} needed (reef-release approve)."
        )
    if any(reason.code == "not-signed" for reason in page.reasons):
        if not past.key_counts("release"):
            return "No release key counts: the next trust root must list one (reef-release keys)."
        return "The signer signs its weights (reef-release signer); the promotion follows."
    if is_held:
        return "Promotions are held: it is promoted after reef-release resume."
    return "Wait: the service promotes it."


def _ungated(page: CandidatePage, past: Past) -> str:
    """Admitted without a gate, or with one that errored or went stale."""
    if page.reasons:
        return "No gate will open over it: submit other weights."
    if not past.key_counts("gate"):
        return _NEW_KEY
    if page.candidate.draw is None:
        return "Wait: the next checkpoint draws its tasks, and a gate opens then."
    return "A gate worker opens its gate (reef-release gate must run with a token of role gate)."
