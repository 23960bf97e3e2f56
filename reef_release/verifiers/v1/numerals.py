"""Numbers as people write them, read exactly.

A value is a `Fraction`, never a float, so 65,960 equals 65960 and 18.00 equals 18, and 5 is
never found inside 15. What is not clearly one number (1.2.3, 6,59,60, a list 3,4,5, more digits
than `MAX_DIGITS`) is no number at all: half of it is never read as one.

Separators: "," groups thousands; it is a decimal comma only where it cannot group (18,50 and
0,125). "." is a decimal point; it groups only where it cannot be one (1.450.000 and 65.960,00).
Spaces and "'" group threes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

import msgspec

from reef_release.verifiers.v1.words import WORDS, parse_words

__all__ = ["MAX_DIGITS", "NUMERAL", "Number", "measured", "number_from", "same", "splits"]

MAX_DIGITS = 1_000
_MAX_EXPONENT = 1_000


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One number in a text.

    `also` is the second value that the same words may stand for: 50% is 50 where percent was
    asked for and 1/2 otherwise, 2 dozen is 2 or 24, 3 hours 30 minutes is 7/2 or 210. A colon
    number ("3:30", a clock time or a ratio) has no value; it equals only itself.
    """

    value: Fraction
    kind: Literal["plain", "percent", "dozen", "measure", "colon"] = "plain"
    also: Fraction | None = None
    label: str = ""
    word: bool = False
    ordinal: bool = False

    def negated(self) -> Number:
        """The number after a minus sign."""
        also = None if self.also is None else -self.also
        return msgspec.structs.replace(self, value=-self.value, also=also)


def same(one: Number, other: Number) -> bool:
    """Whether a teacher who expects *other* accepts *one*, units aside.

    Two percentages, two dozens or two measures are compared as they stand; a percentage equals
    a plain number in either of its readings, so 50%, 50 and 0.5 pass for 50%, and 50% passes
    for 50 and for 0.5, while 0.5% does not pass for 50%. A whole number is never meant as a
    hundredth: 4200% does not pass for 42.
    """
    if "colon" in (one.kind, other.kind):
        return one.kind == other.kind and one.label == other.label
    if one.kind == other.kind or one.value == other.value:
        return one.value == other.value
    return one.also == other.value or one.value == other.also


_BLOB = (
    r"(?:(?<![0-9A-Za-z_])[0-9]{1,3}(?: [0-9]{3})+(?:[.,][0-9]+)?(?![0-9])"
    r"|(?<![0-9A-Za-z_])[0-9]+(?:[.,'_][0-9]+)*"
    r"|(?<![0-9A-Za-z_.])\.[0-9]+)"
)
NUMERAL = re.compile(
    rf"(?P<colon>(?<![0-9A-Za-z_:.,])[0-9]{{1,4}}(?::[0-9]{{1,4}}){{1,2}}(?![0-9:]))"
    rf"|(?P<blob>{_BLOB})"
    r"(?:(?P<mixed>(?: | and (?![0-9]{1,9} ?/ ?[0-9]{1,9} ?(?:[-*/=+^x]|of\b|times\b)))"
    r"(?P<over>[0-9]{1,9}) ?/ ?(?P<under>[0-9]{1,9})(?![0-9.,/]*[0-9]))"
    r"|(?P<half> and (?:a|one) (?:half|quarter|third)\b| and three[ -]quarters\b)"
    r"|(?P<exponent>[eE][+-]?[0-9]{1,6}(?![0-9A-Za-z]|\.[0-9]))"
    r"|(?P<scale> ?(?:hundred|thousand|million|billion|trillion)\b|k\b|(?-i:M|B)\b|bn\b|mn\b))?"
    r"(?:(?P<percent> ?%| ?percent\b| ?per cent\b| ?pct\b)"
    r"|(?P<dozen> ?dozens?\b)|(?P<ordinal>(?:st|nd|rd|th)\b))?"
    rf"|(?P<words>{WORDS})(?P<wpercent> percent\b| per cent\b)?(?P<wdozen> dozens?\b)?",
    re.I | re.A,
)
"""An unsigned numeral anywhere in plain text; read the match with `number_from`."""


def splits(match: re.Match[str]) -> bool:
    """Whether a `NUMERAL` match is two numbers after all: "3 and 12/3", "1.5 1/2"."""
    proper = match["mixed"] and int(match["over"]) < int(match["under"])
    return bool(match["mixed"]) and not (proper and match["blob"].isdigit())


