"""Honest events of other streams that land while a request is on its way to the log.

`Interrupted` lets them land at the worst moment: after the rule was asked, before the append.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.reasons import Reason
from reef_release.log import Appended, NewEvent, RuleRefused
from reef_release.signing.keys import Role, SigningKey, create_key
from tests.integration.api.story import Problem, Story, until
from tests.integration.api.test_trust import key_ids, put, root_keys, signed_root
from tests.integration.log.mirror import new_event

pytestmark = pytest.mark.anyio

BUDGET = {
    "procedure": "false_discovery_rate",
    "alpha": "0.5",
    "gamma": {"first_block": 100, "decay": 1},
}
PART = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "improves", "alpha": None, "max_deficit": 3, "max_trials": 28},
}


class Interrupted:
    """The log of a story's service; just before the next event of *kind*, *rival* is appended."""

    def __init__(self, story: Story, kind: type[ev.EventData], rival: ev.EventData) -> None:
        assert story.service is not None
        self._log = story.service.log
        self._kind = kind
        self._rival: ev.EventData | None = rival

    @property
    def landed(self) -> bool:
        return self._rival is None

    async def append(self, event: NewEvent) -> Appended:
        rival, self._rival = self._rival, None if event.type == self._kind.TYPE else self._rival
        if rival is not None and event.type == self._kind.TYPE:
            await self._log.append(new_event(rival))
        return await self._log.append(event)


@pytest.fixture
def interrupt(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> Callable[[type[ev.EventData], ev.EventData], Interrupted]:
    def install(kind: type[ev.EventData], rival: ev.EventData) -> Interrupted:
        assert story.service is not None
        log = Interrupted(story, kind, rival)
        monkeypatch.setattr(story.service.commands, "_log", log)
        return log

    return install


def revocation(key: SigningKey) -> ev.KeyRevoked:
    return ev.KeyRevoked(key_id=key.key_id, role=Role.GATE.value, reason="stolen")


async def second_gate_key(story: Story) -> SigningKey:
    """A gate key beside the first one, known to the log."""
    key = create_key(Role.GATE)
    text = signed_root(story, root_keys(story)[1:], add=[key.public])
    assert (await put(story, text)).status_code == 200
    await until(lambda: key_ids(story), lambda known: key.key_id in known)
    return key


def violations(story: Story) -> list[Any]:
    assert story.service is not None
    return story.service.state.violations


async def test_a_gate_whose_key_is_revoked_under_way_is_decided_with_another(
    story: Story, interrupt: Any
) -> None:
    key = await second_gate_key(story)
    await story.submit()
    gate = await story.run_trials(await story.claim_soon(), "---")
    log = interrupt(ev.GateFailed, revocation(key))
    with pytest.raises(Problem) as refused:
        await story.decide(gate, key=key)
    assert refused.value.status == 422
    assert log.landed
    assert violations(story) == []
    assert await story.decide(gate) == "failed"


async def test_a_pass_whose_key_is_revoked_under_way_is_not_promoted_and_jams_nothing(
    story: Story, interrupt: Any
) -> None:
    served = await story.release()
    key = await second_gate_key(story)
    candidate = (await story.submit())["candidate_id"]
    gate = await story.run_trials(await story.claim_soon(), "++")
    await story.decide(gate, key=key)
    log = interrupt(ev.ReleasePromoted, revocation(key))
    await story.sign(candidate)
    await until(lambda: key_ids(story), lambda known: known[key.key_id] is not None)
    assert log.landed
    assert violations(story) == []
    assert await story.serving() == served
    assert len(await story.events(type="release.promoted")) == 1
    following = await story.release()
    assert await story.serving() == following


async def test_a_pass_before_which_the_pointer_moves_under_way_is_refused_as_stale(
    story: Story, interrupt: Any
) -> None:
    first = await story.release()
    await story.release()
    candidate = (await story.submit())["candidate_id"]
    gate = await story.run_trials(await story.claim_soon(), "++")
    moved = ev.ReleaseRolledBack(release_id=first, channel="stable", reason="worse in use")
    log = interrupt(ev.GatePassed, moved)
    with pytest.raises(Problem) as refused:
        await story.decide(gate)
    assert refused.value.status == 409
    assert log.landed
    assert violations(story) == []
    await story.gate()
    await story.sign(candidate)
    await story.promoted(candidate)
    assert await story.serving() == candidate


async def test_a_second_gate_does_not_open_behind_another_policy(
    story: Story, interrupt: Any
) -> None:
    policy = story.signed_policy(budget=BUDGET, standard=PART)
    assert (
        await story.ask(
            "operate", "PUT", story.path("policy"), json={"policy": policy, "reason": "x"}
        )
    ).status_code == 200
    await story.release()
    await story.submit()
    gate = await story.run_trials(await story.claim_soon(), "eee")
    assert await story.decide(gate) == "errored"
    assert story.service is not None
    log = interrupt(ev.GateOpened, policy_changed(story))
    assert await story.claim() is None
    assert log.landed
    assert violations(story) == []
    assert len(await story.events(type="gate.opened")) == 2


def policy_changed(story: Story) -> ev.PolicyChanged:
    policy = story.signed_policy(budget=BUDGET, standard=PART)
    return ev.PolicyChanged(policy_digest=digest_of(policy), policy=policy, reason="next")


def digest_of(policy: dict[str, Any]) -> str:
    return sha256_hex(base64.b64decode(policy["payload"]))


async def test_a_channel_that_the_database_refuses_starves_no_other(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    jammed = (await story.submit())["candidate_id"]
    other = (await story.submit(channel="beta"))["candidate_id"]
    assert story.service is not None
    log = story.service.log

    class Jammed:
        async def append(self, event: NewEvent) -> Appended:
            if event.type == "gate.opened" and jammed.encode() in event.data:
                reason = Reason(code="other-base", message="the database has another pointer")
                raise RuleRefused("gate.opened is refused", reasons=[reason])
            return await log.append(event)

    monkeypatch.setattr(story.service.commands, "_log", Jammed())
    assert (await story.claim_soon()).opened.candidate_id == other
