"""The API reference: the service's OpenAPI document as a page, with the roles of its guards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

from litestar import Litestar
from litestar.routes import HTTPRoute
from words import NOTICE, anchor, prose, structs_in

from reef_release import errors
from reef_release.api.access import roles_of
from reef_release.api.app import create_app
from reef_release.api.problems import PROBLEM_PREFIX
from reef_release.api.service import Service
from reef_release.domain.canonical import MAX_INTEGER
from reef_release.tokens import TokenRole
from reef_release.web.pages import PAGES

__all__ = ["api_page"]

_USERS = {
    TokenRole.INGEST: ("Agent harness", "agents.md"),
    TokenRole.JUDGE: ("Judge worker", "judges.md"),
    TokenRole.TRAIN: ("Trainer job", "trainers.md"),
    TokenRole.GATE: ("Gate worker", "gate-workers.md"),
    TokenRole.SIGN: ("Signer", "operations.md"),
    TokenRole.SERVE: ("Serving node", "nodes.md"),
    TokenRole.AUDIT: ("Auditor", "auditors.md"),
    TokenRole.APPROVE: ("Approver", "operations.md"),
    TokenRole.OPERATE: ("Operator", "operations.md"),
}
_INTRODUCTION = """\
The service describes its routes itself: `/schema/openapi.json` is the OpenAPI document that this
page is made of, with the roles that each route's guard admits. The addresses of the
[pages](../pages.md) are not in it.

Send `Authorization: Bearer TOKEN` (`reef-release token create`). A token has one role, and may
be of one scenario alone; then it is refused (403) wherever the path names another. The policy
owner has no section: that key works offline, and what it signs the operator hands in.

Bodies are JSON in UTF-8 unless a route says otherwise. Unknown fields in a request are refused;
a field with a default may be left out. Numbers are finite. Names carry their units: `_s` are
seconds, `_bytes` bytes, and a *position* counts the events of the log from 0. An answer may get
further fields in a later version, so ignore what you do not know.

