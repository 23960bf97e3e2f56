"""`python -m trainer.learning`: training without a service; see `reef-release train --help`.

Settings are a worker's, in the one format that they have; of these the part `training` counts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reef_release.errors import BadRequest, ReefError, SettingsError
from trainer.learning.recording import (
    BATCH,
    SETTINGS,
    Recorded,
    parts_of,
    read_recording,
    require_whole,
)
from trainer.worker.settings import WorkerSettings, read_worker_settings

if TYPE_CHECKING:
    from trainer.learning.batch import Outcome, StepRecord

_SHOWN = ("loss", "policy", "distillation", "kl_base", "kl_origin", "entropy", "grad_norm")


def main() -> int:
    """Exit status 0, 1 when a watch stopped the batch or other weights came of it than are
    recorded, or 2 with what to do about an error.
    """
    given = _parser().parse_args()
    try:
        if given.verb == "settings":
            document = msgspec.json.format(msgspec.json.encode(WorkerSettings()))
            sys.stdout.write(document.decode() + "\n")
            return 0
        return _replay(given)
    except ReefError as error:
        return _failed(error, as_json=given.json)
    except OSError as error:
        detail = f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
        return _failed(BadRequest(detail, next_step="Check the path."), as_json=given.json)
    except KeyboardInterrupt:
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainer.learning")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("settings").set_defaults(json=True)
    replay = verbs.add_parser("replay")
    replay.add_argument("--from", dest="recording", type=Path)
    replay.add_argument("--batch", type=Path)
    replay.add_argument("--origin", type=Path)
    replay.add_argument("--out", type=Path, required=True)
    replay.add_argument("--weights", type=Path)
    replay.add_argument("--state", type=Path)
    replay.add_argument("--serving", type=Path)
    replay.add_argument("--settings", type=Path)
    replay.add_argument("--seed", type=int)
    replay.add_argument("--json", action="store_true")
    return parser


def _take(given: argparse.Namespace) -> Recorded | None:
    """Fill in what was not given, from the recording if there is one. Raises `SettingsError`."""
    if given.recording is None:
        for name in ("batch", "origin"):
            if getattr(given, name) is None:
                raise SettingsError(
                    f"--{name} is missing.",
                    next_step="Give --batch and --origin, or --from with a recording that has all.",
                )
        return None
    others = ("batch", "origin", "weights", "state", "serving", "settings", "seed")
    named = [f"--{name}" for name in others if getattr(given, name) is not None]
    if named:
        raise SettingsError(
            f"--from has all of it, and {', '.join(named)} would be something else.",
            next_step="Give the recording's parts one by one, without --from.",
        )
    recorded = read_recording(given.recording)
    for name, path in parts_of(given.recording, recorded).items():
        setattr(given, name, path)
    given.batch, given.settings = given.recording / BATCH, given.recording / SETTINGS
    given.seed = recorded.seed
    return recorded


def _replay(given: argparse.Namespace) -> int:
    recorded = _take(given)
    settings = read_worker_settings(given.settings) if given.settings else WorkerSettings()
    document = given.batch.read_bytes()
    # Twelve seconds, after what can be wrong with the arguments.
    from trainer.learning import ranks
    from trainer.learning.batch import Trained, run_batch
    from trainer.learning.samples import read_batch
    from trainer.learning.weights import release_id

    batch = read_batch(document)
    if recorded is not None:
        require_whole(
            given.recording,
            recorded,
            batch_id=batch.batch_id,
            parent=release_id(given.weights),
        )
    ranks.join()
    outcome = run_batch(
        batch,
        weights=given.weights or given.origin,
        origin=given.origin,
        out=given.out,
        settings=settings.training,
        seed=given.seed or 0,
        state=given.state,
        serving=given.serving,
        on_step=None if given.json else _print_step,
    )
    status = 0 if isinstance(outcome, Trained) else 1
    told = msgspec.to_builtins(outcome)
    if recorded is not None:
        told["as_recorded"] = told.get("weights_id") == recorded.weights_id
        status = 0 if told["as_recorded"] else 1
    if ranks.index() > 0:
        pass  # the first process tells
    elif given.json:
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    else:
        _print(outcome, given.out)
        if recorded is not None:
            same = "as" if told["as_recorded"] else "not as"
            sys.stdout.write(f"{same} recorded: the trainer made {recorded.weights_id}\n")
    ranks.leave(status)
    return status


def _print_step(record: StepRecord) -> None:
    shown = [f"{name} {record.metrics[name]:.6g}" for name in _SHOWN if name in record.metrics]
    sys.stdout.write(f"step {record.step}  {'  '.join(shown)}\n")
    sys.stdout.flush()


def _print(outcome: Outcome, out: Path) -> None:
    from trainer.learning.batch import Trained

    for each in outcome.skipped:
        sys.stdout.write(f"skipped {each.turn_id}: {each.reason}: {each.detail}\n")
    if isinstance(outcome, Trained):
        sys.stdout.write(f"trained: {out}, candidate {outcome.weights_id}\n")
    else:
        sys.stdout.write(f"stopped: {outcome.reason}: {outcome.detail}\n")


def _failed(error: ReefError, *, as_json: bool) -> int:
    if as_json:
        problem = {
            "error": error.problem,
            "detail": error.detail,
            "next_step": error.next_step,
            "reasons": error.reasons,
        }
        sys.stdout.write(msgspec.json.encode(problem).decode() + "\n")
    else:
        sys.stderr.write(f"error: {error}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
