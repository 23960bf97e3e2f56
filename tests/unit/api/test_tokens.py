"""Bearer tokens and the secret behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.api.access import authenticate, require_scenario
from reef_release.errors import BadRequest, Forbidden, SettingsError, Unauthorized
from reef_release.tokens import Principal, TokenRole, Tokens, load_secret

TOKENS = Tokens(b"a secret of this test")


@given(role=st.sampled_from(TokenRole), scenario=st.none() | st.text(max_size=64))
def test_a_token_says_whose_it_is(role: TokenRole, scenario: str | None) -> None:
    principal = Principal(name="worker-1", role=role, scenario=scenario)
    assert TOKENS.verify(TOKENS.issue(principal)) == principal


@given(st.text(max_size=200))
def test_no_other_text_is_a_token(text: str) -> None:
    with pytest.raises(Unauthorized):
        TOKENS.verify(text)


@given(position=st.integers(0, 10_000), letter=st.sampled_from("AZaz09-_.="))
def test_no_letter_of_a_token_can_be_changed(position: int, letter: str) -> None:
    token = TOKENS.issue(Principal(name="worker-1", role=TokenRole.TRAIN))
    position %= len(token)
    changed = token[:position] + letter + token[position + 1 :]
    if changed == token:
        return
    try:
        found = TOKENS.verify(changed)
    except Unauthorized:
        return
    # The last letter of base64 has bits that nobody reads.
    assert position == len(token) - 1
    assert found.role is TokenRole.TRAIN


def test_another_secret_knows_no_token_of_this_one() -> None:
    token = TOKENS.issue(Principal(name="worker-1", role=TokenRole.OPERATE))
    with pytest.raises(Unauthorized):
        Tokens(b"another").verify(token)


@pytest.mark.parametrize("name", ["", "Worker", "a b", "-a", "a" * 64, "é", "a\n", "a/b"])
def test_a_name_that_no_actor_can_have_gets_no_token(name: str) -> None:
    with pytest.raises(BadRequest):
        TOKENS.issue(Principal(name=name, role=TokenRole.AUDIT))
    assert TOKENS.issue(Principal(name="a.b-c_1", role=TokenRole.AUDIT))


def test_the_scheme_has_no_case_and_the_token_has_one() -> None:
    principal = Principal(name="worker-1", role=TokenRole.AUDIT)
    token = TOKENS.issue(principal)
    for header in (f"Bearer {token}", f"bearer {token}", f"BEARER   {token} "):
        assert authenticate(TOKENS, header) == principal
    for other in (None, "", token, f"Basic {token}", f"Bearer{token}", "Bearer ", "Bearer"):
        with pytest.raises(Unauthorized):
            authenticate(TOKENS, other)


def test_a_token_for_one_scenario_is_for_that_one() -> None:
    require_scenario(Principal(name="a", role=TokenRole.AUDIT), "any")
    require_scenario(Principal(name="a", role=TokenRole.AUDIT, scenario="one"), "one")
    for other in ("two", "One", "one "):
        with pytest.raises(Forbidden):
            require_scenario(Principal(name="a", role=TokenRole.AUDIT, scenario="one"), other)


def test_a_secret_is_made_once_and_is_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "token.secret"
    with pytest.raises(SettingsError, match="keys init"):
        load_secret(path)
    secret = load_secret(path, create=True)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_secret(path) == load_secret(path, create=True) == secret
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        load_secret(path)
    path.chmod(0o600)
    for broken in ("", "no hex", "0", secret.hex()[:-2], secret.hex() + "00"):
        path.write_text(broken)
        with pytest.raises(SettingsError):
            load_secret(path)
