"""Bad files: every one of the bad-candidate suite, made from the release served, over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from reef_release.artifacts.admission import admit
from reef_release.artifacts.bad_candidates import BAD_CANDIDATES, BadCandidate, twin
from reef_release.artifacts.collector import collect
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.artifacts.schema import MAX_SCHEMA_BYTES, parse_schema
from reef_release.artifacts.spoiling import Files, Form
from reef_release.domain.events import FileEntry
from reef_release.drill.attack import Attack, Outcome, Stop, recorded, stopped
from reef_release.drill.context import Context
from reef_release.drill.errors import GotThrough
from reef_release.tokens import TokenRole

__all__ = ["ATTACKS"]

_ROW: Mapping[str, int] = {
    "trailing-byte": 1,
    "appended-zip": 1,
    "file-cut-short": 1,
    "file-of-seven-bytes": 1,
    "two-tensors-at-the-same-offsets": 2,
    "hole-between-tensors": 3,
    "length-prefix-of-2-to-the-64-less-1": 4,
    "header-longer-than-the-file": 4,
    "a-million-empty-tensors": 5,
    "130-000-empty-tensors": 5,
    "key-twice-inside-metadata": 6,
    "tensor-listed-twice": 6,
    "shape-of-2-to-the-40-squared": 7,
    "extra-field-in-an-entry": 8,
    "tensor-name-with-a-path": 8,
    "tensor-name-with-nul": 8,
    "dtype-below-a-byte": 8,
    "header-after-a-space": 8,
    "deeply-nested-header": 8,
    "weights-of-another-framework": 8,
    "no-tensor-at-all": 9,
    "one-nan-in-the-last-shard": 10,
    "lora-with-nan": 10,
    "tensor-renamed": 11,
    "tensor-dropped": 11,
    "shape-transposed": 11,
    "floats-declared-integers": 11,
    "lora-b-under-another-prefix": 11,
    "lora-without-a-partner": 11,
    "lora-of-another-rank": 11,
    "weight-map-leads-outside": 12,
    "weight-map-is-absolute": 12,
    "tensor-mapped-to-the-wrong-shard": 13,
    "tensor-mapped-to-no-shard": 13,
    "wrong-total-size": 13,
    "names-that-differ-by-case": 14,
    "name-in-decomposed-unicode": 14,
    "path-out-of-the-candidate": 14,
    "bomb-in-place-of-weights": 15,
    "archive-with-traversal": 15,
    "archive-under-a-harmless-name": 15,
    "python-file": 16,
    "pickle-beside-the-weights": 16,
    "pickle-under-a-harmless-name": 16,
    "adapter-beside-full-weights": 16,
    "auto-map-in-config": 16,
    "auto-map-in-tokenizer": 16,
    "auto-map-deep-in-config": 16,
    "attention-kernel-from-a-hub": 16,
    "lora-that-imports-classes": 16,
    "lora-that-replaces-modules": 16,
    "chat-template-changed": 17,
    "chat-template-in-tokenizer-config": 17,
    "tokenizer-changed": 17,
    "adapter-names-another-base": 18,
    "generation-config-changed": 19,
    "end-token-swapped-in-generation-config": 19,
    "end-token-swapped-in-config": 19,
}
"""A bad candidate without a row here is one more kind of malformed weights."""
_OTHER_ROW = 8
_QUICK = frozenset(
    {
        "trailing-byte",
        "hole-between-tensors",
        "length-prefix-of-2-to-the-64-less-1",
        "one-nan-in-the-last-shard",
        "tensor-renamed",
        "weight-map-leads-outside",
        "pickle-under-a-harmless-name",
        "chat-template-changed",
        "adapter-names-another-base",
        "end-token-swapped-in-config",
    }
)
_REFUSED = "candidate.refused"
_NOTICE = "NOTICE"
_UNNAMEABLE = {
    "names-that-differ-by-case": "ambiguous-path",
    "name-in-decomposed-unicode": "unsafe-path",
    "path-out-of-the-candidate": "unsafe-path",
}
"""What no statement over weights could name is refused before anything is recorded."""


def _twin(context: Context, form: Form) -> tuple[Files, str]:
    """The good candidate of a form, unlike all before, and what admission says of it.

    It is examined here, by the service's own rules, and not submitted: it might get through.
    """
    served = context.served_files()
    foundation = str(context.kept["served"])
    # Some candidates are spoilt into the same bytes each time; the notice makes them new.
    files = twin(form, context.unlike(served), foundation) | {_NOTICE: context.notice}
    told = context.kept.get(f"twin/{form}")
    if told is None:
        view = context.view()
        client = context.client(TokenRole.TRAIN)
        store = DirectoryBlobStore(context.directory / "twins")
        entries = [
            FileEntry(path=path, sha256=store.put_bytes_sync(content), size_bytes=len(content))
            for path, content in files.items()
        ]
        adapter = form == "adapter"
        found = admit(
            entries,
            store,
            parse_schema(client.read_blob(view.schema, MAX_SCHEMA_BYTES)),
            kind="lora" if adapter else "full",
            foundation=foundation if adapter else None,
            expected_foundation=foundation if adapter else None,
            allowed_changes=frozenset(view.policy["allowed_changes"]),
        )
        if not found.admitted:
            raise GotThrough(f"The good {form} candidate is refused.", reasons=found.reasons)
        told = f"admitted: {found.tensor_count} tensors in {len(files)} files"
        context.kept[f"twin/{form}"] = told
    return files, told


def _thrown(bad: BadCandidate) -> Callable[[Context], Outcome]:
    def run(context: Context) -> Outcome:
        files, told = _twin(context, bad.form)
        spoilt = bad.spoil(files)
        foundation = context.kept["served"] if bad.form == "adapter" else None
        kind = "full" if foundation is None else "lora"
        submit = partial(context.submit, spoilt, kind=kind, foundation=foundation)
        [stop] = _stops(bad)
        if stop.events:
            seen = recorded(context, submit, stop.by, stop.code, _REFUSED)
        else:
            seen = stopped(context, submit, stop.by, stop.code)
        return Outcome(seen=(seen,), twin=told)

    return run


def _stops(bad: BadCandidate) -> tuple[Stop, ...]:
    if bad.name in _UNNAMEABLE:
        return (Stop(by="api", code=_UNNAMEABLE[bad.name]),)
    return (Stop(by="admission", code=bad.code, events=(_REFUSED,)),)


def _attack(bad: BadCandidate) -> Attack:
    return Attack(
        name=bad.name,
        rows=(_ROW.get(bad.name, _OTHER_ROW),),
        tries=f"a candidate with: {bad.name.replace('-', ' ')}",
        stops=_stops(bad),
        run=_thrown(bad),
        roles=frozenset({TokenRole.AUDIT, TokenRole.SERVE, TokenRole.TRAIN}),
        quick=bad.name in _QUICK,
    )


def _links(context: Context) -> Outcome:
    """Names that stand for other bytes, in the directory that a trainer uploads."""
    good = context.unlike(context.served_files())
    folder = context.directory / "links"
    folder.mkdir(exist_ok=True)
    for path, content in good.items():
        (folder / path).write_bytes(content)
    count = len(collect(folder))
    outside = context.directory / "outside"
    outside.write_bytes(b"a private file")
    (folder / "symlink.json").symlink_to(outside)
    os.link(outside, folder / "hardlink.json")
    os.mkfifo(folder / "fifo.json")
    client = context.client(TokenRole.TRAIN)
    seen = tuple(
        stopped(context, lambda: client.upload_directory(folder), "client", code)
        for code in ("symlink", "hard-link", "special-file")
    )
    return Outcome(seen=seen, twin=f"{count} plain files are collected")


ATTACKS = (
    *map(_attack, BAD_CANDIDATES),
    Attack(
        name="links-and-pipes",
        rows=(14,),
        tries="a symbolic link, a hard link and a FIFO among the files that are uploaded",
        stops=(
            Stop(by="client", code="symlink"),
            Stop(by="client", code="hard-link"),
            Stop(by="client", code="special-file"),
        ),
        run=_links,
        roles=frozenset({TokenRole.AUDIT, TokenRole.SERVE, TokenRole.TRAIN}),
        quick=True,
    ),
)
