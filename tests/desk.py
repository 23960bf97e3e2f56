"""A client of a world for verbs of the command line; the views are by the service's own code."""

from __future__ import annotations

import asyncio

import msgspec

from reef_release import wire
from reef_release.account_wire import AccountView, CandidateAccountView
from reef_release.api import views
from reef_release.domain import events as ev
from reef_release.traffic_wire import HourView, OpenView, SignalView
from reef_release.web.accounts import account, candidate_account
from reef_release.wire import KeysView, KeyView, ScenariosView
from tests.web_pages import past_of
from tests.world import World

__all__ = ["Desk"]


class Desk:
    """A client of a world, as far as verbs that look or revoke ask it; `trains` is its role."""

    def __init__(self, world: World, *, trains: bool = False) -> None:
        self.world = world
        self.trains = trains

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_given: object) -> None:
        pass

    def trust_keys(self) -> list[KeyView]:
        return KeysView(
            keys=[
                KeyView(
                    key_id=key.ref.key_id,
                    role=key.ref.role,
                    public_key=key.ref.public_key,
                    added_position=key.added_position,
                    revoked_position=key.revoked_position,
                )
                for key in self.world.state.keys.values()
            ]
        ).keys

    def revoke_key(self, key_id: str, reason: str) -> wire.WrittenView:
        role = self.world.state.keys[key_id].ref.role
        data = ev.KeyRevoked(key_id=key_id, role=role, reason=reason)
        return wire.WrittenView(position=self.world.append(data), event_id="e")

    def scenarios(self) -> list[wire.ScenarioView]:
        state = self.world.state
        found = [views.scenario_view(state, each) for each in state.scenarios.values()]
        return ScenariosView(scenarios=found).scenarios

    def scenario(self, name: str) -> wire.ScenarioView:
        return views.scenario_view(self.world.state, self.world.state.scenarios[name])

    def releases(self, scenario: str) -> list[wire.ReleaseView]:
        found = self.world.state.scenarios[scenario]
        return [
            views.release_view(self.world.state, found, each) for each in found.releases.values()
        ]

    def candidates(self, scenario: str, status: str | None = None) -> list[wire.CandidateView]:
        found = self.world.state.scenarios[scenario]
        every = [
            views.candidate_view(self.world.state, found, each)
            for each in found.candidates.values()
        ]
        return [each for each in every if status in (None, each.status)]

    def account(self, _scenario: str) -> AccountView:
        past = past_of(self.world, self.world.head).past
        return asyncio.run(account(past, figures=not self.trains))

    def candidate_account(self, _scenario: str, candidate_id: str) -> CandidateAccountView:
        past = past_of(self.world, self.world.head).past
        told = candidate_account(past, candidate_id, [], figures=not self.trains)
        return asyncio.run(told)

    def signal(self, scenario: str, _hours: int) -> SignalView:
        seen = past_of(self.world, self.world.head)
        counts = msgspec.to_builtins(seen.signal.total(scenario))
        return SignalView(
            scenario=scenario,
            position=self.world.head,
            alarm=self.world.scenario.traffic.alarm_reason,
            unbound_run=0,
            suspended_judges=0,
            total=HourView(hour="", **counts),
            hours=[],
            waiting=OpenView(
                sessions=0,
                to_correlate=0,
                to_judge=0,
                samples=0,
                batch_size=1,
                batches=0,
                claimed=0,
                training=0,
                completed=0,
            ),
            findings=[],
        )
