"""The offline audit: exports the log, verifies an export, and replays it with public keys only.

Nothing here needs the service, its database or a private key. `export` copies without judging,
so that evidence leaves a service that misbehaves; `verify` and `replay` judge without trusting
the copy.
"""

from reef_release.audit.export import ExportSource, export
from reef_release.audit.replay import replay
from reef_release.audit.report import Problem, ReplayReport, VerifyReport
from reef_release.audit.verify import verify
from reef_release.audit.weights import Score, Scorer, ScoreRequest

__all__ = [
    "ExportSource",
    "Problem",
    "ReplayReport",
    "Score",
    "ScoreRequest",
    "Scorer",
    "VerifyReport",
    "export",
    "replay",
    "verify",
]
