"""Command lines, read by the programs that they start.

What always holds: a line counts as right only when the program's own parser took it. vLLM is not
installed beside this, so its lines are compared with the names of its options, as version 0.32.0
printed them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files

from reef_release.errors import BadRequest

__all__ = ["parsed", "read_command"]

_TIMEOUT_S = 120
_BOX = str.maketrans("│╭╰─╮╯", "      ")
_OPTIONS = files("trainer.recipe").joinpath("vllm_options.txt")


def read_command(given: Sequence[str]) -> str:
    """What was read by what. Raises `ValueError` with the parser's words."""
    match given:
        case ["accelerate", "launch", *rest]:
            return _accelerate(rest)
        case ["python", "-m", module, *rest]:
            return _module(module, rest)
        case ["vllm", "serve", _, *rest]:
            return _vllm(rest)
        case [verb, *_] if not verb.startswith("/"):
            return _reef_release(given)
    raise ValueError(f"nobody knows how to read: {' '.join(given)}")


def _reef_release(given: Sequence[str]) -> str:
    # Its parser is part of the service's command line, which is another program.
    command = [sys.executable, "-m", "reef_release.cli", *given, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        boxed = done.stderr.partition("Error")[2] or done.stderr
        raise ValueError(" ".join(boxed.translate(_BOX).split()))
    return f"reef-release {given[0]}"


def _accelerate(given: Sequence[str]) -> str:
    from accelerate.commands.launch import launch_command_parser

    found = parsed(launch_command_parser(), given)
    inner = read_command(found.training_script_args)
    return f"accelerate launch, then {inner}"


def _module(name: str, given: Sequence[str]) -> str:
    package = importlib.util.find_spec(name)
    if package is None:
        raise ValueError(f"there is no module {name}")
    where = f"{name}.__main__" if package.submodule_search_locations is not None else name
    parser = getattr(importlib.import_module(where), "parser", None)
    if parser is None:
        raise ValueError(f"{where} has no parser() to read the line with")
    parsed(parser(), given)
    return f"python -m {name}"


def parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """What *parser* makes of a line. Raises `ValueError` with its words instead of exiting."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parser.parse_args(list(given))
    except SystemExit as error:
        raise ValueError(said.getvalue().strip().splitlines()[-1]) from error


def _vllm(given: Sequence[str]) -> str:
    known = set(_OPTIONS.read_text("ascii").split())
    options = [word for word in given if word.startswith("--")]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise BadRequest(f"vLLM has no {', '.join(unknown)}")
    return f"vllm serve, {len(options)} options by name"
