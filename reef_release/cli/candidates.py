"""`scenario create`, `policy sign`, `policy apply`, `candidate submit`."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from reef_release.cli import candidate_lists, development, identities
from reef_release.cli.account import candidate_lines, print_lines
from reef_release.cli.options import (
    DEFAULT_URL,
    AsJson,
    Channel,
    Home,
    ScenarioName,
    TokenFile,
    Url,
    connect,
)
from reef_release.cli.output import console, emit
from reef_release.cli.quorum import too_few_keys
from reef_release.cli.revocations import keyless_line
from reef_release.client import ReefClient
from reef_release.errors import BadRequest, ReefError, SettingsError
from reef_release.ids import short_id
from reef_release.wire import CandidateManifest, CandidateView, ScenarioRequest

__all__ = ["candidate", "in_vain", "policy", "scenario", "waits_line"]

_ENDS = frozenset({"errored", "failed", "inconclusive", "promoted", "refused", "stale"})
_LOOK_S = 0.5
_UNGATED = frozenset({"admitted", "errored", "stale"})

scenario = typer.Typer(help="Scenarios.", no_args_is_help=True)
policy = typer.Typer(help="Gate policies.", no_args_is_help=True)
candidate = typer.Typer(help="Candidates.", no_args_is_help=True)
development.register(scenario)
candidate_lists.register(candidate)


@scenario.callback()
@policy.callback()
@candidate.callback()
def _group() -> None:
    pass


@scenario.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Lowercase letters, digits, dots and dashes.")],
    schema: Annotated[
        Path, typer.Option("--schema", help="A model directory whose tensors are the schema.")
    ],
    policy_file: Annotated[
        Path, typer.Option("--policy", help="The signed policy (`policy sign`).")
    ],
    suite: Annotated[
        Path | None, typer.Option("--suite", help="The suite that the policy names, to upload.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a scenario from a model directory's schema and a signed policy."""
    from reef_release.artifacts.schema import model_schema, schema_bytes

    signed = _signed_policy(policy_file)
    data = _suite(suite, signed)
    with connect(url, token_file) as client:
        if data is not None:
            client.put_blob(data)
        digest = client.put_blob(schema_bytes(model_schema(schema)))
        view = client.create_scenario(ScenarioRequest(name=name, schema=digest, policy=signed))
        hint = "" if as_json else too_few_keys(client, name)
    emit(view, as_json=as_json, text=f"Scenario {name} stands at position {view.position}.")
    if hint:
        console.print(hint, markup=False, soft_wrap=True)


