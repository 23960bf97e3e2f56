"""From a raw reply to the text that a reader sees, in two steps.

`visible` drops what is not part of the reply (reasoning before a closing tag, anything after an
end-of-turn token). `plain` then removes markup (LaTeX, HTML, Markdown, calculator notes) and
unifies characters, so that the readers after it deal with ASCII digits, "-" and "*" only.
Every pattern is linear in the length of the text.
"""

from __future__ import annotations

import html
import re

__all__ = ["MAX_REPLY_CHARS", "clip", "plain", "sentences", "visible"]

MAX_REPLY_CHARS = 2_000_000
"""A longer reply is not read; no task needs it, and the time per reply stays bounded."""

_TURN_END = re.compile(
    r"<\|(?:im_end|endoftext|eot_id|eom_id|end|im_start)\|>|</s>|<eos>|<end_of_turn>"
)
_REASONING = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
_REASONING_END = re.compile(
    rf"</\s*{_REASONING}\s*>|\[/THINK\]|<\|channel\|>final<\|message\|>", re.I
)
_REASONING_START = re.compile(rf"<\s*{_REASONING}\s*>|\[THINK\]", re.I)

_SPACES = [0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000, *b"\t\v\f"]
_INVISIBLE = [0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202D), *range(0x2060, 0x2065)]
_INVISIBLE += [0xFE0E, 0xFE0F, 0xFEFF]
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_CHARACTERS: dict[int, str] = {
    **dict.fromkeys(_SPACES, " "),
    **dict.fromkeys(_INVISIBLE, ""),
    **dict.fromkeys(map(ord, "\u2028\u2029\u0085\r"), "\n"),
    **dict.fromkeys(map(ord, "\u2010\u2011\ufe63\uff0d"), "-"),
    **dict.fromkeys(map(ord, "‘’ʼ′`´"), "'"),
    **dict.fromkeys(map(ord, "“”„″«»"), '"'),
    **dict.fromkeys(map(ord, "×✕✖⨉∗⋅·"), "*"),
    **dict.fromkeys(map(ord, "÷∕⁄"), "/"),
    **dict.fromkeys(map(ord, "≈≅≃"), "≈"),
    **dict.fromkeys(map(ord, "→⇒⟹⟶➔➜"), "→"),
    **{0xFF01 + i: chr(0x21 + i) for i in range(94) if 0x21 + i != 0x2D},  # full-width forms
    **{
        zero + i: str(i)  # decimal digits of other scripts and the mathematical alphabets
        for zero in (0x660, 0x6F0, 0x966, 0x9E6, 0xE50, *range(0x1D7CE, 0x1D7FF, 10))
        for i in range(10)
    },
    **{ord(char): f" {fraction}" for char, fraction in _VULGAR.items()},
    ord("。"): ". ",
    ord("…"): "...",
    ord("∴"): "therefore ",
    ord("ſ"): "s",  # these four equal ASCII letters when case is ignored
    ord("\u212a"): "K",
    ord("İ"): "I",
    ord("ı"): "i",
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

_LATEX_COMMANDS = {
    "times": "*",
    "cdot": "*",
    "ast": "*",
    "div": "/",
    "approx": "≈",
    "therefore": "therefore ",
    "Rightarrow": "→",
    "rightarrow": "→",
    "implies": "→",
    "to": "→",
    "newline": "\n",
    "pm": "±",
    "pounds": "£",
    "euro": "€",
}
_LATEX_DROPPED = (
    r"left|right|quad|qquad|displaystyle|boldmath|bf|rm|circ|degree|hline|limits|big|Big"
)
_GROUP = r"\{([^{}\n]{0,400})\}"
_LATEX: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\\(?:cancel|sout|st)\s*" + _GROUP), ""),
    (re.compile(r"\\,(?=[0-9]{3}(?![0-9]))"), ","),  # 65\,960 is 65,960
    (re.compile(r",\\!|\{,\}"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\^\s*\{?\s*\\(?:circ|degree)\s*\}?"), ""),
    (re.compile(r"\\([$%#&_{}])"), r"\1"),
    (re.compile(r"\\\\(?:\[[^\]\n]{0,20}\])?"), "\n"),
    (re.compile(r"\\(?:[()\[\],;:! >]|begin\{[a-z*]{1,20}\}|end\{[a-z*]{1,20}\})"), " "),
    (re.compile(r"\\[dtc]?frac\s*([0-9])\s*([0-9])"), r" \1/\2"),
)
_LATEX_NESTED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\\(?:text|math|mbox|emph|operatorname|underline|tag)[a-z]{0,10}\s*" + _GROUP),
        r" \1",
    ),
    (re.compile(r"\\[dtc]?frac\s*\{\s*([0-9]{1,40})\s*\}\s*\{\s*([0-9]{1,40})\s*\}"), r" \1/\2"),
    (re.compile(r"\\[dtc]?frac\s*" + _GROUP + r"\s*" + _GROUP), r" (\1)/(\2)"),
    (re.compile(r"\^\{\s*(-?[0-9]{1,6})\s*\}"), r"^\1"),
)
_LATEX_COMMAND = re.compile(r"\\([a-zA-Z]{1,20})")

_CALCULATOR = re.compile(r"<<[^<>\n]{0,300}>>")
_STRUCK = re.compile(
    r"~~[^~\n]{1,300}~~|<(s|del|strike)>[^<]{0,300}</\1>|<!--[^<]{0,400}?-->", re.I
)
_ANSWER_TAG = re.compile(r"[<\[]\s*(?:final[ _-]?)?answer\s*[>\]]", re.I)
_ANSWER_TAG_END = re.compile(r"[<\[]/\s*(?:final[ _-]?)?answer\s*[>\]]", re.I)
_BREAK = re.compile(r"<\s*/?\s*(?:br|p|li|ul|ol|div|tr|hr|h[1-6]|table)\b[^<>\n]{0,200}>", re.I)
_SUP = re.compile(r"<sup>\s*(-?[0-9]{1,6})\s*</sup>", re.I)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,200}>")

