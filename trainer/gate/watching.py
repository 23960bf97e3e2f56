"""Trying what is served, one trial at a time, and signing that it has fallen.

What always holds: a fall is signed only over trials that this worker ran itself, as its own record
on disk says. A trial gets into that record only when the service has answered to its very content:
at once, or when it is posted again after a lost answer. Whoever holds nothing but the token of a
gate worker can disturb a watch by trials of its own, also ahead of a trial that is still being
generated, but not have them signed: once it stops, a worker begins anew with its own trials alone.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from reef_release.client import ReefClient
from reef_release.domain.events import GLOBAL, CheckpointPublished, decode
from reef_release.domain.suite import sampling_seed
from reef_release.domain.watch import WatchFinding, WatchProgress, WatchSummary, watch_seed
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Conflict, Refused, Unavailable
from reef_release.signing.keys import SigningKey
from reef_release.signing.watch import sign_finding
from reef_release.wire import TrialReply, WatchAssignment, WatchTrialRequest, WatchTrialView
from trainer.engines.protocol import Sampling, TimedOut
from trainer.gate.models import CannotLoad, ModelCache
from trainer.gate.watch_record import Own, Posting, WatchRecord

__all__ = ["Watcher"]

_PAGE = 64
_log = structlog.get_logger(__name__)


class Watcher:
    """The watches that one worker runs; its record lies in *directory*, which it uses alone."""

    def __init__(
        self,
        client: ReefClient,
        key: SigningKey,
        models: ModelCache,
        *,
        name: str,
        directory: Path,
        trial_timeout_s: float,
    ) -> None:
        self._client = client
        self._key = key
        self._models = models
        self._name = name
        self._record = WatchRecord(directory)
        self._timeout_s = trial_timeout_s

    def step(self, scenario: str) -> bool:
        """Run the trial or sign the fall that is due; False when there is neither.

        Raises `Refused` when the service's word does not add up or others took part in the watch,
        `Conflict` when the log has moved on, and what outages raise.
        """
        assignment = self._client.watching.claim(
            scenario, self._name, self._record.all_of(scenario)
        )
        if assignment is None:
            return False
        self._check(assignment)
        own = self._own(assignment)
        if assignment.number is None:
            self._sign(assignment, own)
        else:
            self._try(assignment, assignment.number, own)
        return True

    def _check(self, assignment: WatchAssignment) -> None:
        release = assignment.release
        files = digests_by_path((file.path, file.sha256) for file in release.files)
        if candidate_id(files) != release.release_id:
            raise _refused(assignment, "these are not the files of the release")
        if assignment.seed != self._seed(assignment):
            raise _refused(assignment, "the seed does not follow from the checkpoint")

    def _seed(self, assignment: WatchAssignment) -> str | None:
        """The seed by the first checkpoint in the log that covers the pointer event."""
        after = assignment.pointer_position
        while True:
            page = self._client.events(
                after=after, limit=_PAGE, scenario=GLOBAL, type=CheckpointPublished.TYPE
            )
            for event in map(decode, page.events):
                data = event.data
                if isinstance(data, CheckpointPublished) and (
                    data.size > assignment.pointer_position
                ):
                    return watch_seed(
                        data.root, assignment.release.release_id, assignment.policy_digest
                    )
            if not page.events:
                return None
            after = page.next_after

    def _own(self, assignment: WatchAssignment) -> Own:
        if assignment.anew:
            return self._own_anew(assignment)
        own = self._record.own(assignment)
        if own.progress == assignment.progress:
            return own
        if own.posting is not None and _is_one_further(own, assignment.progress):
            # Either its answer was lost, or another posted ahead of it: its content tells.
            try:
                own = self._posted(assignment, own, own.posting)
            except Conflict as error:
                _log.warning("another's trial stands", scenario=assignment.scenario, why=str(error))
            if own.progress == assignment.progress:
                return own
        raise _refused(
            assignment,
            "others have run trials of it, or this worker's record is lost",
            "Let the worker that ran them go on; where it is lost, another begins anew by itself. "
            "If none of yours ran them, replace the gate's token.",
        )

    def _own_anew(self, assignment: WatchAssignment) -> Own:
        """A run of this worker's own, after trials that count for nothing in it."""
        number = assignment.number
        if number is None or assignment.progress != WatchProgress.anew(number):
            raise _refused(assignment, "a watch that begins anew has no trials yet")
        _log.warning(
            "the watch begins anew, since the worker that ran it is lost",
            scenario=assignment.scenario,
            release=assignment.release.release_id,
            trial=number,
        )
        return Own(progress=assignment.progress)

    def _try(self, assignment: WatchAssignment, number: int, own: Own) -> None:
        request = WatchTrialRequest(
            channel=assignment.channel,
            pointer_position=assignment.pointer_position,
            number=number,
            attempt=assignment.attempt,
            anew=assignment.anew,
        )
        try:
            reply = self._reply(assignment, number)
            request = msgspec.structs.replace(request, reply=reply)
        except TimedOut:
            request = msgspec.structs.replace(request, error="timed-out")
        except CannotLoad as error:
            _log.warning("watch trial failed", scenario=assignment.scenario, why=str(error))
            request = msgspec.structs.replace(request, error="crashed")
        posting = Posting(request=request, task_id=assignment.task_id)
        self._record.keep(assignment, Own(progress=own.progress, posting=posting))
        self._posted(assignment, own, posting)

    def _posted(self, assignment: WatchAssignment, own: Own, posting: Posting) -> Own:
        """Post a trial and note it as this worker's. Raises `Conflict` if another's stands there,
        `Refused` if it was recorded as another than the one posted."""
        try:
            view = self._client.watching.post_trial(assignment.scenario, posting.request)
        except Conflict:
            # It was not recorded, and claims must not say that it may have been.
            self._record.keep(assignment, Own(progress=own.progress))
            raise
        own = Own(progress=_counted(assignment, own, posting, view))
        self._record.keep(assignment, own)
        _log.info(
            "watched",
            scenario=assignment.scenario,
            release=assignment.release.release_id,
            trial=posting.request.number,
            passed=view.passed,
        )
        return own

    def _reply(self, assignment: WatchAssignment, number: int) -> TrialReply:
        self._models.keep_only(assignment.release)
        engine = self._models.engine(assignment.release)
        generation = assignment.generation
        sampling = Sampling(
            temperature=float(generation.temperature), max_new_tokens=generation.max_new_tokens
        )
        seed = sampling_seed(bytes.fromhex(assignment.seed), number)
        try:
            found = engine.generate(assignment.question, sampling, seed, timeout_s=self._timeout_s)
        except (TimedOut, Unavailable):
            raise
        except Exception as error:
            raise CannotLoad(f"{type(error).__name__}: {error}") from error
        return TrialReply(
            prompt_token_ids=list(found.prompt_token_ids),
            token_ids=list(found.token_ids),
            logprobs=[min(value, 0.0) for value in found.logprobs],
            reply=found.text,
            finish_reason=found.finish_reason,
        )

    def _sign(self, assignment: WatchAssignment, own: Own) -> None:
        progress = own.progress
        if progress.state_of(assignment.rule) != "fallen":
            raise _refused(assignment, "this worker's trials do not show that it has fallen")
        finding = WatchFinding(
            scenario=assignment.scenario,
            channel=assignment.channel,
            pointer_position=assignment.pointer_position,
            release_id=assignment.release.release_id,
            policy_digest=assignment.policy_digest,
            seed=assignment.seed,
            trials=progress.trials,
            passed=progress.passed,
            evidence=str(progress.evidence.value),
            digest=progress.digest,
        )
        self._client.watching.post_finding(
            assignment.scenario,
            assignment.channel,
            assignment.pointer_position,
            sign_finding(finding, self._key),
        )
        _log.error(
            "the served release has fallen under its bar",
            scenario=assignment.scenario,
            release=finding.release_id,
            trials=finding.trials,
            passed=finding.passed,
        )


def _is_one_further(own: Own, found: WatchProgress) -> bool:
    trials, attempt = own.progress.evidence.trials, own.progress.attempt
    return (found.evidence.trials, found.attempt) in ((trials + 1, 0), (trials, attempt + 1))


def _counted(
    assignment: WatchAssignment, own: Own, posting: Posting, view: WatchTrialView
) -> WatchProgress:
    """The progress with the trial just posted. Raises `Refused` if it was recorded otherwise."""
    request = posting.request
    whole = request.reply is not None and request.reply.finish_reason == "stop"
    summary = WatchSummary(
        number=request.number,
        attempt=request.attempt,
        task_id=posting.task_id,
        body=view.body,
        passed=view.passed,
    )
    progress = own.progress.after(assignment.rule, summary)
    if (view.passed is None) == whole or progress != view.progress:
        raise _refused(assignment, "a trial was recorded as another than the one posted")
    return progress


def _refused(assignment: WatchAssignment, why: str, next_step: str = "") -> Refused:
    return Refused(
        f"The watch of position {assignment.pointer_position} in {assignment.scenario!r} is not "
        f"gone on with: {why}.",
        next_step=next_step or "Nothing was signed. Audit the log.",
    )
