"""The log as a stranger checks it: checkpoint, tiles, entries and proofs, with the key alone."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from reef_release.audit.event import check_event
from reef_release.domain.canonical import canonical_json
from reef_release.domain.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    TILE_WIDTH,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)
from reef_release.signing.keys import Role
from reef_release.signing.note import Checkpoint, open_checkpoint
from tests.integration.api.story import Story

pytestmark = pytest.mark.anyio

ORIGIN = "reef-release.local/log"


async def checkpoint(story: Story) -> Checkpoint:
    response = await story.ask("audit", "GET", "/reef/log/checkpoint")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    return open_checkpoint(response.text, ORIGIN, [story.site.key(Role.LOG).public])


async def tile(story: Story, level: int | str, index: int, width: int = TILE_WIDTH) -> bytes:
    path = f"/reef/log/tile/{level}/{tile_index(index)}"
    path += "" if width == TILE_WIDTH else f".p/{width}"
    response = await story.ask("audit", "GET", path)
    assert response.status_code == 200, response.text
    return response.content


def tile_index(index: int) -> str:
    """The index as c2sp.org/tlog-tiles writes it."""
    groups = [f"{index % 1000:03}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03}")
    return "/".join(groups)


def root_of(hashes: list[bytes]) -> bytes:
    """RFC 6962 §2.1 from the leaf hashes, written from the definition."""
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return node_hash(root_of(hashes[:split]), root_of(hashes[split:]))


def split_hashes(data: bytes) -> list[bytes]:
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]


def split_entries(data: bytes) -> list[bytes]:
    entries = []
    while data:
        (length,) = struct.unpack(">H", data[:2])
        entries.append(data[2 : 2 + length])
        data = data[2 + length :]
    return entries


async def leaves(story: Story, size: int) -> tuple[list[bytes], list[bytes]]:
    """All entries and all level-0 hashes, tile by tile."""
    entries: list[bytes] = []
    hashes: list[bytes] = []
    for index in range(0, size, TILE_WIDTH):
        width = min(TILE_WIDTH, size - index)
        entries += split_entries(await tile(story, "entries", index // TILE_WIDTH, width))
        hashes += split_hashes(await tile(story, 0, index // TILE_WIDTH, width))
    return entries, hashes


async def test_a_stranger_recomputes_the_root_from_entries_and_tiles(standing: Story) -> None:
    size, root = await checkpoint(standing)
    entries, hashes = await leaves(standing, size)
    assert len(entries) == len(hashes) == size
    assert [leaf_hash(entry) for entry in entries] == hashes
    assert root_of(hashes) == root
    events = await standing.events()
    assert [canonical_json(event) for event in events[:size]] == entries


async def test_every_event_is_proved_and_no_other_passes(standing: Story) -> None:
    size, root = await checkpoint(standing)
    _, hashes = await leaves(standing, size)
    for position in range(size):
        view = await standing.get(
            "audit", "/reef/log/proof/inclusion", params={"position": position, "size": size}
        )
        assert bytes.fromhex(view["root"]) == root
        assert bytes.fromhex(view["leaf_hash"]) == hashes[position]
        proof = [bytes.fromhex(each) for each in view["proof"]]
        assert verify_inclusion(hashes[position], position, size, proof, root)
        assert not verify_inclusion(leaf_hash(b"{}"), position, size, proof, root)
        assert not verify_inclusion(hashes[position], (position + 1) % size, size, proof, root)
    default: dict[str, Any] = await standing.get(
        "audit", "/reef/log/proof/inclusion", params={"position": 0}
    )
    assert default["size"] >= size


async def test_the_log_is_proved_to_have_only_grown(standing: Story) -> None:
    size, root = await checkpoint(standing)
    _, hashes = await leaves(standing, size)
    for first in range(1, size + 1):
        view = await standing.get(
            "audit", "/reef/log/proof/consistency", params={"from": first, "to": size}
        )
        proof = [bytes.fromhex(each) for each in view["proof"]]
        assert verify_consistency(first, size, proof, root_of(hashes[:first]), root)
        assert not verify_consistency(first, size, proof, root_of(hashes[:first][::-1]), root) or (
            first == 1
        )


async def test_a_log_of_several_tiles_is_served_in_full_and_partial_ones(story: Story) -> None:
    release = await story.release()
    body = {
        "scenario": story.scenario,
        "channel": "stable",
        "release_id": release,
        "serial": 1,
        "canary_difference": "0",
    }
    while (await story.get("audit", "/reef/events"))["head"] < 2 * TILE_WIDTH + 20:
        for _ in range(20):
            await story.post("serve", "/reef/nodes/n1/reports", body)
    assert story.service is not None
    story.service.heads._last = None  # not the one of this second
    size, root = await checkpoint(story)
    entries, hashes = await leaves(story, size)
    assert root_of(hashes) == root
    assert [leaf_hash(entry) for entry in entries] == hashes
    upper = split_hashes(await tile(story, 1, 0, 2))
    assert upper == [root_of(hashes[:TILE_WIDTH]), root_of(hashes[TILE_WIDTH : 2 * TILE_WIDTH])]
    # A full tile serves every narrower one; one that is not full yet is not there.
    assert split_hashes(await tile(story, 0, 0, 5)) == hashes[:5]
    assert (await story.ask("audit", "GET", "/reef/log/tile/0/002")).status_code == 404
    assert (await story.ask("audit", "GET", "/reef/log/tile/1/000")).status_code == 404
    assert (await story.ask("audit", "GET", "/reef/log/tile/entries/002")).status_code == 404


async def test_a_checkpoint_covers_every_published_one_and_never_shrinks(story: Story) -> None:
    sizes = [(await checkpoint(story)).size]
    await story.release()
    assert story.service is not None
    story.service.heads._last = None
    sizes.append((await checkpoint(story)).size)
    published = await story.events(type="checkpoint.published")
    assert sizes == sorted(sizes)
    assert sizes[-1] >= max(event["data"]["size"] for event in published)
    for event in published:
        data = event["data"]
        opened = open_checkpoint(data["note"], ORIGIN, [story.site.key(Role.LOG).public])
        assert (opened.size, opened.root.hex()) == (data["size"], data["root"])
        assert data["size"] <= event["position"]
        _, hashes = await leaves(story, data["size"])
        assert root_of(hashes).hex() == data["root"]


async def test_the_draw_rests_on_the_first_checkpoint_after_the_admission(story: Story) -> None:
    await story.release()
    identity = (await story.submit())["candidate_id"]
    assignment = await story.claim_soon()
    events = await story.events()
    admitted = next(
        event["position"]
        for event in events
        if event["type"] == "candidate.admitted" and event["data"]["candidate_id"] == identity
    )
    covering = [
        event["position"]
        for event in events
        if event["type"] == "checkpoint.published" and event["data"]["size"] > admitted
    ]
    assert assignment.opened.checkpoint_position == covering[0]


async def test_the_proof_of_one_event_stands_by_itself(story: Story) -> None:
    root = story.site.anchor
    response = await story.ask("audit", "GET", "/reef/log/proof?position=3")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    page = await story.ask("audit", "GET", "/reef/events?after=2&limit=1")
    (event,) = page.json()["events"]
    report = check_event(canonical_json(event), response.text, [root])
    assert (report.position, report.origin) == (3, ORIGIN)
    missing = await story.ask("audit", "GET", "/reef/log/proof?position=99999")
    assert missing.status_code == 404
