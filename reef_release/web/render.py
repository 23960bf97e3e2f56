"""Templates to pages: always escaped, every value there, nothing hidden, the same headers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Response

from reef_release import __version__
from reef_release.web.assets import asset_path
from reef_release.web.isolation import dump_printed, laid_out, printed
from reef_release.web.table_rows import labelled
from reef_release.web.words import ago, coded, count_of, is_long, size_of, words_of

__all__ = ["HEADERS", "environment", "page"]

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'self'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page. Pages are of one person and of one moment: nobody keeps them."""


@cache
def environment() -> Environment:
    """The templates."""
    found = Environment(
        loader=PackageLoader("reef_release.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(
        ago=ago, coded=coded, count=count_of, labelled=labelled, shown_size=size_of, words=words_of
    )
    found.tests.update(long=is_long)
    found.policies["json.dumps_function"] = dump_printed
    found.globals.update(asset=asset_path, service_version=__version__)
    return found


def page(template: str, *, status: int = 200, **context: Any) -> Response[bytes]:
    """The page made of *template*."""
    text = laid_out(environment().get_template(template).render(context))
    return Response(text.encode(), status_code=status, media_type="text/html", headers=HEADERS)
