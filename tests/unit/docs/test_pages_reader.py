"""The reader of documents finds what a person would type."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.docs import pages
from tests.unit.docs.test_documents_run import problem_with


def option(*names: str) -> SimpleNamespace:
    return SimpleNamespace(opts=names, secondary_opts=())


SHOW = SimpleNamespace(params=[option("--role"), option("--json")])
KEYS = SimpleNamespace(params=[], commands={"show": SHOW})
ROOT = SimpleNamespace(params=[option("--version")], commands={"keys": KEYS, "up": SHOW})


def test_prompts_pipes_continuations_and_redirections_are_understood(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n"
        "$ reef-release keys \\\n"
        "    show --role gate | jq .   # a comment\n"
        "output | that looks like a command\n"
        "$ REEF_HOME=x reef-release up > log && make test\n"
        "```\n"
        "```bash\ncd here\n```\n"
        "```json\n{}\n```\n"
    )
    assert list(pages.commands(page)) == [
        ["reef-release", "keys", "show", "--role", "gate"],
        ["jq", "."],
        ["reef-release", "up"],
        ["make", "test"],
        ["cd", "here"],
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("keys show --role gate", None),
        ("keys show --role=gate", None),
        ("keys --help", None),
        ("--version up", None),
        ("keys shew", "no verb shew"),
        ("keys show --rolle gate", "no option --rolle"),
        ("--wersion up", "no option --wersion"),
        ("keys", "a verb is missing"),
    ],
)
def test_a_wrong_verb_or_option_is_found(line: str, problem: str | None) -> None:
    assert problem_with(line.split(), ROOT) == problem


def test_anchors_are_those_of_a_renderer(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One, two\n\n## release.rolled_back\n\n```bash\n# no heading\n```\n")
    assert pages.anchors(page) == {"one-two", "releaserolled_back"}
