"""style@1: the reply is plain sentences, as a pupil writes them by hand.

Refused are bold type, headings, bulleted and numbered lists, step labels, horizontal rules,
tables, boxes and a "Final answer:" marker, in Markdown, HTML, LaTeX and look-alike characters.
What merely resembles them is allowed: a negative number or a carried-on calculation at the
start of a line, powers (2**3), a sentence that ends in "12." at the start of a line, blanks to
fill in (____), "The final answer is 7."
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from reef_release.verifiers.check import Check, Verifier
from reef_release.verifiers.v1.text import MAX_REPLY_CHARS, clip, visible

__all__ = ["STYLE_V1", "violations"]

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe0e\ufe0f\ufeff\u202a-\u202e]")
_LOOK_ALIKES = str.maketrans("∗⁎✱⋆﹡：∶│┃\t\u2028\u2029", "*****::|| \n\n")
_QUOTED = re.compile(r"^ *(?:> ?)+", re.M)
# The mathematical bold alphabets; compatibility normalisation would make them plain letters.
_BOLD_LETTERS = re.compile(
    "[\U0001d400-\U0001d433\U0001d468-\U0001d49b\U0001d5d4-\U0001d607\U0001d63c-\U0001d66f"
    "\U0001d7ce-\U0001d7d7\U0001d7ec-\U0001d7f5]"
)
# Circled and keycap digits, likewise, only where they number a line.
_CIRCLED = re.compile("^ *(?:[\u2460-\u249b\u24ea-\u24ff\u2776-\u2793]|[0-9]\ufe0f?\u20e3)", re.M)
_POWER = re.compile(r"(?<=[0-9)]) ?\*\* ?(?=[0-9(])")

_BOLD = re.compile(
    r"\*\*|(?<![_\w])__(?!_)[^_\n]{1,200}(?<!_)__(?![_\w])|<(?:b|strong)"
    r"(?: [a-z-]{1,20} ?=[^<>\n]{0,100})? ?>"
    r"|\\(?:textbf|mathbf|boldsymbol|bm|bf)\b|font-weight",
    re.I,
)
_HEADING = re.compile(
    r"^ *(?:#{1,6}(?= |$)|#{2,6}(?=\S))|<h[1-6]\b|\\(?:sub){0,2}section\b", re.M | re.I
)
_UNDERLINE = re.compile(r"(?<=[^\n])\n {0,3}(?:={2,}|-{2,}) *$", re.M)
_BULLET = re.compile(
    r"^ *(?:(?P<sign>[-*+]) +(?=\S)|[–—‐] +(?=\S)|-(?=[A-Za-z]{2})"
    r"|[•‣◦▪▫●○■□◆◇►▶▸➢➤→⇒✓✔✅☑❖∙·⁃✦★☆](?= ?\S))",
    re.M,
)
_BULLET_TAG = re.compile(r"<(?:ul|ol|li)\b|\\item\b|\\begin\s{0,5}\{(?:itemize|enumerate)", re.I)
_CARRIED_ON = re.compile(r"[$€£]?[0-9][0-9.,]*%?(?: [A-Za-z]{1,20}){0,2} ?=")
_NUMBERED = re.compile(r"^ *\(?(?P<number>[0-9]{1,2})[.):](?P<text> +(?=\S))?(?(text)|$)", re.M)
_LETTERED = re.compile(r"^ *\(?(?P<letter>[a-z]|ii)(?P<close>[.)]) +(?=\S)", re.M | re.I)
_INLINE_ONE = re.compile(r"(?:^|[.:;!?,] )\(?1\) ", re.M)
_INLINE_TWO = re.compile(r"[ (]2\) ")
_STEP = re.compile(
    r"(?:^|[.!?:;)] )[ *_#]{0,10}(?:step|part|phase) {1,3}"
    r"(?:[0-9]{1,2}|one|two|three|four|five|six)[ *_]{0,5}(?:[:.)–—-]|$)",
    re.M | re.I,
)
_RULE = re.compile(r"^ {0,3}([-*_=~─━═—–])(?: *\1){2,} *$|<hr\b", re.M | re.I)
_TABLE = re.compile(
    r"^ *(?:\| *)?:?-{2,}:? *(?:\| *:?-{2,}:? *){1,50}(?:\| *)?$|^ *\| *:?-{2,}:? *\| *$"
    r"|<(?:table|tr|td|th)\b|\\begin\s{0,5}\{(?:tabular|array)",
    re.M | re.I,
)
_ROW = re.compile(r"^ *\|.*\| *$", re.M)
_BOXED = re.compile(r"\\(?:boxed|fbox|framebox)\b|\bboxed\s{0,5}\{", re.I)
_FINAL = re.compile(
    r"\bfinal[ _-]{1,3}(?:answer|ans)\b[\"'*_`)\]]*(?: ?\([^()\n]{0,40}\))?[ *_`]{0,5}"
    r"(?:is ?:|[:=→]|[-–—]+>? ?(?=[-$€£]?[0-9]))"
    r"|^[^\w\n]*(?:the )?final[ _-]{1,3}(?:answer|ans)\b[^\w\n]*(?:$|[0-9])",
    re.M | re.I,
)


def violations(reply: str) -> list[str]:
    """What breaks the plain style: one "kind in line n: excerpt" per kind."""
    raw = visible(reply).replace("\r\n", "\n").strip("\n")
    bold, circled = _BOLD_LETTERS.search(raw), _CIRCLED.search(raw)
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", raw.translate(_LOOK_ALIKES)))
    text = _QUOTED.sub("", text.translate(_LOOK_ALIKES))
    found = []
    if bold:
        found.append(_shown("bold letters", raw, bold.start()))
    if circled:
        found.append(_shown("numbered list", raw, circled.start()))
    for kind, starts in _RULES:
        start = next(starts(text), None)
        if start is not None:
            found.append(_shown(kind, text, start))
    return found


def _shown(kind: str, text: str, start: int) -> str:
    begin = text.rfind("\n", 0, start + 1) + 1 if text[start : start + 1] != "\n" else start + 1
    line = text[max(begin, start - 20) : start + 80].split("\n", 1)[0]
    return f"{kind} in line {text.count(chr(10), 0, start) + 1}: {clip(line, 60)!r}"


def _anywhere(pattern: re.Pattern[str]) -> Callable[[str], Iterator[int]]:
    def starts(text: str) -> Iterator[int]:
        return (match.start() for match in pattern.finditer(text))

    return starts


def _bold(text: str) -> Iterator[int]:
    return (match.start() for match in _BOLD.finditer(_POWER.sub("^^", text)))


def _bullets(text: str) -> Iterator[int]:
    for bullet in _BULLET.finditer(text):
        carried_on = bullet["sign"] and _CARRIED_ON.match(text, bullet.end())
        if not (carried_on and _is_unfinished(text, bullet.start())):
            yield bullet.start()
    yield from _anywhere(_BULLET_TAG)(text)


def _numbered(text: str) -> Iterator[int]:
    # One "1." opens a list and neighbours confirm one. A lone "12." is the end of a sentence.
    items = list(_NUMBERED.finditer(text))
    numbers = {int(item["number"]) for item in items}
    for item in items:
        number = int(item["number"])
        opens = number <= 1 and item["text"] and not _is_unfinished(text, item.start())
        if opens or {number - 1, number + 1} & numbers:
            yield item.start()


def _lettered(text: str) -> Iterator[int]:
    items = list(_LETTERED.finditer(text))
    letters = {item["letter"].lower() for item in items}
    listed = {"a", "b"} <= letters or {"i", "ii"} <= letters
    for item in items:
        if listed or (item["letter"].lower() == "a" and item["close"] == ")"):
            yield item.start()


def _inline_list(text: str) -> Iterator[int]:
    one = _INLINE_ONE.search(text)
    if one and _INLINE_TWO.search(text, one.end()):
        yield one.start()


def _tables(text: str) -> Iterator[int]:
    yield from _anywhere(_TABLE)(text)
    for row in _ROW.finditer(text):
        # |x| = |y| has an even number of bars and no space inside the outer ones.
        line = row.group().strip()
        if line.count("|") >= 3 and (line.count("|") % 2 or line[1] == " " == line[-2]):
            yield row.start()


def _is_unfinished(text: str, start: int) -> bool:
    """Whether the line before *start* is a sentence that goes on."""
    before = text[max(0, start - 200) : start]
    return before.endswith("\n") and before[:-1].rstrip(" ")[-1:] not in {*"\n.!?:;)", ""}


_RULES: tuple[tuple[str, Callable[[str], Iterator[int]]], ...] = (
    ("bold type", _bold),
    ("heading", _anywhere(_HEADING)),
    ("underlined heading", _anywhere(_UNDERLINE)),
    ("bulleted list", _bullets),
    ("numbered list", _numbered),
    ("lettered list", _lettered),
    ("numbered list", _inline_list),
    ("step label", _anywhere(_STEP)),
    ("horizontal rule", _anywhere(_RULE)),
    ("table", _tables),
    ("box", _anywhere(_BOXED)),
    ('"final answer" marker', _anywhere(_FINAL)),
)


def _check(reply: str, answer: str) -> Check:
    if len(reply) > MAX_REPLY_CHARS:
        why = f"The reply is longer than {MAX_REPLY_CHARS:,} characters and is not read."
        return Check(passed=False, found="", why=why)
    if not visible(reply).strip():
        return Check(passed=False, found="", why="The reply has no visible text.")
    found = violations(reply)
    if not found:
        return Check(passed=True, found="", why="The reply is plain sentences.")
    why = "The reply must be plain sentences, without such marks."
    return Check(passed=False, found=clip("; ".join(found), 300), why=why)


STYLE_V1 = Verifier(
    name="style",
    version=1,
    objective=False,
    summary="the reply is plain sentences: no bold, heading, list, rule, table, box, answer marker",
    check=_check,
)
