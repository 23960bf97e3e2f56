"""What a reaction says: clause by clause, whether it rejects, keeps, accepts or asks.

What always holds: text that speaks to an evaluator is cut out before anything is read, so that a
reaction with it and one without are judged alike; a rejection anywhere makes the reaction a
rejection; and the words reported are the person's own, in their spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from judge.scripted.hints import kind_of
from judge.scripted.lexicon import ANYWHERE, JUDGE, Lexicon, languages_of, lexicon, plain
from judge.scripted.references import Pointer, find_pointer

__all__ = ["Reading", "read_reaction", "without_address"]

_SENTENCE_END = r"(?<![.!?。！？…])[.!?。！？…]+[\"'”»」)]*(?=\s|$|[^\x00-\x7f])|[。！？]|\n+"
_CLAUSE_END = re.compile(
    rf"{_SENTENCE_END}|[,，、](?=\D)|[;；:：](?=\s|[^\x00-\x7f])|\s[–—-]+\s|(?<=です)が|(?<=です)けど"
    r"|\s(?=(?:but|though|although|however|aber|jedoch|sondern|mais|cependant|pero|sino|ma|però|mas"
    r"|porém|maar|ale|но|однако|ama|fakat)\s)|(?=但是|不过|可是|只是|然而)|(?=でも|しかし|ただ)|(?=하지만|그런데)",
    re.I,
)
_QUOTES = re.compile(
    r'"[^"\n]*"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|「[^「」\n]*」|『[^『』\n]*』|`[^`\n]*`'
)
_OBJECT = re.compile(r"\{[^{}]*\}")
_BRACKET = re.compile(r"[\[(<]{1,2}[^\[\]()<>\n]{0,200}[\])>]{1,2}")
_POSED = re.compile(
    r"<<[0-9a-f]{8,} (?!END>>)[^<>\n]*>>.*?<<[0-9a-f]{8,} END>>"
    r"|<(reaction|reply|system|user|assistant|verdict|evaluation|judge)>.*?</\1>"
    r"|^#+ *(?:system|verdict|evaluation|judge|grader)\b.*?(?=^#+ *\w)",
    re.I | re.S | re.M,
)
"""What poses as a piece of the judge's input: written in its form, and by nobody but the writer."""
_FORGED = re.compile(
    r"</?(?:think\w*|judge|grader|score|reward|label|reaction|reply|system|user|assistant|verdict"
    r"|evaluation)\b[^<>\n]{0,40}>|\[/?(?:think|judge|inst|system|user|score)\]|<\||<<[0-9a-f]"
    r"|^[^\w\n]{0,10}(?-i:REACTION|REPLY|MESSAGE|Fence:)"
    r"|(?:^|[.!?] )(?:evaluator|judge|grader|rater|scorer)s? ?[,:]",
    re.I | re.M,
)
"""Where a reaction begins to pose as a piece of the judge's input, or to call the judge."""
_TAG = re.compile(r"</?[a-z_|/-]{2,30}>", re.I)
_SENTENCE = re.compile(rf"(?:[^.!?。！？\n]|\.(?=\S))+(?:{_SENTENCE_END})?")
_EVALUATES = re.compile(
    r"score|about|reject|accept|evaluat|verdict|judge|grade|rating|reward|bewert|puntu|評価|评",
    re.I,
)
_QUESTION = re.compile(r"[?？]\s*[\"'”»」)]*\s*$|(?:か|吗|呢)[。.]?\s*$")
_SHOUTED = re.compile(r"\?\?|\?!|!\?|？？|？！")
_INDEFINITE = re.compile(r"(?<!\w)(?:an?|some|any|eine?[nmrs]?|une?|un[oa]?|uma?|een|bir) $", re.I)
_ARTICLE_CHARACTERS = 12
_NOD_WORDS = 4
_EDGES = " \t\n,.;:!?，、。；：！？–—-"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A reaction as it was understood; fields as in `reef_release.wire.Vote`."""

    score: int
    about: int
    rejected: str = ""
    keep: str = ""


class _Clause(msgspec.Struct, frozen=True, kw_only=True):
    start: int
    end: int
    text: str
    sentence: int


def without_address(text: str) -> str:
    """*text* without what speaks to an evaluator or poses as its input or output."""
    text = _POSED.sub(" ", text)
    text = _OBJECT.sub(lambda match: "" if _EVALUATES.search(match[0]) else match[0], text)
    text = _BRACKET.sub(lambda match: "" if _EVALUATES.search(match[0]) else match[0], text)
    text = _TAG.sub(" ", text)
    kept: list[str] = []
    end = 0
    for match in _SENTENCE.finditer(text):
        if JUDGE.search(plain(match[0])) is None:
            kept += text[end : match.start()], match[0]
        end = match.end()
    return "".join(kept).strip()


def read_reaction(reaction: str, replies: Mapping[int, str]) -> Reading:
    """The reading of a person's *reaction* to numbered *replies*."""
    reading = _read(without_address(reaction), replies)
    rest = _POSED.sub(" ", reaction)
    if reading.score > 0 and (forged := _FORGED.search(rest)):
        # Whoever writes in the form of the judge's input praises nothing by what follows.
        return _read(without_address(rest[: forged.start()]), replies)
    return reading


