"""What the documents tell a reader to type exists, their links lead somewhere, they are whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.unit.docs import pages
from tests.unit.docs.command_tree import command_tree, problem_with

PAGES = pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
UNFINISHED = re.compile(r"\b(TODO|FIXME|TBD|XXX|placeholder|coming soon|lorem ipsum)\b", re.I)
MACHINE_PATH = re.compile(r"(?<![\w.~])/(home|root|Users|work|tmp)/\w")
ALLOWED_PROGRAMS = {
    "accelerate",
    "cd",
    "curl",
    "docker",
    "docker/prepare.sh",
    "echo",
    "export",
    "git",
    "make",
    "mkdir",
    "model_signing",
    "pip",
    "reef-release",
    "vllm",
}
RUN_AS_A_WHOLE = {
    "auditors.md",
    "gate-workers.md",
    "judges.md",
    "key-ceremony.md",
    "own-upstream.md",
    "policy-owners.md",
    "trainers.md",
    "tutorial.md",
}
"""Pages that are shell scripts and that a test of their own runs from top to bottom."""


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
    if page.name in RUN_AS_A_WHOLE:
        return
    for words in pages.commands(page):
        program = words[0].removeprefix(".venv/bin/")
        if program in ("python", "python3"):
            assert (pages.REPOSITORY / words[1]).exists() or words[1] == "-m", words
        else:
            assert program in ALLOWED_PROGRAMS, words


@PAGES
def test_every_command_line_in_a_document_can_be_typed(page: Path) -> None:
    for words in pages.commands(page):
        if words[0].removeprefix(".venv/bin/") == "reef-release":
            assert problem_with(words[1:], command_tree()) is None, words


@PAGES
def test_every_verb_mentioned_in_prose_exists(page: Path) -> None:
    for mention in re.findall(r"`reef-release ([^`]+)`", pages.prose(page)):
        # Prose may name a verb without its arguments.
        assert problem_with([*shlex.split(mention), "--help"], command_tree()) is None, mention


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
