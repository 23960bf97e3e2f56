"""Why an event of a watch may not stand at this place of the log, and what answers a fall.

A watch can take a release out of serving and put none in: the answer to a fall is a hold, and a
rollback to what was promoted before, once per promotion. What it rolls back to is not rolled back
by a watch again, so whoever could forge all replies of a watch gets one step back and no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.events import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.rule import rollback_reasons
from reef_release.domain.state import Scenario, State
from reef_release.domain.watch import SIDE, Watch, finding_of, watch_seed

__all__ = ["WATCH_VALIDATORS", "answers_due", "watch_of"]

_SHOWN = 3
_TRIAL_ERRORS = frozenset({"crashed", "timed-out", "truncated"})


def watch_of(state: State, scenario: Scenario, channel: str) -> Watch | None:
    """The watch of what *channel* serves: the one begun, or the one that would begin now.

    None when nothing is served, when the policy in force has no watch, and before a checkpoint
    covers the pointer event.
    """
    serving = scenario.serving(channel)
    if serving is None:
        return None
    begun = scenario.watches.get(serving.position)
    if begun is not None:
        return begun
    in_force = scenario.policy
    checkpoint = state.first_checkpoint_covering(serving.position)
    if in_force.policy.watch is None or checkpoint is None:
        return None
    return Watch(
        pointer_position=serving.position,
        channel=channel,
        release_id=serving.release_id,
        rule=in_force.policy.watch,
        policy_digest=in_force.digest,
        suite=in_force.policy.suite,
        generation=in_force.policy.generation,
        seed=watch_seed(checkpoint.root, serving.release_id, in_force.digest),
    )


def answers_due(state: State, scenario: Scenario) -> Iterator[EventData]:
    """What the service has to append because a release that is served has fallen."""
    for channel, history in scenario.pointers.items():
        serving = history[-1]
        watch = scenario.watches.get(serving.position)
        if watch is None or watch.fallen_position is None:
            continue
        why = (
            f"watch: release {watch.release_id[:12]} has fallen under {watch.rule.bar}, "
            f"{watch.progress.passed} of {watch.progress.trials} trials passed; see the "
            f"finding at position {watch.fallen_position}"
        )
        back, held = _way_back(state, scenario, channel, watch)
        if watch.answered_position is None:
            yield ev.ScenarioHeld(reason=why if back is not None else f"{why}; {held}")
        if back is not None:
            yield ev.ReleaseRolledBack(release_id=back, channel=channel, reason=why)


def _way_back(
    state: State, scenario: Scenario, channel: str, watch: Watch
) -> tuple[str | None, str]:
    """The release that a fall is answered with; else None, and why there is only a hold."""
    history = scenario.pointers[channel]
    if not watch.rule.automatic:
        return None, "not rolled back, since the policy's watch says to hold only (`automatic`)"
    # A release that was rolled back to is a person's choice, or this very answer: a second
    # step would let one wrong watch walk through the whole history.
    if history[-1].kind != ev.ReleasePromoted.TYPE:
        return None, "not rolled back, since this release was rolled back to already"
    against: dict[str, str] = {}
    for earlier in reversed(history):
        release_id = earlier.release_id
        if release_id == watch.release_id or release_id in against:
            continue
        data = ev.ReleaseRolledBack(release_id=release_id, channel=channel, reason="a fall")
        reasons = [*_fell(scenario, release_id), *rollback_reasons(state, scenario, data)]
        if not reasons:
            return release_id, ""
        against[release_id] = ", ".join(each.message for each in reasons)
    if not against:
        return None, "not rolled back, since the channel served no other release before"
    shown = [f"{name[:12]}: {what}" for name, what in itertools.islice(against.items(), _SHOWN)]
    more = f", and {len(against) - _SHOWN} more" if len(against) > _SHOWN else ""
    return None, "not rolled back, since none of those before can be: " + "; ".join(shown) + more


def _fell(scenario: Scenario, release_id: str) -> list[Reason]:
    """What a watch found of *release_id*: a person may still serve it, a watch goes elsewhere."""
    return [
        _no("fallen", f"a watch found it fallen at position {watch.fallen_position}")
        for watch in scenario.watches.values()
        if watch.release_id == release_id and watch.fallen_position is not None
    ][:1]


def _standing(
    state: State, found: Scenario, data: ev.WatchTrial | ev.WatchFallen
) -> Watch | list[Reason]:
    """The watch that *data* is of, or why there is none."""
    serving = found.serving(data.channel)
    if serving is None or (serving.position, serving.release_id) != (
        data.pointer_position,
        data.release_id,
    ):
        return [_no("pointer", "the channel serves by another pointer event now")]
    watch = watch_of(state, found, data.channel)
    if watch is None:
        return [_no("not-watched", "no policy asks for it, or no checkpoint covers the pointer")]
    if watch.fallen_position is not None:
        return [_no("watch-over", f"the release fell at position {watch.fallen_position}")]
    return watch


def _watch_trial(
    state: State, checks: Checks, _scenario: str, found: Scenario, data: ev.WatchTrial
) -> list[Reason]:
    watch = _standing(state, found, data)
    if isinstance(watch, list):
        return watch
    due = watch.due_anew if data.anew else watch.due
    if due is None:
        return [_no("watch-over", "no trial of this watch is left")]
    if (data.number, data.attempt) != due:
        number, attempt = due
        return [_no("trial-not-due", f"due is trial {number}, attempt {attempt}")]
    task = watch.task(data.number, checks.suite(watch.suite).tasks)
    if data.task_id != task.id:
        return [_no("task-not-drawn", f"trial {data.number} has another task")]
    if (data.error is None) == (data.verdict is None):
        return [_no("trial-form", "a trial has either a verdict or an error")]
    if data.error is not None and data.error not in _TRIAL_ERRORS:
        return [_no("trial-form", f"an error is one of {sorted(_TRIAL_ERRORS)}")]
    if data.body is None:
        return [_no("trial-form", "a verdict needs a body")] if data.error is None else []
    body = checks.trial(data.body)
    seed = watch.sampling_seed(data.number)
    if (body.task_id, body.side, body.release_id, body.sampling_seed) != (
        task.id,
        SIDE,
        watch.release_id,
        seed,
    ):
        return [_no("other-body", "the body records another trial")]
    if not body.token_ids or len(body.logprobs) != len(body.token_ids):
        return [_no("logprobs", "a reply has tokens, and each has one log-probability")]
    whole = body.finish_reason == "stop"
    if data.verdict is None:
        return [_no("not-truncated", "a whole reply is no error")] if whole else []
    if not whole:
        return [_no("truncated", "a reply that was cut short has no verdict")]
    if data.verdict != checks.verdict(watch.rule.verifiers, body.reply, task.answer):
        return [_no("verdict", "the verifiers say something else of this reply")]
    return []


def _watch_fallen(
    state: State, checks: Checks, scenario: str, found: Scenario, data: ev.WatchFallen
) -> list[Reason]:
    watch = _standing(state, found, data)
    if isinstance(watch, list):
        return watch
    if watch.progress.state_of(watch.rule) != "fallen":
        return [_no("not-fallen", "the trials do not show that the release has fallen")]
    finding = checks.finding(data.attestation, state.active_keys("gate"))
    if finding != finding_of(scenario, watch):
        return [_no("finding", "the signed finding differs from what the log says")]
    return []


def _no(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)


WATCH_VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.WatchTrial: _watch_trial,
    ev.WatchFallen: _watch_fallen,
}
