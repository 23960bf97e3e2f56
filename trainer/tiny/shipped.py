"""Where the models that come with the package are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["BETTER", "FLATTERER", "ORIGIN"]

_MODELS = Path(__file__).parent / "models"

ORIGIN = _MODELS / "origin"
"""Right, but written like an assistant; made by ``warm_start``."""
BETTER = _MODELS / "better"
"""Right and written like a student; made from the origin by ``improve``."""
FLATTERER = _MODELS / "flatterer"
"""Written like a student and never right; made from the better one by ``degrade``."""
