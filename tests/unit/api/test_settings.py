"""Where a setting comes from, and which origin wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.errors import SettingsError
from reef_release.settings import load_settings, setting_origins

DSN = "postgresql://reef:secret@db:5432/reef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("REEF_CONFIG", "DATABASE_URL", "REEF_DATABASE_URL", "REEF_PORT", "REEF_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REEF_HOME", str(tmp_path))
    return tmp_path


def test_the_command_line_wins_over_environment_file_and_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().port == 8470
    (home / "reef.toml").write_text("port = 1001\n")
    assert load_settings().port == 1001
    monkeypatch.setenv("REEF_PORT", "1002")
    assert load_settings().port == 1002
    assert load_settings(port=1003).port == 1003
    assert load_settings(port=None).port == 1002


def test_database_url_is_the_one_name_without_prefix(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", DSN)
    assert load_settings().database_url == DSN
    (home / "reef.toml").write_text('database_url = "postgresql://file"\n')
    assert load_settings().database_url == DSN
    monkeypatch.setenv("REEF_DATABASE_URL", "postgresql://reef")
    assert load_settings().database_url == "postgresql://reef"


def test_other_names_without_prefix_mean_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("PORT", "1")
    monkeypatch.setenv("ORIGIN", "elsewhere")
    (home / "reef.toml").write_text('host = "10.0.0.1"\n')
    settings = load_settings()
    assert (settings.host, settings.port) == ("10.0.0.1", 8470)
    assert settings.origin == "reef-release.local/log"


def test_a_file_that_was_named_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REEF_CONFIG", str(tmp_path / "other.toml"))
    with pytest.raises(SettingsError, match=r"other\.toml"):
        load_settings()
    (tmp_path / "other.toml").write_text("port = 1004\n")
    assert load_settings().port == 1004


@pytest.mark.parametrize(
    "text",
    [
        "port = 70000",
        "port = 'x'",
        "prot = 1",
        "checkpoint_interval_s = 0",
        "checkpoint_interval_s = nan",
        "document_lifetime_s = 1",
        "lease_s = -1",
        "upstream_url = '127.0.0.1:8000/v1'",
        "upstream_url = 'ftp://host/v1'",
        "upstream_timeout_s = 0",
        "port = ",
        "\x00",
    ],
)
def test_a_wrong_value_stops_the_start_and_names_the_setting(home: Path, text: str) -> None:
    (home / "reef.toml").write_text(text + "\n")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    name = text.partition(" ")[0]
    assert name in str(refused.value) or "reef.toml" in str(refused.value)


def test_origins_are_shown_and_secrets_are_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "reef.toml").write_text('host = "10.0.0.1"\n')
    monkeypatch.setenv("DATABASE_URL", DSN)
    monkeypatch.setenv("REEF_PORT", "1005")
    monkeypatch.setenv("REEF_UPSTREAM_KEY", "a secret")
    monkeypatch.setenv("REEF_UPSTREAM_URL", "https://user:secret@models.test/v1/")
    shown = setting_origins(load_settings())
    assert shown["host"] == ("10.0.0.1", "file")
    assert shown["port"] == ("1005", "environment REEF_PORT")
    assert shown["database_url"] == (
        "postgresql://reef:***@db:5432/reef",
        "environment DATABASE_URL",
    )
    assert shown["upstream_key"] == ("***", "environment REEF_UPSTREAM_KEY")
    assert shown["upstream_url"][0] == "https://user:***@models.test/v1"
    assert shown["lease_s"][1] == "default"
    assert "secret" not in str(shown)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://reef:hush@db/reef",
        "postgresql:///reef?host=/run&password=hush&user=reef",
        "host=db user=reef password=hush dbname=reef",
        r"host=db user=reef password = 'hu\' hush' sslpassword=hush dbname=reef",
        "postgresql://reef@db/reef?sslpassword=hush&sslmode=require",
    ],
)
def test_a_password_is_masked_wherever_a_dsn_may_have_it(dsn: str) -> None:
    shown, _ = setting_origins(load_settings(database_url=dsn))["database_url"]
    assert "hush" not in shown
    assert "***" in shown
    assert "reef" in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://hush@models.test/v1", "http://***@models.test/v1"),
        ("http://models.test/v1?key=hush&x=hush", "http://models.test/v1?key=***&x=***"),
        ("http://models.test/v1?hush", "http://models.test/v1?***"),
        ("http://models.test/v1", "http://models.test/v1"),
    ],
)
def test_what_an_upstreams_url_may_keep_secret_is_masked(url: str, shown: str) -> None:
    assert setting_origins(load_settings(upstream_url=url))["upstream_url"][0] == shown


def test_directories_follow_the_home_unless_they_are_set(home: Path) -> None:
    settings = load_settings()
    assert settings.keys_dir == home / "keys"
    assert settings.blobs_dir == home / "blobs"
    moved = load_settings(keys=home / "k", blobs=home / "b")
    assert (moved.keys_dir, moved.blobs_dir) == (home / "k", home / "b")
