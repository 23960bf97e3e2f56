"""Exports of the log, as an auditor takes them away, and what is wrong with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.audit.report import Problem, VerifyReport
from reef_release.drill.context import Context
from reef_release.tokens import TokenRole

__all__ = ["exported", "problems"]


@contextmanager
def exported(context: Context) -> Iterator[Path]:
    """A fresh export of the whole log."""
    folder = context.directory / "export"
    shutil.rmtree(folder, ignore_errors=True)
    export(ClientSource(context.client(TokenRole.AUDIT)), folder)
    yield folder
    shutil.rmtree(folder)


def problems(context: Context, report: VerifyReport) -> list[Problem]:
    """What was found, apart from what this drill has forged itself."""
    return [each for each in report.problems if each.position not in context.forged]
