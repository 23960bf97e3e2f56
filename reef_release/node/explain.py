"""Why the loaded release may be served: judged again, from the node's own disk alone.

Nothing is repeated from a log of past decisions. Every signature and proof is verified once
more from the trust root on, and every file is hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from reef_release.domain.reasons import Reason
from reef_release.errors import ReefError
from reef_release.node.case import Finding
from reef_release.node.config import NodeConfig
from reef_release.node.opening import open_trusted, require_state
from reef_release.node.rejudge import Again, judge_again
from reef_release.node.releases import Releases
from reef_release.node.trusted import Opened, Trusted
from reef_release.node.vault import Served, Vault

__all__ = ["AsOf", "Explanation", "explain"]


class AsOf(msgspec.Struct, frozen=True, kw_only=True):
    """The document that an explanation rests on, over the first `events` events of the log.

    What came later is not in it, revocations least of all, but for keys that a newer root leaves
    out. `newest_serial` and `newest_issued_at` are of the last document that the node accepted.
    """

    serial: int
    events: int
    issued_at: str
    newest_serial: int
    newest_issued_at: str

    def __str__(self) -> str:
        return (
            f"As of the document with serial {self.serial} over {self.events} events, issued at "
            f"{self.issued_at}; the newest that this node accepted has serial "
            f"{self.newest_serial}, issued at {self.newest_issued_at}. A revocation after those "
            "events is not in it and moves no pointer: `reef-release status` tells it. The "
            "rollback that answers it, this node sees at its next poll."
        )


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    `may_be_served` is the verdict of the rules; `findings` say which held, `reasons` which did
    not. `as_of` says up to where it looked; None when nothing could be judged. `warnings` change
    nothing of that: what was revoked since, and how old the last document is.
    """

    scenario: str
    channel: str
    release_id: str | None
    may_be_served: bool
    findings: list[Finding]
    reasons: list[Reason]
    warnings: list[Reason]
    as_of: AsOf | None = None


def explain(
    config: NodeConfig, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Explanation:
    """Judge the last good release of the node in `config.state` again; changes nothing.

    Raises `SettingsError` when the state cannot be read, `SignatureRejected` when the chain of
    roots is broken.
    """
    require_state(config)
    vault = Vault(config.state)
    trusted = open_trusted(config, vault)
    stale = trusted.staleness(clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    served = vault.served()
    findings: list[Finding] = []
    reasons = [_nothing_loaded(config, trusted)]
    warnings: list[Reason] = []
    as_of = None
    if served is not None:
        try:
            again = judge_again(trusted, served, trials=config.trials)
            warnings += again.grounds.since
            findings = _findings(config, trusted, served, again)
            as_of = _as_of(trusted, again.opened)
            reasons = []
        except ReefError as error:
            reasons = list(error.reasons) or [Reason(code=error.problem, message=error.detail)]
    return Explanation(
        scenario=config.scenario,
        channel=config.channel,
        release_id=served.release_id if served else None,
        may_be_served=not reasons,
        findings=findings,
        reasons=reasons,
        warnings=[*warnings, stale] if stale else warnings,
        as_of=as_of,
    )


def _as_of(trusted: Trusted, opened: Opened) -> AsOf:
    return AsOf(
        serial=opened.document.serial,
        events=opened.checkpoint.size,
        issued_at=opened.document.issued_at,
        newest_serial=trusted.memory.serial,
        newest_issued_at=trusted.memory.time_floor,
    )


def _nothing_loaded(config: NodeConfig, trusted: Trusted) -> Reason:
    of = f"{config.channel} of {config.scenario}"
    if trusted.memory.is_new:
        message = (
            f"this node has accepted no document of {of} yet: see that it runs, that --url and "
            "--token-file are right, and that something is served (`reef-release status`)"
        )
    else:
        message = (
            f"this node knows of {of} up to serial {trusted.memory.serial} and has loaded no "
            "release: its log says what it refused, or that the engine does not answer"
        )
    return Reason(code="nothing-loaded", message=message)


def _findings(config: NodeConfig, trusted: Trusted, served: Served, again: Again) -> list[Finding]:
    memory, root = trusted.memory, trusted.root
    opened, grounds = again.opened, again.grounds
    parts = grounds.parts()
    for release_id, files in parts:
        Releases(config.state).verified(release_id, files)
    return [
        Finding(
            rule="the trust root follows from the anchor given to this node",
            found=f"version {root.version} of anchor {memory.anchor[:12]}, until {root.expires_at}",
        ),
        Finding(
            rule="a pointer key signed the document, and a log key its checkpoint",
            found=f"serial {served.serial}, {opened.checkpoint.size} events of {config.origin}; "
            f"seen since: serial {memory.serial}, {memory.checkpoint_size} events",
        ),
        Finding(
            rule="witnesses saw the log grow without a break",
            found=_witnessed(trusted, opened),
        ),
        *grounds.findings,
        Finding(
            rule="the files on this disk are the signed ones",
            found=f"{sum(len(files) for _, files in parts)} files hashed just now",
        ),
        Finding(
            rule="the engine computed what the gate had measured",
            found=f"{served.canary_difference} nats at most over {len(again.canaries)} canaries, "
            f"{config.canary_tolerance} allowed, at {served.loaded_at}",
        ),
    ]


def _witnessed(trusted: Trusted, opened: Opened) -> str:
    quorum, count = trusted.quorum
    if not count:
        return "this node was told of no witnesses"
    names = [each.witness for each in trusted.cosignatures(opened.document)]
    return f"{len(names)} of {count} cosigned, {quorum} needed: {', '.join(names) or 'none'}"
