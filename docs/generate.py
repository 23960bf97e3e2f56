"""Write the reference pages that follow from code: `python docs/generate.py [--check]`.

A page here is a function of the code alone, so that a test can make it again and compare.
With `--check` nothing is written and the status is 1 if a page is out of date.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import typer
from api_page import api_page
from pydantic_core import PydanticUndefined
from words import NOTICE, anchor, hints_of, prose, structs_in

from reef_release.cli import app
from reef_release.domain.correlation import REASONS
from reef_release.domain.events import EVENT_TYPES, Envelope, EventData
from reef_release.domain.traffic import alarm
from reef_release.domain.traffic.reasons import CALL_ERRORS, METHODS, REFUSALS
from reef_release.domain.validation import stream_of
from reef_release.drill.attack import Stop
from reef_release.drill.catalogue import catalogue
from reef_release.settings import Settings
from reef_release.traffic_wire import InteractionRequest
from reef_release.verifiers.registry import VERIFIERS

__all__ = ["PAGES", "main"]

_REFERENCE = Path(__file__).parent / "reference"
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", msgspec.Raw: "object"}
_VALUES: dict[Any, str] = {int: "integer", float: "number", Path: "path"}


def events_page() -> str:
    """The event catalogue: envelope, every type with its stream and data, shared parts."""
    lines = [
        "# Events",
        "",
        NOTICE,
        "The stored bytes of an event are the RFC 8785 JSON of its envelope, with the type's own",
        "fields under `data`. The envelope's fields are explained in the",
        "[glossary](../glossary.md#the-event-envelope). All of them are always present; there are",
        "no floats (see [decision 1](../decisions/0001-events-carry-no-floats.md)).",
        "",
        "## Overview",
        "",
        "| type | stream | says |",
        "| --- | --- | --- |",
    ]
    for name, kind in EVENT_TYPES.items():
        summary = prose(kind).partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| [`{name}`](#{anchor(name)}) | `{_stream(kind)}` | {summary} |")
    lines += ["", "## Envelope", "", *_fields(Envelope)]
    for name, kind in EVENT_TYPES.items():
        lines += ["", f"## {name}", "", prose(kind), ""]
        lines += [f"Stream `{_stream(kind)}`, schema version {kind.SCHEMA_VERSION}.", ""]
        lines += _fields(kind)
    for part in _parts():
        lines += ["", f"## {part.__name__}", "", prose(part), "", *_fields(part)]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Every setting with its environment variable, default and meaning."""
    lines = [
        "# Settings",
        "",
        NOTICE,
        "An environment variable wins over the TOML file (`REEF_CONFIG`, or `reef.toml` in the",
        "data directory), and that wins over the default. `DATABASE_URL` is read as well as",
        "`REEF_DATABASE_URL`. `reef-release status --settings` shows what a service started from",
        "this shell would have, and where it came from; a service that runs already has what it",
        "was started with. `reef-release up` passes all of them on to its service, but for the",
        "database, the directories, the address and the port, which it decides and says so.",
        "",
        "| variable | in the file | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for name, field in Settings.model_fields.items():
        computed = field.default is None or field.default is PydanticUndefined
        default = "" if computed or field.default == "" else f"`{field.default}`"
        if name == "home":
            default = "`~/.local/share/reef-release`; for root `/var/lib/reef-release`"
        lines.append(f"| `REEF_{name.upper()}` | `{name}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


def verifiers_page() -> str:
    """Every shipped verifier: whether it is objective, and by which rules it decides."""
    lines = [
        "# Verifiers",
        "",
        NOTICE,
        "A verifier is a pure function of a reply and the task's right answer. A policy names it",
        "with its version; shipped versions never change and are never removed, so that an old",
        "verdict can be recomputed for ever. At least one verifier of each part of a",
        "[policy](policy.md) must be objective: it decides by the right answer alone.",
        "",
        "| verifier | objective | passes a reply when |",
        "| --- | --- | --- |",
    ]
    for spec, verifier in VERIFIERS.items():
        objective = "yes" if verifier.objective else "no"
        lines.append(f"| [`{spec}`](#{anchor(spec)}) | {objective} | {verifier.summary} |")
    for spec, verifier in VERIFIERS.items():
        module = importlib.import_module(verifier.check.__module__)
        prose = inspect.cleandoc(module.__doc__ or "").removeprefix(f"{spec}: ")
        lines += ["", f"## {spec}", "", prose[:1].upper() + prose[1:]]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Every verb of `reef-release` with its arguments and options."""
    lines = [
        "# Commands",
        "",
        NOTICE,
        "The `--help` of every verb says the same. The exit status is 0 when it is done, 1 when",
        "the answer is no, and 2 for an error, which says what to do next.",
    ]
    for path, command in _verbs((), typer.main.get_command(app)):
        lines += ["", f"## {' '.join(('reef-release', *path))}", "", _summary(command)]
        rows = [_parameter(each) for each in command.params if "--help" not in each.opts]
        if rows:
            lines += ["", "| | value | meaning |", "| --- | --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def signal_page() -> str:
    """The fields of a recorded interaction, and every code that says why a call trains nothing."""
    codes = (
        ("How calls are bound", "method", METHODS, "Main calls that continue another."),
        ("Why calls are not bound", "reason", REASONS, "Calls that continue none."),
        ("Why calls failed", "error", CALL_ERRORS, "Calls without a whole answer; never judged."),
        (
            "Why replies train nothing",
            "reason",
            REFUSALS,
            "Notes of a receipt, `untrainable` and `refused` in signal health, `sample.refused`.",
        ),
    )
    lines = [
        "# Traffic and its signal",
        "",
        NOTICE,
        "How to send traffic is told in [agents](../agents.md).",
        "",
        "## An interaction",
        "",
        prose(InteractionRequest),
        "",
        "| field | value | meaning |",
        "| --- | --- | --- |",
    ]
    for name, hint in get_type_hints(InteractionRequest, include_extras=True).items():
        value, meaning = get_args(hint)
        lines.append(f"| `{name}` | {_words(value)} | {meaning.description} |")
    lines += ["", "## The alarm", "", inspect.cleandoc(alarm.__doc__ or "")]
    for title, head, table, about in codes:
        lines += ["", f"## {title}", "", about, "", f"| {head} | meaning |", "| --- | --- |"]
        lines += [f"| `{code}` | {meaning} |" for code, meaning in sorted(table.items())]
    return "\n".join(lines) + "\n"


def drill_page() -> str:
    """Every attack of the drill, and what must stop it."""
    attacks = catalogue()
    rows = sorted({row for attack in attacks for row in attack.rows})
    lines = [
        "# The drill",
        "",
        NOTICE,
        f"`reef-release drill` tries {len(attacks)} attacks of {len(rows)} kinds on a running",
        "service, with real weights, over real HTTP, on a real database, with a real gate worker,",
        "signer and node. Without `--home` it starts a stack of its own in a temporary directory,",
        "because many attacks need what no stranger has: keys, the database, the service's disk.",
        "With `--home` it attacks the service of that data directory with the tokens in it, tells",
        "which attacks it left out, and why. An attack that `--only` asks for is never left out:",
        "where it cannot be run the exit status is 2.",
        "",
        "Each attack first shows that its unmodified twin gets through, or would. It counts as",
        "stopped only when what stopped it is what must: by whom, by which reason, and with which",
        "event. The drill looks that event up in the log; where the table names none, it checks",
        "that nothing decisive was written. Before and after each attack it compares what is",
        "served by three accounts: the service's, that of the current document as a node verifies",
        "it, and the files that the engine has read. At the end the export must replay, and a good",
        "candidate must still get through. The exit status is 0 when all of that held.",
        "",
        "## What a drill leaves behind",
        "",
        "A stack of its own is removed with all that is in it. On the service of a `--home` the",
        "log keeps what was tried, as it keeps everything: about 60 `candidate.submitted`, each",
        "with its `candidate.refused`. All of them have one actor, `drill-` and eight letters, new",
        "for each drill, so that they are told from the trainer's and use up nothing of what the",
        "trainer may submit within a day (`REEF_SUBMISSIONS_PER_DAY`). For that the drill makes",
        "itself a trainer's token with the `token.secret` of that home; where it cannot read that",
        "file it takes the trainer's own token, and its candidates count as the trainer's. It",
        "opens no gate, moves no pointer and revokes nothing there. A drill can be repeated as",
        "often as one likes: no two submit the same bytes.",
        "",
        "## Adding an attack",
        "",
        "Add a file to `reef_release/drill/attacks/` with a tuple `ATTACKS`; it is found there.",
        "An `Attack` has a name, the rows it belongs to, what it tries, what must stop it, and a",
        "function `run(context) -> Outcome` that tries it. `context` has clients with tokens of",
        "any role and, on a stack of its own, everything else; `needs` says what of that it takes.",
        "`stopped` and `recorded` assert how something is refused. Then run `python",
        "docs/generate.py`.",
        "",
        "## All attacks",
        "",
        "Two of them are found only afterwards, and this page should not say more: a gate worker",
        "that lies with its key in its hand is found by an audit that runs the weights, and its",
        "pass waits only where the scenario is held, or its policy asks for approvals; a log that",
        "its superuser rewrites is found by whoever kept a checkpoint.",
        "",
        "| row | attack | tries | must be stopped by | needs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for attack in attacks:
        shown = ", ".join(map(str, attack.rows))
        stops = "; ".join(_stop(stop) for stop in attack.stops)
        needs = ", ".join(access.words for access in sorted(attack.needs)) or "tokens"
        quick = " (quick)" if attack.quick else ""
        lines.append(f"| {shown} | `{attack.name}`{quick} | {attack.tries} | {stops} | {needs} |")
    return "\n".join(lines) + "\n"


def _stop(stop: Stop) -> str:
    events = " or ".join(f"`{event}`" for event in stop.events)
    return f"{stop.by}: `{stop.code}`" + (f", {events}" if events else "")


PAGES: Mapping[Path, Callable[[], str]] = {
    _REFERENCE.parent / "drill.md": drill_page,
    _REFERENCE / "api.md": api_page,
    _REFERENCE / "commands.md": commands_page,
    _REFERENCE / "events.md": events_page,
    _REFERENCE / "settings.md": settings_page,
    _REFERENCE / "signal.md": signal_page,
    _REFERENCE / "verifiers.md": verifiers_page,
}


def _verbs(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Everything that can be typed, as (words, command)."""
    inner = getattr(command, "commands", None)
    if path and (inner is None or command.invoke_without_command):
        yield path, command
    for name in sorted(inner or ()):
        yield from _verbs((*path, name), inner[name])


def _summary(command: Any) -> str:
    return inspect.cleandoc(command.help or "")


def _parameter(parameter: Any) -> str:
    """One row: name, value, meaning."""
    option = parameter.param_type_name == "option"
    name = ", ".join(f"`{each}`" for each in parameter.opts) if option else f"`{parameter.name}`"
    if option and parameter.is_flag:
        value = "flag"
    else:
        kind = parameter.type_descriptor.annotation
        choices = list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else []
        value = " or ".join(f"`{each.value}`" for each in choices) or _VALUES.get(kind, "text")
        if parameter.nargs != 1 or getattr(parameter, "multiple", False):
            value += ", repeatable"
        if parameter.required:
            value += ", required"
        elif parameter.default not in (None, "") and not callable(parameter.default):
            value += f", default `{parameter.default}`"
    meaning = parameter.help or ""
    if getattr(parameter, "envvar", None):
        meaning += f" Also `{parameter.envvar}`."
    return f"| {name} | {value} | {meaning.strip()} |"


def _stream(kind: type[EventData]) -> str:
    """The stream with `<field>` where a field's value goes."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    return stream_of(kind(**{name: f"<{name}>" for name in names}))


def _parts() -> list[type[msgspec.Struct]]:
    """Structs that stand inside event data, by name."""
    return list(
        structs_in(hint for kind in EVENT_TYPES.values() for hint in hints_of(kind)).values()
    )


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    hints = get_type_hints(kind)
    rows = [
        f"| `{field.encode_name}` | {_words(hints[field.name])} |"
        for field in msgspec.structs.fields(kind)
    ]
    return ["| field | value |", "| --- | --- |", *rows]


def _words(hint: Any) -> str:
    """A type hint as an English noun phrase: `list[str] | None` is "list of string, or null"."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        rest = [_words(each) for each in args if each is not NoneType]
        return " or ".join(rest) + (", or null" if NoneType in args else "")
    if origin is Literal:
        return " or ".join(f'`"{each}"`' for each in args)
    if origin is list:
        words = _words(args[0])
        return f"list of ({words})" if ", " in words else f"list of {words}"
    if origin is dict:
        return "object" if args[1] is Any else f"object of {_words(args[1])} by name"
    if hint in _WORDS:
        return _WORDS[hint]
    return f"[{hint.__name__}](#{anchor(hint.__name__)})"


def main() -> int:
    """Write all pages, or compare them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = [
        path for path, make in PAGES.items() if not path.exists() or path.read_text() != make()
    ]
    for path in stale:
        if check:
            print(f"{path} is out of date; run: python docs/generate.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PAGES[path]())
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