def _read(text: str, replies: Mapping[int, str]) -> Reading:
    last = max(replies)
    languages = languages_of(text)
    words = lexicon(languages)
    if not text or words.own.search(plain(text)):
        return Reading(score=0, about=0)
    clauses = _until_new_task(_clauses(text), words)
    said = _about_replies(text, clauses, words)
    rejects = [each for each in said if _rejects(each.text, words)]
    sarcastic = ANYWHERE["sarcasm"].search(plain(text)) is not None
    rejected = {each.start for each in rejects}
    if rejects or sarcastic or _SHOUTED.search(text):
        keeps = [
            each
            for each in clauses
            if not sarcastic and each.start not in rejected and _keeps(each.text, words)
        ]
        pointer = find_pointer(_only(text, said, keeps), replies, languages)
        return Reading(
            score=-1,
            about=pointer.about if pointer else last,
            rejected=_joined(text, rejects, pointer if pointer and pointer.about != last else None),
            keep=_joined(text, keeps, None),
        )
    pointer = find_pointer(_only(text, said or clauses, []), replies, languages)
    about = pointer.about if pointer else last
    if any(_praises(each.text, words) for each in said):
        return Reading(score=1, about=about)
    explicit = pointer is not None and pointer.kind != "topic"
    if (explicit and _QUESTION.search(text)) or words.ask.search(plain(text)):
        return Reading(score=0, about=about)
    return Reading(score=0, about=0)


def _clauses(text: str) -> list[_Clause]:
    """The clauses of *text*; punctuation inside quotation marks ends none."""
    hidden = _QUOTES.sub(lambda match: "Q" * len(match[0]), plain(text))
    found: list[_Clause] = []
    start = sentence = 0
    for match in [*_CLAUSE_END.finditer(hidden), None]:
        end = match.end() if match else len(text)
        if text[start:end].strip(_EDGES):
            found.append(_Clause(start=start, end=end, text=text[start:end], sentence=sentence))
        sentence += match is not None and re.fullmatch(_SENTENCE_END, match[0]) is not None
        start = max(start, end)
    return found


def _until_new_task(clauses: list[_Clause], words: Lexicon) -> list[_Clause]:
    for at, clause in enumerate(clauses):
        if words.new.match(plain(clause.text).lstrip(_EDGES)):
            return clauses[:at]
    return clauses


def _about_replies(text: str, clauses: list[_Clause], words: Lexicon) -> list[_Clause]:
    """The clauses that may say something of a reply.

    A reaction that ends in a question of its own ("In a right triangle ... How long is it?") is a
    new task, words that could judge included; only what is tied to the conversation, or is as
    short as a nod, still counts.
    """
    if not clauses or not _QUESTION.search(text[: clauses[-1].end]):
        return clauses
    last = [each for each in clauses if each.sentence == clauses[-1].sentence]
    if any(_tied(each.text, words) for each in last):
        return clauses
    before = [each for each in clauses if each.sentence != clauses[-1].sentence]
    return [
        each for each in before if _tied(each.text, words) or len(each.text.split()) <= _NOD_WORDS
    ]


def _tied(clause: str, words: Lexicon) -> bool:
    return words.deictic.search(plain(clause)) is not None or kind_of(clause) is not None


def _praises(clause: str, words: Lexicon) -> bool:
    text = _outside_quotes(clause)
    for match in words.praise.finditer(text):
        # "Find me a good hotel" praises nothing; "that's a good answer" does.
        before = text[max(0, match.start() - _ARTICLE_CHARACTERS) : match.start()]
        if not _INDEFINITE.search(before) or words.deictic.search(text):
            return True
    return False


def _rejects(clause: str, words: Lexicon) -> bool:
    text = _outside_quotes(clause)
    if ANYWHERE["amount"].fullmatch(text.strip(_EDGES)) or ANYWHERE["again"].search(text):
        return True
    # "no complaints", "not bad", "don't touch": praise or a wish to keep that contains a denial.
    pardoned = [
        match.span() for each in (words.praise, words.keep) for match in each.finditer(text)
    ]
    return any(
        not any(start <= match.start() and match.end() <= end for start, end in pardoned)
        for match in words.reject.finditer(text)
    )


def _keeps(clause: str, words: Lexicon) -> bool:
    """Whether a clause beside a rejection says what is to stay: in words, or by praising it."""
    text = _outside_quotes(clause)
    if words.keep.search(text):
        return True
    praise = words.praise.search(text)
    return praise is not None and len(text.strip(_EDGES)) > len(praise[0]) + 3


def _outside_quotes(clause: str) -> str:
    return _QUOTES.sub(lambda match: " " * len(match[0]), plain(clause))


def _only(text: str, clauses: list[_Clause], without: list[_Clause]) -> str:
    """*text* with blanks in place of all but *clauses*, those of *without* left out."""
    shown = list(" " * len(text))
    hidden = {each.start for each in without}
    for each in clauses:
        if each.start not in hidden:
            shown[each.start : each.end] = text[each.start : each.end]
    return "".join(shown)


def _joined(text: str, clauses: list[_Clause], pointer: Pointer | None) -> str:
    """The first of *clauses* and those right behind it in the same sentence, without a pointer."""
    if not clauses:
        return ""
    run = [clauses[0]]
    for clause in clauses[1:]:
        if clause.start != run[-1].end or clause.sentence != run[0].sentence:
            break
        run.append(clause)
    start, end = run[0].start, run[-1].end
    if pointer and start <= pointer.start < pointer.end < end:
        rest = text[pointer.end : end].strip(_EDGES)
        if len(rest) > 1:
            return rest
    return text[start:end].strip(_EDGES)
