"""The description of request bodies that a route reads as they come, for the document at /schema.

Litestar describes only the bodies that it decodes itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema

__all__ = ["described_body", "schema_of"]


@dataclass
class _Given(Schema):
    """A JSON Schema that is written out already."""

    given: dict[str, Any] | None = None

    def to_schema(self) -> dict[str, Any]:
        return self.given or {}


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct that holds no other."""
    (_,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found: dict[str, Any] = parts[kind.__name__]
    return found


def described_body(description: str, content: Mapping[str, dict[str, Any]]) -> type[Operation]:
    """The class of operations whose body is one of *content*: JSON Schemas by media type."""

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            self.request_body = RequestBody(
                required=True,
                description=description,
                content={
                    media_type: OpenAPIMediaType(schema=_Given(given=schema))
                    for media_type, schema in content.items()
                },
            )

    return Described