_UNDERSCORED = re.compile(r"(?<![A-Za-z0-9_])_([^_\n]{1,80})_(?![A-Za-z0-9_])")
_BRACKETED = re.compile(r"<( ?[-$]{0,2}[0-9][0-9.,]{0,40} ?)>")
_POWER = re.compile(r"(?<=[0-9)])\*\*(?=[0-9(])")
_LINES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?m)^ *(?:> ?)+"), ""),
    (re.compile(r"(?m)^ *([-*_=~])(?: *\1){2,} *$"), ""),
    (re.compile(r"(?m)^ *[-*+•‣▪●○◦–—] +(?=\S)"), ""),
    (re.compile(r"\n *(?=[=≈])"), " "),
    (re.compile(r"(?i)\bstep {1,3}[0-9]{1,3} ?(?:[:.)]|[-–—] )(?![0-9])"), "\n"),
    (
        re.compile(
            r"(?i)\b(step|part|question|problem|exercise|example|method|approach|option)"
            r" ?#?[0-9]{1,3}\b(?! ?[-+*/x=^.,%] ?[0-9$(])"
        ),
        r"\1",
    ),
    (re.compile(r"\b(Mr|Mrs|Ms|Dr|vs|approx|e\.g|i\.e)\.(?= )"), r"\1"),
    (re.compile(r"(?<=[A-Za-z])\^[23](?![0-9])"), ""),  # m^2 is a unit
    (re.compile(r"(?<=[0-9)])[xX](?=\$?[0-9(])"), "*"),
    (re.compile(r"\b(?:USD|EUR|GBP|CAD|AUD|INR|Rs\.?|US(?=\$)) ?(?=[-$0-9])"), ""),
)
_ITEM = re.compile(r"(?m)^ *\(?([0-9]{1,3})[.)] +(?=\S)")
_MINUS = re.compile(r"([0-9)%]?)( {0,3})\u2212 ?")
_DASH_SIGN = re.compile(r"(?<![^\s(\[=:$])\u2013(?=\$?[0-9.])")
_SENTENCE_END = re.compile(r"\n+|(?<=[.!?])[\"')\]*]* +|(?<=[.!?])[\"')\]*]*(?=\n)")


def visible(reply: str) -> str:
    """The part of *reply* that its reader sees.

    Ends at the first end-of-turn token that has text before it, and starts after the last
    closing reasoning tag, whether or not an opening one is there. An unclosed opening tag
    hides everything after it.
    """
    start = 0
    for token in _TURN_END.finditer(reply):
        struck = token.group() == "</s>" and "<s>" in reply[start + 1 : token.start()]
        if reply[start : token.start()].strip() and not struck:
            reply = reply[start : token.start()]
            break
        start = token.end()
    else:
        reply = reply[start:]
    reply = _REASONING_END.split(reply)[-1]
    return _REASONING_START.split(reply, maxsplit=1)[0]


def plain(text: str) -> str:
    """*text* without markup, one unit per line, with unified characters."""
    text = _CALCULATOR.sub("", text.translate(_CHARACTERS))
    if "<" in text or "~" in text or "[" in text:
        text = _STRUCK.sub(" ", text)
        text = _ANSWER_TAG_END.sub("\n", _ANSWER_TAG.sub("\nAnswer: ", text))
        text = _BRACKETED.sub(r"\1", text)
        text = _TAG.sub("", _BREAK.sub("\n", _SUP.sub(r"^\1", text)))
    if "&" in text:
        text = html.unescape(text).translate(_CHARACTERS)
    if "\\" in text or "{,}" in text:
        text = _without_latex(text)
    text = re.sub(
        "[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda match: "^" + match.group().translate(_SUPERSCRIPTS), text
    )
    text = _POWER.sub("^", text).replace("**", "").replace("__", "").replace("|", " ")
    text = _UNDERSCORED.sub(r"\1", text)
    text = _MINUS.sub(_unified_minus, text)
    text = _DASH_SIGN.sub("-", text)
    for pattern, replacement in _LINES:
        text = pattern.sub(replacement, text)
    return _without_item_numbers(text)


def sentences(text: str) -> list[str]:
    """*text* in sentences, in order, blank ones left out. A line break ends a sentence."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def clip(text: str, limit: int = 120) -> str:
    """*text* on one line, cut to *limit* characters, for showing to people."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _without_latex(text: str) -> str:
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    for _ in range(3):  # three levels of nesting are more than an answer has
        for pattern, replacement in _LATEX_NESTED:
            text = pattern.sub(replacement, text)
    text = re.sub(rf"\\(?:{_LATEX_DROPPED})(?![a-zA-Z])", " ", text)
    return _LATEX_COMMAND.sub(
        lambda match: _LATEX_COMMANDS.get(match.group(1), match.group()), text
    )


def _unified_minus(match: re.Match[str]) -> str:
    # U+2212 is never a hyphen: after a number it subtracts, elsewhere it is a sign.
    before, space = match.groups()
    return f"{before} - " if before else f"{space}-"


def _without_item_numbers(text: str) -> str:
    # "1." opens a list and "n+1." continues it; any other number at a line's start is a number.
    expected = 1

    def number(match: re.Match[str]) -> str:
        nonlocal expected
        if int(match.group(1)) in (1, expected):
            expected = int(match.group(1)) + 1
            return ""
        return match.group()

    return _ITEM.sub(number, text)
