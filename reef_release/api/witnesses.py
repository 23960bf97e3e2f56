"""Asks the configured witnesses to cosign a checkpoint before it is published.

What always holds: a checkpoint is published with the cosignatures of a quorum, or not at all;
without configured witnesses it is published as it is. A witness that is away or lies delays a
checkpoint by at most the patience below, and its answer counts only if it verifies.
Source: c2sp.org/tlog-witness, the log's side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import msgspec
import structlog

from reef_release.api.tls import tls_context
from reef_release.domain.events import CheckpointPublished
from reef_release.domain.merkle import MerkleTree
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.settings import Settings
from reef_release.signing.witness import (
    ListedWitness,
    add_checkpoint_request,
    quorum_of,
    read_witnesses,
    with_cosignature,
)

__all__ = ["Witnesses"]

_PATIENCE_S = 3.0
_GRACE_S = 0.2
"""How long the others are waited for once a quorum has answered."""

_ANSWER_BYTES = 8192
_SAY_EVERY_S = 30.0
_log = structlog.get_logger(__name__)


class Witnesses:
    """The witnesses of one log. Close it with `aclose`."""

    def __init__(
        self,
        witnesses: Sequence[ListedWitness],
        quorum: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """*transport* replaces the network, for tests."""
        self._witnesses = witnesses
        self._quorum = quorum
        self._sizes: dict[str, int] = {}
        self._quiet_until = 0.0
        self._cosigned: int | None = None
        self._http = httpx.AsyncClient(
            transport=transport,
            verify=tls_context(),
            timeout=_PATIENCE_S,
            follow_redirects=False,
        )

    @classmethod
    def configured(cls, settings: Settings) -> Witnesses:
        """Those that the settings name. Raises `SettingsError`."""
        listed = read_witnesses(settings.witnesses) if settings.witnesses else ()
        unreachable = [each.key.name for each in listed if each.url is None]
        if unreachable:
            raise SettingsError(
                f"{settings.witnesses} does not say where to ask {', '.join(unreachable)}.",
                next_step="Write each witness's URL behind its verifier key.",
            )
        if settings.witness_quorum is not None and not listed:
            raise SettingsError(
                "A quorum of witnesses is set, and no witnesses are.",
                next_step="Name the file of witnesses, or leave the quorum away.",
            )
        return cls(listed, quorum_of(len(listed), settings.witness_quorum))

    def counts(self) -> dict[str, int]:
        """How many are configured and needed, and how many cosigned the last checkpoint.

        That is the last one that this process asked for, published or not; `cosigned` is absent
        before the first. What comes later than a moment after the quorum counts as missing.
        """
        counts = {"configured": len(self._witnesses), "needed": self._quorum}
        return counts if self._cosigned is None else counts | {"cosigned": self._cosigned}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def cosigned(
        self, checkpoint: CheckpointPublished, tree: MerkleTree
    ) -> CheckpointPublished | None:
        """*checkpoint* with the cosignatures of a quorum at least; None if they are not had.

        *tree* is the log's, for proofs; it only grows, so it may grow on meanwhile.
        """
        if not self._witnesses:
            return checkpoint
        asked = {
            asyncio.create_task(self._ask(each, checkpoint, tree)): each for each in self._witnesses
        }
        lines: list[str] = []
        waiting = set(asked)
        ends_at = asyncio.get_running_loop().time() + _PATIENCE_S
        try:
            while waiting:
                left_s = ends_at - asyncio.get_running_loop().time()
                if len(lines) >= self._quorum:
                    left_s = min(left_s, _GRACE_S)
                done, waiting = await asyncio.wait(
                    waiting, timeout=max(left_s, 0.0), return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                lines += [line for task in done if (line := task.result()) is not None]
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        self._cosigned = len(lines)
        if len(lines) < self._quorum:
            now = asyncio.get_running_loop().time()
            if now >= self._quiet_until:
                self._quiet_until = now + _SAY_EVERY_S
                _log.error(
                    "checkpoint not published: too few witnesses",
                    cosigned=len(lines),
                    needed=self._quorum,
                    size=checkpoint.size,
                )
            return None
        self._quiet_until = 0.0
        return msgspec.structs.replace(checkpoint, note=checkpoint.note + "".join(sorted(lines)))

    async def _ask(
        self, witness: ListedWitness, checkpoint: CheckpointPublished, tree: MerkleTree
    ) -> str | None:
        """The witness's signature line; None if it gives none that is good."""
        name = witness.key.name
        try:
            old_size = self._sizes.get(name, 0)
            status, text = await self._post(witness, checkpoint, tree, old_size)
            if status == 409:
                # It saw another process's checkpoint last, or this process has just started.
                status, text = await self._post(witness, checkpoint, tree, int(text))
            if status != 200:
                _log.warning("witness refuses", witness=name, status=status)
                return None
            line = with_cosignature(checkpoint.note, text, witness.key)[len(checkpoint.note) :]
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _log.warning("witness away", witness=name, why=str(error) or type(error).__name__)
            return None
        except (BadRequest, SignatureRejected, ValueError) as error:
            _log.error("witness answers wrongly", witness=name, why=str(error))
            return None
        self._sizes[name] = checkpoint.size
        return line

    async def _post(
        self,
        witness: ListedWitness,
        checkpoint: CheckpointPublished,
        tree: MerkleTree,
        old_size: int,
    ) -> tuple[int, str]:
        """Status and text of the answer. Raises `ValueError` for one that is too long."""
        proof = tree.consistency_proof(old_size, checkpoint.size)
        async with self._http.stream(
            "POST",
            f"{(witness.url or '').rstrip('/')}/add-checkpoint",
            content=add_checkpoint_request(old_size, proof, checkpoint.note),
            # Unencoded, so that a small answer cannot unpack into a large one.
            headers={"Content-Type": "text/plain; charset=utf-8", "Accept-Encoding": "identity"},
        ) as response:
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > _ANSWER_BYTES:
                    raise ValueError(f"its answer is longer than {_ANSWER_BYTES} bytes")
            return response.status_code, body.decode("utf-8")
