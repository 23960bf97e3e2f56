"""The scripted judge's words, from `judge/data`, for the languages that a text may be in.

What always holds: matching ignores case, treats typographic apostrophes as plain ones and keeps
positions, so that a match can be quoted in the person's own spelling. Only the words of the
likely languages are tried: "mal" is German for "times" and French for "badly".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

__all__ = [
    "ANYWHERE",
    "JUDGE",
    "REFERENCES",
    "Languages",
    "Lexicon",
    "languages_of",
    "lexicon",
    "pattern",
    "plain",
]

Languages = frozenset[str]

_UNSPACED = ("zh", "ja", "ko")
"""Languages that are matched without word boundaries."""
_LATIN = frozenset({"en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr"})
_SENTENCE_END = re.compile(r"[.!?…]\s|[。！？\n]")
_NOTHING = re.compile(r"(?!)")
_LETTERS = {
    "de": re.compile(r"[äöüß]", re.I),
    "fr": re.compile(r"[çœêâîôûëï]|« ", re.I),
    "es": re.compile(r"[ñ¿¡]", re.I),
    "it": re.compile(r"[ìò]", re.I),
    "pt": re.compile(r"[ãõ]|ç[ãõ]", re.I),
    "pl": re.compile(r"[łżśćęąń]", re.I),
    "tr": re.compile(r"[ğşıİĞŞ]"),
}


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of some languages together, by meaning (see `judge/data/lexicon.toml`)."""

    reject: re.Pattern[str]
    praise: re.Pattern[str]
    keep: re.Pattern[str]
    own: re.Pattern[str]
    new: re.Pattern[str]
    ask: re.Pattern[str]
    deictic: re.Pattern[str]
    meta: re.Pattern[str]


def plain(text: str) -> str:
    """*text* with plain apostrophes, character by character."""
    return text.translate({0x2019: "'", 0x2018: "'", 0x02BC: "'", 0xFF07: "'"})


def pattern(
    by_language: Mapping[str, Iterable[str] | str], languages: Languages | None = None
) -> re.Pattern[str]:
    """One pattern for *languages*, by default for all."""
    whole: list[str] = []
    anywhere: list[str] = []
    for language, given in by_language.items():
        if languages is None or language in languages:
            words = "|".join([given] if isinstance(given, str) else given)
            (anywhere if language in _UNSPACED else whole).append(words)
    parts = [f"(?<!\\w)(?:{'|'.join(whole)})(?!\\w)"] if whole else []
    return re.compile("|".join([*parts, *anywhere]), re.I) if parts or anywhere else _NOTHING


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("judge").joinpath("data", name).read_text("utf-8"))


_LEXICON = _table("lexicon.toml")
REFERENCES = _table("references.toml")
JUDGE = pattern(_LEXICON["judge"])
"""Whoever speaks to the judge need not use the language of the reaction."""
ANYWHERE = {name: re.compile("|".join(words), re.I) for name, words in _LEXICON["anywhere"].items()}
"""Parts of words, of all languages together, by meaning."""
_FUNCTION = {
    language: pattern({language: words}) for language, words in _LEXICON["function"].items()
}


@cache
def lexicon(languages: Languages) -> Lexicon:
    """The words of *languages*."""
    return Lexicon(
        **{field: pattern(_LEXICON[field], languages) for field in Lexicon.__struct_fields__}
    )


def languages_of(text: str) -> Languages:
    """The languages that *text* may be in, by script, frequent words and letters.

    Those of each of its sentences: what somebody puts beside a reaction in another language must
    not hide it. Several when they fit equally; all of the Latin script when nothing tells.
    """
    found: set[str] = set()
    for sentence in _SENTENCE_END.split(text):
        found |= _languages_of(sentence)
    return frozenset(found) or _LATIN


def _languages_of(text: str) -> Languages:
    found: set[str] = set()
    if re.search(r"[\uac00-\ud7af]", text):
        found.add("ko")
    if re.search(r"[\u3040-\u30ff]", text):
        found.add("ja")
    elif re.search(r"[\u3400-\u9fff]", text):
        found.add("zh")
    if re.search(r"[\u0400-\u04ff]", text):
        found.add("ru")
    text = plain(text)
    scores = {
        language: len(words.findall(text)) + 2 * len(_LETTERS.get(language, _NOTHING).findall(text))
        for language, words in _FUNCTION.items()
    }
    best = max(scores.values())
    if best > 0:
        found |= {language for language, score in scores.items() if score == best}
    return frozenset(found)
