"""`audit export | verify | replay`: the promotion history, proved without trusting the service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET

from reef_release.audit.event import check_event
from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.replay import replay
from reef_release.audit.report import ErasuresReport, ReplayReport, VerifyReport
from reef_release.audit.verify import verify, verify_on
from reef_release.cli.audit_given import (
    read_bytes,
    read_text,
    require_folders,
    require_order,
    require_place,
)
from reef_release.cli.audit_page import report_page
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, TokenFile, Url, connect
from reef_release.cli.output import complain, console, emit, print_table
from reef_release.cli.scorer import scoring_program
from reef_release.errors import InvalidEvent, SettingsError, SignatureRejected
from reef_release.ids import short_id
from reef_release.settings import load_settings
from reef_release.signing.keyring import ROOT_NAME
from reef_release.signing.root import open_root

__all__ = ["app", "read_anchor", "replay_with_weights"]

app = typer.Typer(help="Export the log; verify and replay an export offline.", no_args_is_help=True)

_SHOWN_ERASURES = 20
_GET_PROOF = (
    "A proof comes from /reef/log/proof?position=N, and is of the one event at that position of "
    "that log; the roots are given from version 1 on."
)
_WHY = (
    "Why each promotion was allowed, and what was refused and why, stands in the report: the same "
    "command with --report FILE.html."
)

_Folder = Annotated[Path, typer.Argument(help="The folder of the export.")]
_Root = Annotated[
    Path | None,
    typer.Option("--root", help="Trust root version 1, from outside; default HOME/keys."),
]
_Kept = Annotated[
    list[Path] | None,
    typer.Option(
        "--look-in", help="Another folder (older export, backup) to look for erased bodies in."
    ),
]
_Earlier = Annotated[
    list[Path] | None,
    typer.Option("--earlier", help="A checkpoint kept from before; may be repeated."),
]
_Since = Annotated[
    list[Path] | None,
    typer.Option("--since", help="The export that it goes on from; of several, the oldest first."),
]
_Page = Annotated[
    Path | None,
    typer.Option("--report", help="Write the report as one HTML file, too."),
]


@app.command("export")
def export_command(
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    weights: Annotated[
        bool, typer.Option("--with-weights", help="Include the model files of gated candidates.")
    ] = False,
    since: _Since = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a self-contained folder: events, checkpoint, trust roots, suites, raw replies."""
    with connect(url, token_file) as client:
        manifest = export(ClientSource(client), out, include_weights=weights, since=since or ())
    held = sum(segment.count for segment in manifest.segments)
    text = f"{held} events are in {out}."
    if manifest.since is not UNSET:
        text = (
            f"{held} events are in {out}, from position {manifest.since.size} on; it goes on from "
            f"{(since or [out])[-1]}, and together they are the {manifest.size} of the log."
        )
    emit(manifest, as_json=as_json, text=text)


@app.command("verify")
def verify_command(
    folder: _Folder,
    root: _Root = None,
    earlier: _Earlier = None,
    kept: _Kept = None,
    since: _Since = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            help="Go on from what an earlier verification left here; write what it leaves.",
        ),
    ] = None,
    page: _Page = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check form, order, root, signatures and blobs; exit status 1 with a list of problems."""
    start, anchor = time.perf_counter(), read_anchor(root, home)
    goes_on = state is not None and state.exists()
    require_order([*(since or ()), folder], state=goes_on)
    require_folders(kept or (), "--look-in")
    require_place(page, "The report")
    require_place(state, "The state")
    if state is None:
        report = verify(folder, anchor, earlier=_notes(earlier), since=since or (), kept=kept or ())
    elif earlier or since:
        raise SettingsError(
            "--state takes the place of --since and --earlier.",
            next_step="Give --state alone: it holds the checkpoint that it goes on from.",
        )
    else:
        next_step = "Name the file that an earlier verification wrote, or a new one."
        saved = read_text(state, "The state", next_step) if goes_on else None
        report, left = verify_on(folder, anchor, saved, kept=kept or ())
        _keep(state, left)
    _write_page(page, report, start)
    if as_json:
        emit(report, as_json=True)
    else:
        _print_problems(report)
        _print_erasures(report.erasures)
        if report.good:
            console.print(
                f"Good: {report.event_count} events, root and signatures agree.\n{_until(report)}",
                markup=False,
                soft_wrap=True,
            )
    if not report.good:
        raise typer.Exit(1)


@app.command("replay")
def replay_command(
    folder: _Folder,
    root: _Root = None,
    earlier: _Earlier = None,
    kept: _Kept = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            help="Run recorded tokens through weights: DIR/RELEASE_ID/, else those exported.",
        ),
    ] = None,
    since: _Since = None,
    page: _Page = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Derive every promotion again from raw replies; exit status 1 with a list of problems."""
    start, anchor = time.perf_counter(), read_anchor(root, home)
    require_order([*(since or ()), folder])
    require_folders(kept or (), "--look-in")
    require_folders([weights] if weights else (), "--weights")
    require_place(page, "The report")
    if weights is None:
        report = replay(folder, anchor, earlier=_notes(earlier), since=since or (), kept=kept or ())
    else:
        report = replay_with_weights(
            folder,
            anchor,
            weights,
            earlier=_notes(earlier),
            since=since or (),
            kept=kept or (),
        )
    _write_page(page, report, start)
    if as_json:
        emit(report, as_json=True)
    else:
        _print(report)
        if page is None:
            console.print(_WHY, markup=False, soft_wrap=True)
    if not report.good:
        raise typer.Exit(1)