_ENGLISH = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]*\.?[0-9]+")
_INDIAN = re.compile(r"[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?")
_GROUPED = re.compile(r"[0-9]{1,3}(?:([ '_])[0-9]{3})(?:\1[0-9]{3})*(?:[.,][0-9]+)?")
_EUROPEAN = re.compile(
    r"[0-9]{1,3}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?|[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+"
    r"|[0-9]+,[0-9]{1,2}|0,[0-9]+"
)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALES |= {"trillion": 10**12, "k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}
_HALVES = {"half": 2, "quarter": 4, "third": 3}


def number_from(match: re.Match[str]) -> Number | None:
    """The number of a `NUMERAL` match; None if it is malformed or too long.

    A `mixed` match whose fraction is no proper one is two numbers; `splits` tells.
    """
    if label := match["colon"]:
        parts = [part.lstrip("0") or "0" for part in label.split(":")]
        return Number(value=Fraction(0), kind="colon", label=":".join(parts))
    if match["words"]:
        value = parse_words(match["words"])
        return _finished(value, match["wpercent"], match["wdozen"], word=True)
    value = _decimal(match["blob"])
    if value is None:
        return None
    if match["mixed"]:
        over, under = int(match["over"]), int(match["under"])
        value += Fraction(over, under)
    elif half := match["half"]:
        name = half.rsplit("-", 1)[-1].rsplit(" ", 1)[-1].lower().rstrip("s")
        value += Fraction(3 if "three" in half.lower() else 1, _HALVES[name])
    elif exponent := match["exponent"]:
        ten = int(exponent[1:])
        if abs(ten) > _MAX_EXPONENT:
            return None
        value *= Fraction(10) ** ten
    elif scale := match["scale"]:
        value *= _SCALES[scale.strip().lower()]
    return _finished(value, match["percent"], match["dozen"], ordinal=bool(match["ordinal"]))


def _finished(
    value: Fraction | None,
    percent: str | None,
    dozen: str | None,
    *,
    word: bool = False,
    ordinal: bool = False,
) -> Number | None:
    if value is None:
        return None
    if percent:
        hundredth = value / 100
        also = hundredth if hundredth.denominator != 1 else None
        return Number(value=value, kind="percent", also=also, word=word)
    if dozen:
        return Number(value=value, kind="dozen", also=value * 12, word=word)
    return Number(value=value, word=word, ordinal=ordinal)


def _decimal(blob: str) -> Fraction | None:
    if len(blob) > MAX_DIGITS:
        return None
    if _ENGLISH.fullmatch(blob) or _INDIAN.fullmatch(blob):
        return Fraction(blob.replace(",", ""))
    if _GROUPED.fullmatch(blob):
        return Fraction(re.sub("[ '_]", "", blob).replace(",", "."))
    if _EUROPEAN.fullmatch(blob):
        return Fraction(blob.replace(".", "").replace(",", "."))
    return None


_UNITS: dict[tuple[str, str], int] = {
    ("dollar", "cent"): 100,
    ("euro", "cent"): 100,
    ("pound", "penny"): 100,
    ("hour", "minute"): 60,
    ("minute", "second"): 60,
    ("day", "hour"): 24,
    ("week", "day"): 7,
    ("year", "month"): 12,
    ("foot", "inch"): 12,
    ("yard", "foot"): 3,
    ("pound", "ounce"): 16,
    ("meter", "centimeter"): 100,
    ("kilometer", "meter"): 1000,
    ("kilogram", "gram"): 1000,
}
_SINGULAR = {
    "feet": "foot", "ft": "foot", "inches": "inch", "in": "inch", "pennies": "penny",
    "pence": "penny", "hr": "hour", "hrs": "hour", "h": "hour", "min": "minute",
    "mins": "minute", "sec": "second", "secs": "second", "oz": "ounce", "lb": "pound",
    "lbs": "pound", "m": "meter", "cm": "centimeter", "km": "kilometer", "kg": "kilogram",
    "g": "gram", "metre": "meter", "metres": "meter", "$": "dollar", "€": "euro", "£": "pound",
}  # fmt: skip


def measured(large: Number, large_unit: str, small: Number, small_unit: str) -> Number | None:
    """One measure from two, such as 3 hours and 30 minutes; None if the units do not nest."""
    one, other = (
        _SINGULAR.get(unit, unit.removesuffix("s"))
        for unit in (large_unit.lower(), small_unit.lower())
    )
    factor = _UNITS.get((one, other))
    if factor is None or not 0 <= small.value < factor or large.value < 0:
        return None
    value = large.value + small.value / factor
    return Number(value=value, kind="measure", also=value * factor)
