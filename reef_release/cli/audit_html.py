"""The pieces of a report that is one HTML file: texts, lists, tables, and how they look.

Whatever stands in a report came from a log that may be hostile: every text is escaped, stands apart
from the direction of what is around it, and what prints nothing in it is named where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from reef_release.domain.visible import visible

__all__ = ["STYLE", "code", "items", "table", "text"]

STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --dim: #5a626d; }
:root { --good: #14692f; --bad: #a3161b; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444b55; --dim: #a5adb8; --good: #6fd08c; --bad: #ff8f8f; }
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 95rem; padding: 0 1rem; }
h1 { margin-bottom: 0; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.dim { color: var(--dim); }
.wide { overflow-x: auto; }
bdi { white-space: pre-wrap; }
.long { display: inline-block; min-width: 17ch; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding: 1rem 0 0.5rem; }
h2 { font-size: 1rem; margin: 1rem 0 0; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; }
th, td { vertical-align: top; }
td:last-child:not(:nth-child(2)) { min-width: 14rem; }
td ul { margin: 0; padding-left: 1rem; }
"""


_LONG = 28
"""Words of more characters may be broken, as digests are; a time, as the log has it, has 27."""


def text(value: str) -> str:
    """*value* as it is: nothing in it is markup, and nothing in it goes unseen."""
    if not value:
        return ""
    long = any(len(word) > _LONG for word in value.split())
    kind = ' class="long"' if long else ""
    return f"<bdi{kind}>{escape(visible(value))}</bdi>"


def code(value: str) -> str:
    """*value*, which is an id, a digest or a name, as `text` gives it."""
    return f"<code>{text(value)}</code>" if value else ""


def items(values: Iterable[str]) -> str:
    """A list of what is HTML already; "" when there is none."""
    found = "".join(f"<li>{value}</li>" for value in values)
    return f"<ul>{found}</ul>" if found else ""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose cells are HTML already; a sentence when there are no rows."""
    body = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows]
    if not body:
        return f'<h2>{title}</h2>\n<p class="dim">None.</p>'
    cells = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return (
        f'<div class="wide" tabindex="0"><table><caption>{title}</caption>\n'
        f"<thead><tr>{cells}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(body)}\n</tbody></table></div>"
    )