A route that appends answers when its event is durable. Sent again, it gets the first result where
the route says so; where it does not, read the state before you repeat it.
"""
_PROBLEMS = """\
Every error is `application/problem+json` (RFC 9457) of the form [Problem](#problem): `type` is
`{prefix}` and a name from this table, `next_step` says what to do, and `reasons` has every cause
where there are several. An answer 429 or 503 says in `Retry-After` after how many seconds to
repeat the request.

| type | status | means |
| --- | --- | --- |
"""
_DIGESTS = re.compile(
    "base|body|bundle|canary|.*digest|foundation|(candidate|key|release|weights)_id|leaf_hash|parent"
    "|proof|releases|root|schema|sha256|suite|used_in"
)
_TIMES = frozenset({"at", "since"})
_POSITIONS = frozenset({"after", "head", "position", "positions"})
_LIMITS = {"minimum": "at least", "maximum": "at most"}


@dataclass(frozen=True, kw_only=True)
class _Route:
    """One method of one path."""

    method: str
    path: str
    operation: dict[str, Any]
    roles: tuple[TokenRole, ...] | None
    hints: list[Any]
    defaults: dict[str, Any]

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def link(self) -> str:
        return f"[`{self.title}`](#{anchor(self.title)})"


def api_page() -> str:
    """Routes by user, then each with parameters and bodies, then the bodies and the problems."""
    app = create_app(cast("Service", SimpleNamespace()), PAGES)
    document = app.openapi_schema.to_schema()
    routes = sorted(_routes(app, document), key=lambda each: (each.path, each.method))
    lines = ["# HTTP API", "", NOTICE, _INTRODUCTION]
    for role, (user, page) in _USERS.items():
        lines += [f"## {user}", "", f"Role `{role}`; how to be one: [{page}](../{page}).", ""]
        lines += _table(route for route in routes if role in (route.roles or ()))
    lines += ["## Without a token", "", *_table(each for each in routes if each.roles is None)]
    lines += ["## Routes", ""]
    for route in routes:
        lines += _details(route)
    lines += ["## Bodies", ""]
    docs = structs_in(hint for route in routes for hint in route.hints)
    for name, schema in sorted(document["components"]["schemas"].items()):
        about = prose(docs[name]) if name in docs else "The body of every error."
        lines += [f"### {name}", "", about, "", *_fields(schema), ""]
    lines += ["## Problems", "", _PROBLEMS.format(prefix=PROBLEM_PREFIX).rstrip(), *_problems()]
    return "\n".join(lines) + "\n"


def _routes(app: Litestar, document: dict[str, Any]) -> Iterator[_Route]:
    for route in app.routes:
        if not isinstance(route, HTTPRoute) or route.path_format not in document["paths"]:
            continue
        operations = document["paths"][route.path_format]
        for handler in route.route_handlers:
            signature = handler.parsed_fn_signature
            for method in handler.http_methods & {each.upper() for each in operations}:
                yield _Route(
                    method=method,
                    path=route.path_format,
                    operation=operations[method.lower()],
                    roles=roles_of(handler),
                    hints=[
                        signature.return_type.annotation,
                        *(each.annotation for each in signature.parameters.values()),
                    ],
                    defaults={
                        getattr(each.kwarg_definition, "query", None) or name: each.default
                        for name, each in signature.parameters.items()
                        if isinstance(each.default, int | float | str)
                    },
                )


def _table(routes: Iterator[_Route]) -> list[str]:
    rows = [f"| {route.link} | {route.operation['summary']} |" for route in routes]
    return ["| route | does |", "| --- | --- |", *rows, ""]


def _details(route: _Route) -> list[str]:
    operation = route.operation
    roles = ", ".join(f"`{role}`" for role in route.roles) if route.roles else "no token needed"
    lines = [f"### {route.title}", "", f"{operation['summary'].rstrip('?')}. For {roles}.", ""]
    lines += [operation["description"], ""]
    if operation.get("parameters"):
        lines += ["| parameter | in | value |", "| --- | --- | --- |"]
        for each in operation["parameters"]:
            need = ", required" if each.get("required") and each["in"] != "path" else ""
            if each["name"] in route.defaults:
                need = f", default `{route.defaults[each['name']]}`"
            value = _value(each["name"], each["schema"])
            lines.append(f"| `{each['name']}` | {each['in']} | {value}{need} |")
        lines.append("")
    body = operation.get("requestBody")
    if body:
        kinds = [f"`{kind}`: {_body(each['schema'])}" for kind, each in body["content"].items()]
        lines += [f"Send {', or '.join(kinds)}. {body.get('description', '')}".rstrip(), ""]
    found, problems = [], []
    for status, answer in sorted(operation["responses"].items()):
        content = answer.get("content", {})
        if "application/problem+json" in content:
            problems.append(status)
            continue
        kinds = [
            f"`{kind}` {_body(each.get('schema', {}))}".rstrip() for kind, each in content.items()
        ]
        said = answer["description"]
        said = (
            ""
            if said.startswith(("Request fulfilled", "Document created", "Stream Response"))
            else said
        )
        found.append(": ".join(filter(None, (f"{status} {said}".strip(), " or ".join(kinds)))))
    lines += [f"Answers {'; '.join(found)}."]
    if problems:
        lines[-1] += f" [Problems](#problems): {', '.join(problems)}."
    return [*lines, ""]


def _body(schema: dict[str, Any]) -> str:
    """What a body is, in a few words."""
    if schema.get("title") == "InteractionRequest":
        return "[an interaction](signal.md#an-interaction)"
    if schema.get("type") == "null":
        return "(empty)"
    if schema.get("properties"):
        members = [
            f"`{name}` ({_value(name, each)})" for name, each in schema["properties"].items()
        ]
        return f"object with {', '.join(members)}"
    return _value("", schema) if schema else ""


def _fields(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", [])
    rows = []
    for name, each in schema["properties"].items():
        default = "" if name in required else ", optional"
        if each.get("default") not in (None, ""):
            default = f", default `{each['default']}`"
        rows.append(f"| `{name}` | {_value(name, each)}{default} |")
    return ["| field | value |", "| --- | --- |", *rows] if rows else ["No fields."]


def _value(name: str, schema: dict[str, Any]) -> str:
    """A JSON schema as a noun phrase, with the unit that *name* stands for."""
    words, unit = _words(schema), _unit(name, _types(schema))
    limits = [
        f"{said} {schema[key]:.0f}"
        for key, said in _LIMITS.items()
        if schema.get(key, MAX_INTEGER) != MAX_INTEGER
    ]
    return ", ".join([words, *([unit] if unit else []), *limits])


def _words(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{anchor(name)})"
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        rest = [_words(each) for each in choices if each.get("type") != "null"]
        return " or ".join(rest) + (", or null" if len(rest) < len(choices) else "")
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_words(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict) and inner:
        return f"object of {_words(inner)} by name"
    if schema.get("format") == "binary":
        return "bytes"
    kind = schema.get("type", "JSON value")
    return ", or ".join(kind) if isinstance(kind, list) else str(kind)


def _types(schema: dict[str, Any]) -> set[str]:
    """The JSON types of a value, or of the items of a list."""
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        return set().union(*map(_types, choices))
    if schema.get("type") == "array":
        return _types(schema.get("items", {}))
    return {schema["type"]} if isinstance(schema.get("type"), str) else set()


def _unit(name: str, types: set[str]) -> str:
    if types & {"integer", "number"}:
        if name.endswith("_s"):
            return "seconds"
        if name.endswith("_bytes"):
            return "bytes"
        if name in _POSITIONS or name.endswith(("_position", "_after")):
            return "a position in the log"
        return "natural logarithms" if name == "logprobs" else ""
    if "string" in types:
        if name in _TIMES or name.endswith("_at"):
            return "a time, RFC 3339 in UTC"
        if _DIGESTS.fullmatch(name):
            return "SHA-256 in 64 hex digits"
        return "natural logarithms, decimal" if name == "canary_difference" else ""
    return ""


def _problems() -> list[str]:
    found = {
        kind.problem: (kind.status, kind.title)
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and kind.status < 600
    }
    return [
        f"| `{name}` | {status} {HTTPStatus(status).phrase} | {title} |"
        for name, (status, title) in sorted(found.items(), key=lambda each: (each[1][0], each[0]))
    ]
