"""Which release a channel served first: proven, or refused."""

from __future__ import annotations

import dataclasses
import json

import httpx
import pytest

from reef_release.errors import Refused
from reef_release.node.node import Node
from reef_release.node.origin import first_release
from reef_release.node.trusted import Memory
from reef_release.node.vault import Vault
from tests.fakes import FakeService
from tests.unit.node.conftest import Host, codes


@pytest.fixture
def memory(service: FakeService, host: Host) -> Memory:
    """What a node knows after two more promotions."""
    service.world.release()
    service.world.release()
    service.world.checkpoint()
    node = host.node()
    node.start()
    assert node.step().release_id == service.world.serving
    return node.memory


def only_later(service: FakeService, request: httpx.Request) -> httpx.Response:
    """The page of promotions without the first one."""
    page = json.loads(service._events(request).content)
    return httpx.Response(200, json={**page, "events": page["events"][1:]})


def test_the_first_promotion_names_the_origin(service: FakeService, memory: Memory) -> None:
    first = service.world.scenario.pointers["stable"][0].release_id
    assert first_release(service.client(), memory) == first != service.world.serving


def test_a_later_promotion_does_not_pass_for_the_first(
    service: FakeService, memory: Memory
) -> None:
    service.answers["/reef/events"] = lambda request: only_later(service, request)
    with pytest.raises(Refused) as refused:
        first_release(service.client(), memory)
    assert codes(refused.value) == ["no-origin"]


def test_an_event_that_is_not_in_the_tree_is_refused(service: FakeService, memory: Memory) -> None:
    def forged(request: httpx.Request) -> httpx.Response:
        page = json.loads(service._events(request).content)
        page["events"][0]["data"]["release_id"] = "f" * 64
        return httpx.Response(200, json=page)

    service.answers["/reef/events"] = forged
    with pytest.raises(Refused) as refused:
        first_release(service.client(), memory)
    assert codes(refused.value) == ["not-included"]


def test_a_node_that_serves_nobody_tells_nobody(service: FakeService, host: Host) -> None:
    service.world.checkpoint()
    quiet = dataclasses.replace(host.config, reports=False)
    node = Node(quiet, service.client(), host.engine, Vault(quiet.state), lambda: service.world.now)
    node.start()
    assert node.step().release_id == service.world.serving
    assert service.reports == []
