"""The curve as a PNG: one panel per arm, side by side on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trainer.stream.summary import ArmSummary, rolling

__all__ = ["draw_png"]

_PANEL_INCHES, _HEIGHT_INCHES, _DPI = 4.2, 3.6, 150
_LINE, _FAINT, _PROMOTION = "#0a58ca", "#8fb4ea", "#198754"

_KEY = (
    "thin: a seed; thick: mean of all; green ticks: the release changed; "
    "dashed: median session of the third in a row"
)


def draw_png(arms: Sequence[ArmSummary], window: int, out: Path) -> None:
    """Write *out*: thin lines for the seeds, a thick one for their mean, ticks for promotions."""
    figure = Figure(figsize=(_PANEL_INCHES * len(arms), _HEIGHT_INCHES), layout="constrained")
    panels = figure.subplots(1, len(arms), sharey=True, squeeze=False)[0]
    for axes, arm in zip(panels, arms, strict=True):
        _panel(axes, arm, window)
    panels[0].set_ylabel(f"accepted first replies (last {window} sessions)")
    figure.supxlabel(_KEY, fontsize=8)
    # Named, so that no display is looked for.
    figure.savefig(out, dpi=_DPI, format="png", backend="agg")


def _panel(axes: Axes, arm: ArmSummary, window: int) -> None:
    for seed in arm.seeds:
        sessions = range(1, len(seed.accepted) + 1)
        axes.plot(sessions, rolling(seed.accepted, window), color=_FAINT, linewidth=0.8)
        for session in seed.promotions:
            axes.axvline(session - 0.5, ymax=0.1, color=_PROMOTION, linewidth=2)
    mean = arm.curve(window)
    axes.plot(range(1, len(mean) + 1), mean, color=_LINE, linewidth=2.5)
    if arm.reached_median is not None:
        axes.axvline(arm.reached_median, color="#666666", linestyle="--", linewidth=1)
    median = "never" if arm.reached_median is None else f"session {arm.reached_median:g}"
    axes.set_title(
        f"{arm.arm}: three in a row in {arm.reached_count} of {len(arm.seeds)}\nmedian {median}",
        fontsize=10,
    )
    axes.set_xlabel("session")
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.25)
