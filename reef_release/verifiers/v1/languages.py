"""Markers of the final answer in other languages than English: "答案是18", "Die Antwort ist 18".

Only a marker that leads straight to a number counts, so "la respuesta no es 18" claims nothing.
"""

from __future__ import annotations

__all__ = ["FOREIGN_MARKER"]

_EUROPEAN = (
    r"respuesta|antwort|r[eé]ponse|risposta|resposta|odpowied[zź]|antwoord|svaret?|vastaus|cevap"
    r"|odpov[eě][dď]|r[aă]spuns(?:ul)?|jawaban(?:nya)?|đáp (?:án|số)|ответ|відповідь|отговор"
)
_ADJECTIVES = (
    r"final|finale|correcta|correcte|corretta|correta|definitiva|endg[uü]ltige|ko[nń]cowa|es|is"
)
_COPULAS = r"es|ist|lautet|est|[eè]|é|to|is|[aä]r|er|on|este|adalah|là|это|є"
FOREIGN_MARKER = (
    r"(?:(?:最终|最終|正确|正確|最后|最後)(?:的)?)?(?:答案|答え|答)(?:是|为|為|就是|は|等于)?"
    r" ?[:=]? ?(?:是|为)?(?=[*_ $¥€£-]{0,6}[0-9])"
    r"|(?:정답|답)(?:은|이)? ?[:=]?(?=[*_ $₩-]{0,6}[0-9])"
    r"|(?:उत्तर|الجواب|الإجابة|תשובה|התשובה|คำตอบ)(?: (?:है|هو|هي|היא|คือ)|คือ)?"
    r" ?[:=]?(?=[*_ $-]{0,6}[0-9])"
    rf"|(?i:(?<![^\W\d_])(?:{_EUROPEAN})(?: (?:{_ADJECTIVES}))?(?: ?[:=—–-]| (?:{_COPULAS}) ?:?)"
    r"(?=[*_ $€£-]{0,6}[0-9]))"
)
"""Pattern source of a marker together with its verb or colon; a number follows."""
