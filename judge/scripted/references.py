"""Which reply a reaction is about, by how people point: by place, quote, thing, or topic.

What always holds: the strongest kind of evidence decides, in that order; a place that does not
exist ("the fourth answer" of three) is no evidence; among replies that fit equally well the
latest is meant; without any evidence it is the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from judge.scripted.lexicon import REFERENCES, Languages, lexicon, pattern, plain

__all__ = ["Pointer", "find_pointer"]

_QUOTED = re.compile(
    r'"([^"\n]{2,300})"|“([^”\n]{2,300})”|„([^“”\n]{2,300})[“”]|«\s?([^»\n]{2,300}?)\s?»'
    r"|「([^」\n]{2,300})」|『([^』\n]{2,300})』|^>+ ?(.{2,300})$|`([^`\n]{2,300})`",
    re.M,
)
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_UNSPACED = re.compile(rf"(?:{_CJK.pattern}|[0-9 ])+")
_TELLING = re.compile(rf"(?![\u3040-\u309f]{{2}}){_CJK.pattern}{{2}}")
_DIGITS = {
    **{str(number): number for number in range(1, 10)},
    **{digit: number for number, digit in enumerate("一二三四五六七八九", 1)},
    **{digit: number for number, digit in enumerate("１２３４５６７８９", 1)},
    **dict.fromkeys(["two", "zwei", "deux", "dos", "due", "duas", "twee", "两"], 2),
    **dict.fromkeys(["three", "drei", "trois", "tres", "tre", "três", "drie"], 3),
    **dict.fromkeys(["four", "vier", "quatre", "cuatro", "quattro", "quatro"], 4),
    "첫": 1,
    "두": 2,
    "세": 3,
    "네": 4,
}
_QUOTED_WORDS = 3
"""So many words in a row, the same as in a reply, are a quote without quotation marks."""
_QUOTED_CHARACTERS = 7
_STEM = 4
_MIN_TOPIC = 1.0


_NUMBER_SIGN = r"#|n°|nr\.?|no\.?|number|nummer|numéro|número|numero"
_ARTICLE = "the|die|der|das|la|le|el|il|lo|o|a|de|het"


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """The reply meant; `kind` of evidence, and where in the reaction it stands."""

    about: int
    kind: str
    start: int = 0
    end: int = 0


def find_pointer(text: str, replies: Mapping[int, str], languages: Languages) -> Pointer | None:
    """What *text* points at among the numbered *replies*; None without evidence."""
    text = plain(text)
    for look in (_place, _quote, _run_of_words, _thing, _topic):
        found = look(text, replies, languages)
        if found is not None:
            return found
    return None


# By place


class _Places(msgspec.Struct, frozen=True, kw_only=True):
    numbered: tuple[re.Pattern[str], ...]
    ago: re.Pattern[str]
    previous: re.Pattern[str]
    ordinals: tuple[tuple[int, re.Pattern[str]], ...]
    opening: re.Pattern[str]


@cache
def _places(languages: Languages) -> _Places:
    nouns: dict[str, str] = REFERENCES["noun"]
    copulas: dict[str, str] = REFERENCES["copula"]
    spaced = {
        language: f"(?:{noun}) ?(?:{_NUMBER_SIGN})? ?([1-9])"
        for language, noun in nouns.items()
        if language in copulas
    }
    unspaced = {
        "zh": f"第([一二三四五六七八九1-9])(?:个|次|条|版)?的?(?:{nouns['zh']})",
        "ja": f"第?([一二三四五1-5１-５])(?:つ目|番目|回目|個目)の?(?:{nouns['ja']})",
        "ko": f"(첫|두|세|네) ?번째 (?:{nouns['ko']})",
    }
    ordinals = []
    for number, by_language in REFERENCES["ordinal"].items():
        patterns = {
            language: f"(?:{words})(?: \\w+)?? (?:{nouns[language]})"
            f"|(?:{_ARTICLE}) (?:{words}) (?:{copulas[language]})"
            for language, words in by_language.items()
        }
        ordinals.append((int(number), pattern(patterns, languages)))
    return _Places(
        numbered=(pattern(spaced, languages), pattern(unspaced, languages)),
        ago=pattern(REFERENCES["ago"], languages),
        previous=pattern(REFERENCES["previous"], languages),
        ordinals=tuple(ordinals),
        opening=pattern(REFERENCES["opening"], languages),
    )


def _place(text: str, replies: Mapping[int, str], languages: Languages) -> Pointer | None:
    places, last = _places(languages), max(replies)
    found: list[tuple[int, re.Match[str]]] = []
    for each in places.numbered:
        found += ((_number(match), match) for match in each.finditer(text))
    found += ((last - _number(match), match) for match in places.ago.finditer(text))
    found += ((last - 1, match) for match in places.previous.finditer(text))
    for number, each in places.ordinals:
        found += ((number, match) for match in each.finditer(text))
    found += ((min(replies), match) for match in places.opening.finditer(text))
    for about, match in found:
        if about in replies:
            return Pointer(about=about, kind="place", start=match.start(), end=match.end())
    return None


def _number(match: re.Match[str]) -> int:
    return _DIGITS[next(group for group in match.groups() if group).casefold()]


# By quote


def _quote(text: str, replies: Mapping[int, str], _: Languages) -> Pointer | None:
    bare = {index: _bare(reply) for index, reply in replies.items()}
    for match in _QUOTED.finditer(text):
        quoted = _bare(next(group for group in match.groups() if group))
        if not quoted:
            continue
        for index in sorted(bare, reverse=True):
            if quoted in bare[index]:
                return Pointer(about=index, kind="quote", start=match.start(), end=match.end())
    return None


def _run_of_words(text: str, replies: Mapping[int, str], _: Languages) -> Pointer | None:
    """Words that were taken over without quotation marks; the latest reply that has them."""
    taken = _runs(text)
    by_reply = {index: {run for run, _, _ in _runs(reply)} for index, reply in replies.items()}
    for run, start, end in taken:
        for index in sorted(by_reply, reverse=True):
            if run in by_reply[index]:
                return Pointer(about=index, kind="quote", start=start, end=end)
    return None


def _runs(text: str) -> list[tuple[str, int, int]]:
    """Every run of so many words, or of so many characters where words are not spaced."""
    words = list(_WORD.finditer(plain(text)))
    found = []
    for at in range(len(words) - _QUOTED_WORDS + 1):
        run = words[at : at + _QUOTED_WORDS]
        if not any(_CJK.search(each[0]) for each in run):
            joined = " ".join(each[0].casefold() for each in run)
            found.append((joined, run[0].start(), run[-1].end()))
    for stretch in _UNSPACED.finditer(text):
        for at in range(len(stretch[0]) - _QUOTED_CHARACTERS + 1):
            piece = stretch[0][at : at + _QUOTED_CHARACTERS]
            if _CJK.search(piece):
                start = stretch.start() + at
                found.append((piece, start, start + _QUOTED_CHARACTERS))
    return found


def _bare(text: str) -> str:
    return "".join(_WORD.findall(plain(text).casefold()))


# By the thing that a reply made


_CODE = re.compile(r"```|^[ \t]*(?:def|class|import|function|const) ", re.M)


def _rows(reply: str) -> int:
    return sum(line.count("|") >= 2 for line in reply.splitlines())


def _items(reply: str) -> int:
    return len(re.findall(r"^[ \t]*(?:[-*+•]|[0-9]+[.)])\s", reply, re.M))


def _is_poem(reply: str) -> bool:
    lines = [line for line in reply.splitlines() if line.strip()]
    return (
        len(lines) >= 2
        and not _rows(reply)
        and not _items(reply)
        and not _is_letter(reply)
        and all(10 < len(line) < 80 and not re.search(r"[*=`:]", line) for line in lines)
    )


_SALUTATION = re.compile(
    r"^\W*(?:dear|hi|hello|lieber?|liebes|sehr geehrte|hallo|guten|chère?s?|madame|monsieur|bonjour"
    r"|estimad|querid|hola|gentil|car[oaie] |egregi|prezad|car[oa] |beste|geachte|szanown|drog"
    r"|уважаем|дорог|здравствуй|sayın|sevgili|merhaba|尊敬的|亲爱的|您好|拝啓|.{1,12}(?:様|さんへ)|안녕|친애)",
    re.I,
)


def _is_letter(reply: str) -> bool:
    return _SALUTATION.match(reply) is not None


_MADE: Mapping[str, Callable[[str], bool]] = {
    "table": lambda reply: _rows(reply) >= 2,
    "code": lambda reply: _CODE.search(reply) is not None,
    "poem": _is_poem,
    "letter": _is_letter,
    "list": lambda reply: _items(reply) >= 2,
}


@cache
def _thing_words(kind: str, languages: Languages) -> re.Pattern[str]:
    return pattern(REFERENCES[kind], languages)


def _thing(text: str, replies: Mapping[int, str], languages: Languages) -> Pointer | None:
    for kind, made in _MADE.items():
        match = _thing_words(kind, languages).search(text)
        if match is None:
            continue
        for index in sorted(replies, reverse=True):
            if made(replies[index]):
                return Pointer(about=index, kind="thing", start=match.start(), end=match.end())
    return None


# By topic


def _topic(text: str, replies: Mapping[int, str], languages: Languages) -> Pointer | None:
    """Words that stand in this reply and in no other; the latest reply wins a tie.

    Thanks name no reply, though it may thank too.
    """
    words = lexicon(languages)
    text = words.praise.sub(lambda match: " " * len(match[0]), text)
    meta = words.meta
    by_reply = {index: _terms(reply, meta) for index, reply in replies.items()}
    scores: dict[int, float] = {}
    for term, weight in _terms(text, meta).items():
        holders = [index for index, found in by_reply.items() if term in found]
        if len(holders) == 1:
            scores[holders[0]] = scores.get(holders[0], 0.0) + weight
    best = max(scores.values(), default=0.0)
    if best < _MIN_TOPIC:
        return None
    return Pointer(about=max(at for at, score in scores.items() if score == best), kind="topic")


def _terms(text: str, meta: re.Pattern[str]) -> dict[str, float]:
    """Words by their beginning, numbers, and pairs of characters where words are not spaced."""
    rest = meta.sub(lambda match: " " * len(match[0]), plain(text))
    found: dict[str, float] = {}
    for word in _WORD.findall(rest.casefold()):
        if _CJK.search(word):
            pairs = (word[at : at + 2] for at in range(len(word) - 1))
            found.update(dict.fromkeys((each for each in pairs if _TELLING.fullmatch(each)), 0.5))
            found.update(dict.fromkeys(re.findall(r"[0-9]+", word), 1.0))
        elif word.isdigit() or len(word) >= _STEM:
            found[word if word.isdigit() else word[:_STEM]] = 1.0
    return found
