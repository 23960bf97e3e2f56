"""What the documents tell a reader to type exists, their links lead somewhere, they are whole."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.docs import pages

PAGES = pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
UNFINISHED = re.compile(r"\b(TODO|FIXME|TBD|XXX|placeholder|coming soon|lorem ipsum)\b", re.I)
MACHINE_PATH = re.compile(r"(?<![\w.~])/(home|root|Users|work|tmp)/\w")
ALLOWED_PROGRAMS = {"cd", "curl", "docker", "export", "git", "make", "pip", "reef-release"}


def options_of(command: Any) -> set[str]:
    return {"--help"} | {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def problem_with(words: list[str], root: Any) -> str | None:
    """Why `reef-release *words*` cannot be run, going by the command tree under *root*."""
    command, rest = root, list(words)
    known = options_of(root)
    while rest and hasattr(command, "commands"):
        word = rest.pop(0)
        if word.startswith("-"):
            if word.partition("=")[0] not in known:
                return f"no option {word}"
            continue
        if word not in command.commands:
            return f"no verb {word}"
        command = command.commands[word]
        known = known | options_of(command)
    for word in rest:
        if word.startswith("-") and word.partition("=")[0] not in known and word != "-":
            return f"no option {word}"
    if hasattr(command, "commands") and "--help" not in words:
        return "a verb is missing"
    return None


@PAGES
def test_links_lead_somewhere(page: Path) -> None:
    for link in pages.links(page):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{link} does not exist"
        if anchor:
            assert anchor in pages.anchors(file), f"{link} names no heading"


@PAGES
def test_pages_are_finished_and_name_no_machine(page: Path) -> None:
    text = page.read_text("utf-8")
    assert UNFINISHED.search(text) is None
    assert MACHINE_PATH.search(text) is None


@PAGES
def test_every_make_target_in_a_document_exists(page: Path) -> None:
    makefile = (pages.REPOSITORY / "Makefile").read_text("utf-8")
    for words in pages.commands(page):
        if words[0] == "make":
            for target in words[1:]:
                if "=" not in target and not target.startswith("-"):
                    assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


@PAGES
def test_documents_use_known_programs(page: Path) -> None:
    for words in pages.commands(page):
        program = words[0].removeprefix(".venv/bin/")
        if program in ("python", "python3"):
            assert (pages.REPOSITORY / words[1]).exists() or words[1] == "-m", words
        else:
            assert program in ALLOWED_PROGRAMS, words


@PAGES
@pytest.mark.skipif(find_spec("reef_release.cli") is None, reason="there is no command line")
def test_every_command_line_in_a_document_can_be_typed(page: Path) -> None:
    import typer
    from reef_release.cli import app

    root = typer.main.get_command(app)
    for words in pages.commands(page):
        if words[0].removeprefix(".venv/bin/") == "reef-release":
            assert problem_with(words[1:], root) is None, words


@PAGES
@pytest.mark.skipif(find_spec("reef_release.cli") is None, reason="there is no command line")
def test_every_verb_mentioned_in_prose_exists(page: Path) -> None:
    import typer
    from reef_release.cli import app

    root = typer.main.get_command(app)
    for mention in re.findall(r"`reef-release ([^`]+)`", pages.prose(page)):
        assert problem_with(mention.split(), root) is None, mention


def test_every_page_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [pages.REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        for link in pages.links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file():
                waiting.append(target)
    assert set(pages.PAGES) <= seen