@app.command("event")
def event_command(
    event: Annotated[Path, typer.Argument(help="The event's bytes, exactly as stored.")],
    proof: Annotated[Path, typer.Argument(help="Its proof: /reef/log/proof?position=N.")],
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", help="Trust roots from version 1 on, in order; default HOME/keys."),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check one event offline; exit status 1 when the proof does not hold."""
    roots = [read_anchor(each, home) for each in root] if root else [read_anchor(None, home)]
    body = read_bytes(event, "The event", "Give one line of events/ of an export, as it is.")
    proven = read_text(proof, "The proof", _GET_PROOF)
    try:
        report = check_event(body, proven, roots)
    except (SignatureRejected, InvalidEvent) as error:
        if as_json:
            emit({"good": False, "problems": error.reasons or [str(error)]}, as_json=True)
        else:
            complain(error)
            console.print(_GET_PROOF, markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    emit(
        report,
        as_json=as_json,
        text=f"Good: {report.type} of {report.scenario!r}, by {report.actor!r}, is event "
        f"{report.position} of the {report.size} that {report.origin} has signed.",
    )


def replay_with_weights(
    folder: Path,
    anchor: str,
    weights: Path | None,
    *,
    earlier: Sequence[str] = (),
    since: Sequence[Path] = (),
    kept: Sequence[Path] = (),
) -> ReplayReport:
    """Replay and run the recorded tokens through the weights as well."""
    with scoring_program() as scorer:
        return replay(
            folder,
            anchor,
            earlier=earlier,
            since=since,
            kept=kept,
            scorer=scorer,
            weights=weights,
        )


def read_anchor(root: Path | None, home: Path | None) -> str:
    """The trust root version 1, from *root* or from the key directory. Raises `SettingsError`.

    What is no trust root at all is refused here: against it every log would look tampered with.
    """
    path = root or load_settings(home=home).keys_dir / ROOT_NAME
    try:
        text = path.read_text("utf-8")
        open_root(text)
    except SignatureRejected as error:
        raise SettingsError(
            f"{path} is no trust root that can be used: {str(error.reasons[0]).removesuffix('.')}.",
            next_step="Give the `root.json` of the log with --root, no key; get it by another way "
            "than from the service.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The trust root {path} cannot be read: {error}.",
            next_step="Name it with --root; get it by another way than from the service.",
        ) from error
    return text


def _write_page(path: Path | None, report: VerifyReport, start: float) -> None:
    """Write *report*, begun at *start*, as a page; an older report is replaced."""
    if path is None:
        return
    try:
        path.write_text(report_page(report, time.perf_counter() - start), "utf-8")
    except OSError as error:
        raise SettingsError(
            f"The report cannot be written: {error.strerror}.", next_step="Name another file."
        ) from error


def _keep(path: Path, state: str | None) -> None:
    """Replace the saved state as a whole; one that would not be good leaves the old one."""
    if state is None:
        return
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(state, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise SettingsError(
            f"The state cannot be written: {error.strerror}.", next_step="Name another file."
        ) from error


def _notes(paths: list[Path] | None) -> list[str]:
    next_step = "Give the file `checkpoint` of an export that you kept."
    return [read_text(path, "The checkpoint", next_step) for path in paths or ()]


def _print_problems(report: VerifyReport) -> None:
    for problem in report.problems:
        console.print(str(problem), markup=False, soft_wrap=True)
    count = len(report.problems) + report.problems_left_out
    if count:
        console.print(_bad(count), markup=False, soft_wrap=True)


def _bad(count: int) -> str:
    found = "1 problem was" if count == 1 else f"{count:,} problems were"
    return (
        f"Bad: {found} found; what rests on them is not proven. The page on the export format says "
        "what each code means. Make another export; if it stays so, keep both: they are evidence."
    )


def _print(report: ReplayReport) -> None:
    print_table(
        "Pointer events, each derived again",
        ["position", "event", "scenario", "channel", "release"],
        [
            [
                str(event.position),
                event.type,
                event.scenario,
                event.channel,
                short_id(event.release_id),
            ]
            for event in report.pointer_events
        ],
    )
    _print_problems(report)
    _print_erasures(report.erasures)
    if report.weights is not None:
        found = report.weights
        console.print(
            f"Weights: {found.trial_count} replies and {found.canary_count} canaries of "
            f"{found.release_count} candidates, {found.max_difference:.2e} nats apart at most.",
            markup=False,
            soft_wrap=True,
        )
    if report.good:
        console.print(
            f"Good: {report.event_count} events replayed.\n{_until(report)}",
            markup=False,
            soft_wrap=True,
        )


def _print_erasures(erasures: ErasuresReport) -> None:
    if not erasures.count:
        return
    reasons = ", ".join(f"{reason!r} {count}" for reason, count in erasures.reasons.items())
    lines = [f"Erased: {erasures.count} bodies ({reasons}); the events that name them stand."]
    for body in erasures.bodies:
        where = "; ".join(body.present_in)
        present = f"STILL PRESENT: {where}" if where else "gone from what was looked at"
        lines.append(f"  {body.digest} {body.kind} at {body.position}: {present}")
    hidden = len(lines) - 1 - _SHOWN_ERASURES
    if hidden > 0 and not any(body.present_in for body in erasures.bodies[_SHOWN_ERASURES:]):
        lines = [*lines[: _SHOWN_ERASURES + 1], f"  and {hidden} more, all gone (see --json)"]
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _until(report: VerifyReport) -> str:
    anchor = report.anchor
    return (
        f"It rests on the trust root version 1 with the SHA-256 {anchor.sha256}; version "
        f"{anchor.version} is in force at the end, position {report.event_count - 1}.\n"
        f"The last event is of {report.last_recorded_at}; whether more came after it only a newer "
        "checkpoint can tell (--earlier)."
    )
