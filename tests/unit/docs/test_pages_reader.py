"""The reader of documents finds what a person would type."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.docs import pages
from tests.unit.docs.command_tree import problem_with


def option(name: str, *, flag: bool = False) -> SimpleNamespace:
    return SimpleNamespace(opts=[name], secondary_opts=[], param_type_name="option", is_flag=flag)


def argument(*, required: bool = True) -> SimpleNamespace:
    return SimpleNamespace(param_type_name="argument", required=required, nargs=1)


SHOW = SimpleNamespace(params=[option("--role"), option("--json", flag=True), argument()])
UP = SimpleNamespace(params=[argument(required=False)])
KEYS = SimpleNamespace(params=[], commands={"show": SHOW}, invoke_without_command=False)
NODE = SimpleNamespace(params=[option("--at")], commands={"up": UP}, invoke_without_command=True)
ROOT = SimpleNamespace(
    params=[option("--version", flag=True)],
    commands={"keys": KEYS, "node": NODE, "up": UP},
    invoke_without_command=False,
)


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
        ("keys show --role gate here", None),
        ("keys show here --role=gate", None),
        ("keys show --json here", None),
        ("keys --help", None),
        ("--version up", None),
        ("up", None),
        ("up there", None),
        ("node --at up", None),
        ("node --at here up", None),
        ("keys shew", "no verb shew"),
        ("keys show --rolle gate here", "no option --rolle"),
        ("keys show here --role", "--role needs a value"),
        ("keys show", "0 arguments, 1 to 1 wanted"),
        ("up here there", "2 arguments, 0 to 1 wanted"),
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
