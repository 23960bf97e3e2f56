"""The odds curve as an SVG of its own: no script, no font, no library."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["odds_svg"]

_WIDTH, _HEIGHT, _MARGIN = 640, 400, 56


def odds_svg(points: Sequence[tuple[float, float]]) -> str:
    """(true pass rate, probability of passing), both in [0, 1], as one curve with axes."""
    across, down = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def place(p: float, chance: float) -> str:
        return f"{_MARGIN + p * across:.1f},{_HEIGHT - _MARGIN - chance * down:.1f}"

    ticks = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, _ = place(tick, 0).split(",")
        _, y = place(0, tick).split(",")
        ticks.append(
            f'<text x="{x}" y="{_HEIGHT - _MARGIN + 20}" text-anchor="middle">{tick}</text>'
        )
        ticks.append(f'<text x="{_MARGIN - 8}" y="{y}" text-anchor="end">{tick}</text>')
        ticks.append(
            f'<line x1="{_MARGIN}" y1="{y}" x2="{_WIDTH - _MARGIN}" y2="{y}" stroke="#bbb"/>'
        )
    curve = " ".join(place(p, chance) for p, chance in points)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13">'
        "<title>Probability of passing the gate by true pass rate</title>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
        + "".join(ticks)
        + f'<polyline points="{curve}" fill="none" stroke="#0a58ca" stroke-width="2.5"/>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">true pass rate</text>'
        f'<text x="16" y="{_HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 16 {_HEIGHT / 2})">P(passes)</text></svg>\n'
    )
