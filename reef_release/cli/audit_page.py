"""An audit's report as one HTML file: no script, no font, no picture, nothing to fetch.

It answers by itself: what was checked, against which trust root, how far; what is served and why;
what was refused, done and erased, by whom and why; what is wrong, and what was not checked. What
the log says is never markup here (see `audit_html`), and the page forbids itself to load anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from reef_release.audit.report import ErasuresReport, Problem, ReplayReport, VerifyReport
from reef_release.cli.audit_history import history
from reef_release.cli.audit_html import STYLE, code, items, table, text

__all__ = ["report_page"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: VerifyReport, seconds: float) -> str:
    """The page of *report*, which took *seconds*. A `VerifyReport` has no promotions to tell."""
    replayed = report if isinstance(report, ReplayReport) else None
    verdict = "good" if report.good else "bad"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Audit: {verdict}</title><style>{STYLE}</style></head><body><main>",
        f'<h1>Audit: <span class="{verdict}">{verdict}</span></h1>',
        f'<p class="dim">{_summary(report, replayed)}</p>',
        table("What was checked", ("what", "value"), _facts(report, replayed, seconds)),
        *_problems(report),
    ]
    if replayed is not None:
        parts += history(replayed)
    parts += _erased(report.erasures)
    parts.append(
        table(
            "What was not checked", ("what",), ([text(each.message)] for each in report.unchecked)
        )
    )
    parts.append("</main></body></html>\n")
    return "\n".join(parts)


def _summary(report: VerifyReport, replayed: ReplayReport | None) -> str:
    if not report.good:
        found = len(report.problems) + report.problems_left_out
        return f"{found:,} problems were found; what rests on them is not proven."
    if replayed is None:
        return "What the log's key signed is here, unbroken and complete. No rule was asked."
    return "Every promotion was derived again from raw replies, with public keys alone."


def _facts(
    report: VerifyReport, replayed: ReplayReport | None, seconds: float
) -> Iterable[Sequence[str]]:
    anchor, signed = report.anchor, report.checkpoint
    yield "export", code(report.folder)
    yield "against the trust root version 1 with SHA-256", code(anchor.sha256)
    if anchor.version is not None and anchor.version_sha256 is not None:
        in_force = f"version {anchor.version} with SHA-256 {code(anchor.version_sha256)}"
        yield "trust root in force at the end", in_force
    yield "events", f"{report.event_count:,}"
    yield "up to position", f"{report.event_count - 1:,}" if report.event_count else "none"
    yield "root of the events", code(report.root)
    if signed is not None:
        yield "log", code(signed.origin)
        yield "signed by the log's key", f"{signed.size:,} events with the root {code(signed.root)}"
    yield "from", text(report.first_recorded_at or "")
    yield "until", text(report.last_recorded_at or "")
    yield "blobs", f"{report.blob_count:,} with {report.blob_bytes:,} bytes"
    if replayed is not None:
        yield "events replayed", f"{replayed.replayed_count:,}"
        yield "events that broke a rule", f"{replayed.violation_count:,}"
        if (weights := replayed.weights) is not None:
            yield (
                "replies run through the weights",
                f"{weights.trial_count:,}, and {weights.canary_count:,} canaries, of "
                f"{weights.release_count:,} candidates; {weights.max_difference:.2e} nats apart at "
                f"most, {weights.tolerance:g} allowed",
            )
    speed = f"{report.event_count / seconds:,.0f} events per second" if seconds else "no time"
    yield "took", f"{seconds:,.2f} s, {speed}"


def _problems(report: VerifyReport) -> list[str]:
    broken = [each for each in report.problems if "breaks a rule" in each.message]
    others = [each for each in report.problems if "breaks a rule" not in each.message]
    titles = "Violations: events that broke a rule and had no effect", "Other problems"
    parts = [
        table(title, ("where", "position", "code", "what"), map(_problem, found))
        for title, found in zip(titles, (broken, others), strict=True)
    ]
    if report.problems_left_out:
        parts.append(f"<p>{report.problems_left_out:,} more are not listed.</p>")
    return parts


def _problem(problem: Problem) -> Sequence[object]:
    position = "" if problem.position is None else problem.position
    return code(problem.where), position, code(problem.code), text(problem.message)


def _erased(erasures: ErasuresReport) -> list[str]:
    columns = ("position", "time", "scenario", "what", "digest", "by", "reason", "still present in")
    rows = (
        (
            body.position,
            text(body.recorded_at),
            text(body.scenario),
            f"{text(body.kind)} of turn {code(body.turn_id)}",
            code(body.digest),
            text(body.actor),
            text(body.reason),
            items(code(each) for each in body.present_in) or "nothing that was looked at",
        )
        for body in erasures.bodies
    )
    parts = [table("Erased: bodies of conversations", columns, rows)]
    if (more := erasures.count - len(erasures.bodies)) > 0:
        parts.append(f"<p>{more:,} more are gone and not listed.</p>")
    return parts
