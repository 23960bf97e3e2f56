"""Settings: environment `REEF_*`, then one TOML file, then defaults; each with its origin.

The TOML file is `REEF_CONFIG`, or `reef.toml` in the data directory. A wrong value stops the
process at start with the setting's name.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from reef_release.errors import SettingsError

__all__ = ["Settings", "default_home", "load_settings", "setting_origins"]


_PREFIX = "REEF_"
_HARMLESS = frozenset(
    {
        "application_name",
        "connect_timeout",
        "dbname",
        "host",
        "hostaddr",
        "port",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
        "user",
    }
)
"""Parameters of a DSN that keep nothing secret."""


def default_home() -> Path:
    """The data directory when `REEF_HOME` is not set."""
    if os.geteuid() == 0:
        return Path("/var/lib/reef-release")
    return Path.home() / ".local" / "share" / "reef-release"


class Settings(BaseSettings):
    """Every setting of the service; field names are those of the TOML file."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid", frozen=True)

    home: Path = Field(default_factory=default_home, description="Data directory.")
    database_url: str = Field(
        default="", description="PostgreSQL 15 or newer; empty: the embedded server (`up`)."
    )
    keys: Path | None = Field(default=None, description="Key directory; default HOME/keys.")
    log_key: Path | None = Field(
        default=None, description="Key that signs checkpoints; default KEYS/log/private.pem."
    )
    pointer_key: Path | None = Field(
        default=None,
        description="Key that signs current documents; default KEYS/pointer/private.pem.",
    )
    blobs: Path | None = Field(default=None, description="Blob directory; default HOME/blobs.")
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8470, ge=0, le=65535, description="Port; 0 takes a free one.")
    upstream_url: str = Field(
        default="",
        description="Where chat calls are forwarded to: an OpenAI-style base URL, with `/v1`; "
        "empty: nowhere.",
    )
    upstream_key: str = Field(
        default="", repr=False, description="Bearer token for the upstream, if it wants one."
    )
    upstream_timeout_s: float = Field(
        default=600.0, gt=0, description="A call fails when the upstream is silent for so long."
    )
    upstream_token_data: bool = Field(
        default=True,
        description="Ask the upstream for token ids and log-probabilities (vLLM's "
        "`return_token_ids`); off for servers that refuse the field.",
    )
    origin: str = Field(
        default="reef-release.local/log", description="Name of the log in its checkpoints."
    )
    witnesses: Path | None = Field(
        default=None,
        description="File of witnesses that cosign checkpoints: verifier key and URL per line.",
    )
    witness_quorum: int | None = Field(
        default=None,
        ge=1,
        description="How many witnesses must cosign a checkpoint; default more than half.",
    )
    checkpoint_interval_s: float = Field(
        default=20.0, gt=0, le=50, description="Longest time between checkpoints while serving."
    )
    document_lifetime_s: int = Field(
        default=60, ge=10, le=86_400, description="Lifetime of a current document."
    )
    document_warning_s: float = Field(
        default=25.0,
        gt=0,
        description="With less than so much of its lifetime left, a current document is late: the "
        "service warns in its log and in `reef_document_late`.",
    )
    blob_limit_bytes: int = Field(
        default=64 * 1024**3, gt=0, description="Largest blob that is accepted."
    )
    accept_missing_blobs: bool = Field(
        default=False, description="Start although events rest on blobs that are missing."
    )
    lease_s: float = Field(
        default=120.0,
        ge=1,
        le=604_800,
        description="How long a claimed gate, turn or batch is kept.",
    )
    session_expiry_s: float = Field(
        default=259_200.0,
        gt=0,
        description="A session is over when its client made no call for so long.",
    )
    judge_quorum: int = Field(default=1, ge=1, description="Fewer valid votes are no opinion.")
    judge_window: int = Field(
        default=20, ge=1, description="Known answers over which a judge's accuracy is taken."
    )
    judge_min_accuracy: float = Field(
        default=0.8, ge=0, le=1, description="Below it a judge's scores feed no batch."
    )
    judging_retry_s: float = Field(
        default=30.0, ge=0, description="Wait after a turn's first failed judging; then longer."
    )
    batch_size: int = Field(default=16, ge=1, le=256, description="Judged turns of a batch.")
    batch_max_lag: int = Field(
        default=0,
        ge=0,
        description="How many releases behind the served one the sampler of a reply may be.",
    )
    sample_max_lines: int = Field(
        default=3,
        ge=1,
        description="A turn that stood in so many lines of one release, none of which came to a "
        "release, is not trained again.",
    )
    retention_days: float = Field(
        default=0.0,
        ge=0,
        le=36_500,
        description="Bodies of conversations that nobody needs any more are erased after so many "
        "days; 0: never.",
    )
    submissions_per_day: int = Field(
        default=200,
        ge=1,
        description="Candidates that one train token may submit to a scenario in 24 hours; each "
        "gate uses up the suite.",
    )
    sample_limit_tokens: int = Field(
        default=16_384, ge=1, description="Replies with more sampled tokens are not trained on."
    )

    @field_validator("upstream_url")
    @classmethod
    def _checked_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("give a URL like http://127.0.0.1:8000/v1")
        return url.rstrip("/")

    @property
    def keys_dir(self) -> Path:
        """Where the service's own keys and root.json are."""
        return self.keys or self.home / "keys"

    @property
    def blobs_dir(self) -> Path:
        """Where blobs are stored."""
        return self.blobs or self.home / "blobs"

    @property
    def spool_dir(self) -> Path:
        """Where forwarded calls wait for the log."""
        return self.home / "spool"


