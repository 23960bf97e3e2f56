"""An audit's report as one HTML file: no script, no font, no picture, nothing to fetch.

Whatever stands in a report came from a log that may be hostile, so every text is escaped, and the
page forbids itself to load anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from reef_release.audit.report import Problem, ReplayReport, VerifyReport

__all__ = ["report_page"]

_STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --dim: #5a626d; }
:root { --good: #14692f; --bad: #a3161b; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444b55; --dim: #a5adb8; --good: #6fd08c; --bad: #ff8f8f; }
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { margin-bottom: 0; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.dim { color: var(--dim); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: 0.5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; }
th, td { vertical-align: top; }
td code { overflow-wrap: anywhere; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: VerifyReport, seconds: float) -> str:
    """The page of *report*, which took *seconds*. A `VerifyReport` has no promotions to tell."""
    replayed = report if isinstance(report, ReplayReport) else None
    verdict = "good" if report.good else "bad"
    title = f"Audit: {verdict}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
        f'<h1>Audit: <span class="{verdict}">{verdict}</span></h1>',
        f'<p class="dim">{_summary(report, replayed)}</p>',
        _table("The log", ("what", "value"), _facts(report, replayed, seconds)),
    ]
    if replayed is not None:
        parts += _history(replayed)
    parts += _problems(report)
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
    yield "export", _code(report.folder)
    yield "events", f"{report.event_count:,}"
    if report.checkpoint is not None:
        yield "log", _code(report.checkpoint.origin)
        yield "events that were signed", f"{report.checkpoint.size:,}"
    yield "root of the events", _code(report.root)
    yield "from", escape(report.first_recorded_at or "")
    yield "until", escape(report.last_recorded_at or "")
    yield "blobs", f"{report.blob_count:,} with {report.blob_bytes:,} bytes"
    if replayed is not None:
        yield "events replayed", f"{replayed.replayed_count:,}"
        yield "events that broke a rule", f"{replayed.violation_count:,}"
    speed = f"{report.event_count / seconds:,.0f} events per second" if seconds else "no time"
    yield "took", f"{seconds:,.2f} s, {speed}"


def _history(report: ReplayReport) -> list[str]:
    return [
        _table(
            "Served now",
            ("scenario", "channel", "release", "since position"),
            (
                (escape(each.scenario), escape(each.channel), _code(each.release_id), each.position)
                for each in report.serving
            ),
        ),
        _table(
            "Promotions and rollbacks, each derived again",
            ("position", "time", "event", "scenario", "channel", "release", "gate", "by", "reason"),
            (
                (
                    each.position,
                    escape(each.recorded_at),
                    escape(each.type),
                    escape(each.scenario),
                    escape(each.channel),
                    _code(each.release_id),
                    _code(each.gate_id),
                    escape(each.actor),
                    escape(each.reason),
                )
                for each in report.pointer_events
            ),
        ),
        _table(
            "Refused by their gates, or not decided",
            (
                "opened at",
                "outcome",
                "scenario",
                "candidate",
                "trials",
                "passed",
                "errors",
                "level",
            ),
            (
                (
                    gate.opened_position,
                    escape(gate.outcome or "open"),
                    escape(gate.scenario),
                    _code(gate.candidate_id),
                    gate.trial_count,
                    gate.passed_count,
                    gate.error_count,
                    "" if gate.share is None else escape(gate.share.level),
                )
                for gate in report.gates
                if gate.outcome != "passed"
            ),
        ),
    ]


def _problems(report: VerifyReport) -> list[str]:
    broken = [each for each in report.problems if "breaks a rule" in each.message]
    others = [each for each in report.problems if "breaks a rule" not in each.message]
    parts = [
        _table(title, ("where", "position", "code", "what"), map(_problem, found))
        for title, found in (("Events that broke a rule", broken), ("Other problems", others))
    ]
    if report.problems_left_out:
        parts.append(f"<p>{report.problems_left_out:,} more are not listed.</p>")
    return parts


def _problem(problem: Problem) -> Sequence[object]:
    position = "" if problem.position is None else problem.position
    return _code(problem.where), position, _code(problem.code), escape(problem.message)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose cells are HTML already; a sentence when there are no rows."""
    cells = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    if not body:
        return f'<h2>{title}</h2>\n<p class="dim">None.</p>'
    return (
        f'<div class="wide"><table><caption>{title}</caption>\n<thead><tr>{cells}</tr></thead>\n'
        f"<tbody>\n{chr(10).join(body)}\n</tbody></table></div>"
    )
