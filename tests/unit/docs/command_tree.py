"""Whether a command line could be typed, going by the command tree of `reef-release`.

Only names are judged (verbs, options, how many arguments), since nothing is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import typer

__all__ = ["command_tree", "problem_with"]


@cache
def command_tree() -> Any:
    """The root of the command tree."""
    from reef_release.cli import app

    return typer.main.get_command(app)


def problem_with(words: Sequence[str], root: Any) -> str | None:
    """Why `reef-release *words*` cannot be typed; None if it can."""
    command, arguments = root, 0
    options = _options(root)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--help":
            return None
        if word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            if name not in options:
                return f"no option {name}"
            if not equals and not options[name].is_flag:
                if not rest:
                    return f"{name} needs a value"
                rest.pop(0)
        elif hasattr(command, "commands"):
            if word not in command.commands:
                if not hasattr(command, "default_verb"):
                    return f"no verb {word}"
                rest.insert(0, word)
                word = command.default_verb
            command = command.commands[word]
            options = _options(command)
        else:
            arguments += 1
    if hasattr(command, "commands"):
        return None if command.invoke_without_command else "a verb is missing"
    wanted = [each for each in command.params if each.param_type_name == "argument"]
    least = sum(each.required for each in wanted)
    if arguments < least or (arguments > len(wanted) and all(each.nargs == 1 for each in wanted)):
        return f"{arguments} arguments, {least} to {len(wanted)} wanted"
    return None


def _options(command: Any) -> dict[str, Any]:
    return {
        name: parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