def load_settings(**overrides: Any) -> Settings:
    """The settings in force. *overrides* come from the command line. Raises `SettingsError`."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        file = _toml(given)
        environment = {
            name.removeprefix(_PREFIX).lower() for name in os.environ if name.startswith(_PREFIX)
        }
        merged = {name: value for name, value in file.items() if name not in environment}
        if "database_url" not in environment | given.keys() and "DATABASE_URL" in os.environ:
            merged["database_url"] = os.environ["DATABASE_URL"]
        return Settings(**(merged | given))
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, fault['loc'])) or 'settings'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise SettingsError(
            "; ".join(lines) + ".", next_step="See `reef-release status --settings`."
        ) from error


def setting_origins(settings: Settings) -> Mapping[str, tuple[str, str]]:
    """Each setting's value, secrets masked, and where it came from."""
    file = _toml({"home": settings.home})
    result = {}
    for name in type(settings).model_fields:
        if f"{_PREFIX}{name.upper()}" in os.environ:
            origin = f"environment {_PREFIX}{name.upper()}"
        elif name == "database_url" and "DATABASE_URL" in os.environ:
            origin = "environment DATABASE_URL"
        elif name in file:
            origin = "file"
        else:
            origin = "default"
        value = str(getattr(settings, name))
        result[name] = (_shown(name, value), origin)
    return result


def _toml(given: Mapping[str, Any]) -> dict[str, Any]:
    explicit = os.environ.get("REEF_CONFIG")
    home = Path(given.get("home") or os.environ.get("REEF_HOME") or default_home())
    path = Path(explicit) if explicit else home / "reef.toml"
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        if explicit:
            raise SettingsError(f"REEF_CONFIG names {path}, which does not exist.") from error
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error


def _shown(name: str, value: str) -> str:
    if name == "upstream_key":
        return "***" if value else ""
    return _masked(value) if name.endswith("_url") else value


def _masked(url: str) -> str:
    """A URL without what it may keep secret: passwords, lone names, and values of its query.

    PostgreSQL's DSNs have harmless names and parameters, and come as `key=value` as well.
    """
    scheme, separator, rest = url.partition("://")
    before, at, _ = rest.partition("?")[0].rpartition("@")
    if at and "/" in before:
        # A password with a slash in it, written as it is: where it begins, nobody can say.
        return f"{scheme}{separator}***{at}***"
    if not separator:
        if "@" in url:
            return "***"  # meant as a URL, and none
        return re.sub(r"(?i)(\w*password\s*=\s*)('(?:[^'\\]|\\.)*'|\S*)", r"\1***", url)
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    is_web = parts.scheme in ("http", "https")
    name, colon, _ = user.partition(":")
    if at:
        user = f"{name}:***" if colon else "***" if is_web else name
    query = re.sub(r"([^&=]+)=([^&]*)", _masked_parameter, parts.query)
    if is_web and parts.query and "=" not in parts.query:
        query = "***"
    return urlunsplit(parts._replace(netloc=user + at + host, query=query))


def _masked_parameter(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in _HARMLESS else f"{found[1]}=***"