@policy.command("sign")
def sign(
    file: Annotated[Path, typer.Argument(help="The policy as JSON.")],
    out: Annotated[Path, typer.Option("--out", help="Where the signed policy goes.")],
    key: Annotated[
        Path | None, typer.Option("--key", help="The policy key; default HOME/keys/policy.")
    ] = None,
    suite: Annotated[
        Path | None, typer.Option("--suite", help="Put this suite's digest into the policy.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", help="The trust root that lists the key; default HOME/keys."),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Sign a gate policy with the policy key, after checking it as the service will.

    A key that the trust root lists for something else is refused.
    """
    from reef_release.cli.key_files import require_listed_role
    from reef_release.domain.canonical import canonical_json, sha256_hex
    from reef_release.domain.policy import parse_new_policy
    from reef_release.domain.policy_numbers import refuse_numbers
    from reef_release.domain.suite import parse_suite
    from reef_release.settings import load_settings
    from reef_release.signing.keyring import PRIVATE_NAME
    from reef_release.signing.keys import Role, load_key
    from reef_release.signing.policy import sign_policy
    from reef_release.verifiers.registry import is_objective

    document = _json_object(file)
    if suite is not None:
        data = suite.read_bytes()
        parse_suite(data)
        document["suite"] = sha256_hex(data)
    refuse_numbers(document)
    encoded = canonical_json(document)
    parse_new_policy(encoded, is_objective)
    keys_dir = load_settings(home=home).keys_dir
    path = key or keys_dir / Role.POLICY / PRIVATE_NAME
    signer = load_key(path, Role.POLICY)
    require_listed_role(signer, path, root, keys_dir)
    envelope = sign_policy(encoded, signer)
    out.write_bytes(canonical_json(envelope))
    digest = sha256_hex(encoded)
    emit(
        {"policy_digest": digest, "out": str(out)},
        as_json=as_json,
        text=f"Signed policy {digest} is in {out}.",
    )


@policy.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The signed policy (`policy sign`).")],
    name: ScenarioName,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in the log.")],
    suite: Annotated[
        Path | None, typer.Option("--suite", help="The suite that the policy names, to upload.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Put a signed policy into force, for gates that open from now on."""
    signed = _signed_policy(file)
    data = _suite(suite, signed)
    with connect(url, token_file) as client:
        if data is not None:
            client.put_blob(data)
        view = client.change_policy(name, signed, reason)
        hint = "" if as_json else too_few_keys(client, name)
    emit(view, as_json=as_json, text=f"The policy is in force from position {view.position} on.")
    if hint:
        console.print(hint, markup=False, soft_wrap=True)


@candidate.command("submit")
def submit(
    directory: Annotated[Path, typer.Argument(help="The candidate's directory.")],
    name: ScenarioName,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            help="The release it replaces, or the beginning of its id; default: the served.",
        ),
    ] = None,
    channel: Channel = "stable",
    foundation: Annotated[
        str | None, typer.Option(help="For a LoRA adapter: the full release under it.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for its gate and tell how it ended; exit status 1 unless promoted, and 2 "
            "when admission refuses it.",
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Upload a candidate's files and submit it; prints what admission or its gate says."""
    with connect(url, token_file) as client:
        if base is None:
            served = client.scenario(name).channels.get(channel)
            base = served.release_id if served else None
        else:
            base = identities.release_id(client, name, base)
        if foundation is not None:
            foundation = identities.release_id(client, name, foundation)
        with console.status(f"uploading {directory}", spinner="dots"):
            files = client.upload_directory(directory)
            view = client.submit(
                name,
                CandidateManifest(
                    files=files,
                    channel=channel,
                    kind="full" if foundation is None else "lora",
                    foundation=foundation,
                    base=base,
                    parent=base,
                ),
            )
        told = ""
        while wait and view.status not in _ENDS and not view.revoked and not in_vain(view):
            why = _awaited(client, name, view)
            if why != told and not as_json:
                console.print(why or "Its turn has come.", markup=False, soft_wrap=True)
            told = why
            time.sleep(_LOOK_S)
            view = client.candidate(name, view.candidate_id)
        account = client.candidate_account(name, view.candidate_id) if wait else None
    if as_json:
        emit(msgspec.to_builtins(view) | {"account": account}, as_json=True)
    elif account is not None:
        print_lines(candidate_lines(account))
    else:
        print_lines(
            filter(
                None,
                (
                    f"Candidate {view.candidate_id} is {view.status}, submitted at position "
                    f"{view.submitted_position}.",
                    waits_line(view),
                ),
            )
        )
    if wait and view.status != "promoted":
        raise typer.Exit(1)


def _awaited(client: ReefClient, scenario: str, view: CandidateView) -> str:
    """Who has to do what before it goes on; nothing while its gate runs."""
    if view.status == "passed":
        return client.candidate_account(scenario, view.candidate_id).next_step
    return waits_line(view) or keyless_line(client)


def in_vain(view: CandidateView) -> bool:
    """Whether no gate will open over an admitted candidate; its `reasons` say why."""
    return view.status in _UNGATED and bool(view.reasons) and not view.revoked


def waits_line(view: CandidateView) -> str:
    """Why an undecided candidate has no gate: in vain, until its turn, or for another worker."""
    if view.status not in ("submitted", "passing") and not in_vain(view):
        return ""
    why = "; ".join(reason.message for reason in view.reasons)
    own = f"Candidate {short_id(view.candidate_id)}"
    if not why or view.status == "passing":
        return f"{own} is {why}" if why and not view.revoked else ""
    how = "waits for its turn" if view.status == "submitted" else "has no gate and waits for none"
    return f"{own} {how}: {why}"


def _signed_policy(path: Path) -> dict[str, Any]:
    """The envelope in *path*; who signed it is for the service to say. Raises `SettingsError`."""
    signed = _json_object(path)
    if "payload" not in signed or "signatures" not in signed:
        raise SettingsError(
            f"{path} is not a signed policy.",
            next_step=f"Sign it first: reef-release policy sign {path} --out signed.json",
        )
    return signed


def _suite(path: Path | None, signed: dict[str, Any]) -> bytes | None:
    """The suite to upload. Raises `SettingsError` unless it is the one that the policy names."""
    from reef_release.domain.canonical import parse_json, sha256_hex

    if path is None:
        return None
    data = path.read_bytes()
    try:
        policy = parse_json(base64.b64decode(signed["payload"]))
        named = policy.get("suite") if isinstance(policy, dict) else None
    except (TypeError, ValueError, ReefError) as error:
        raise SettingsError(f"The signed policy cannot be read: {error}.") from error
    if named != sha256_hex(data):
        raise SettingsError(
            f"{path} has the digest {sha256_hex(data)}, and the policy names the suite {named}.",
            next_step="Give the suite that was named to `policy sign --suite`, or sign again.",
        )
    return data


def _json_object(path: Path) -> dict[str, Any]:
    from reef_release.domain.canonical import parse_json

    next_step = "Name a file that holds a policy as JSON; the page for policy owners shows one."
    try:
        value = parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read: {error.strerror}.", next_step=next_step
        ) from error
    except BadRequest as error:
        raise SettingsError(error.detail, next_step=next_step) from error
    if not isinstance(value, dict):
        raise SettingsError(f"{path} does not hold a JSON object.", next_step=next_step)
    return value
