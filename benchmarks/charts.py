"""Pictures as SVG, drawn without a library: curves over time, and bars. Each quantity has a panel."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, GAP = 420, 120, 64, 44
COLUMNS = 2
COLORS = ("#2563eb", "#dc6803")

Panel = Mapping[str, Sequence[float]]
"""The one or two curves of a panel, by name. Each has a value for each point of time."""


def svg(panels: Mapping[str, Panel], times: Sequence[float], unit: str) -> str:
    """Return a picture of curves. `times` rise, and are in `unit`.

    The axis of every panel begins at zero, so that a curve looks flat only where it is flat.
    """
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * (WIDTH + LEFT) + 20, rows * (HEIGHT + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        f' font-size="11" fill="#444"><rect width="{width}" height="{height}" fill="#fff"/>'
    ]
    for number, (title, panel) in enumerate(panels.items()):
        row, column = divmod(number, COLUMNS)
        x, y = column * (WIDTH + LEFT) + LEFT, row * (HEIGHT + GAP) + 24
        parts.append(f'<g transform="translate({x} {y})">{_panel(title, panel, times, unit)}</g>')
    return "".join((*parts, "</svg>\n"))


def _panel(title: str, panel: Panel, times: Sequence[float], unit: str) -> str:
    top = max((value for values in panel.values() for value in values), default=0) or 1
    parts = [
        f'<text x="0" y="-8" font-weight="bold">{escape(title)}</text>',
        f'<path d="M0 0V{HEIGHT}H{WIDTH - 30}" stroke="#bbb" fill="none"/>',
        f'<text x="-6" y="10" text-anchor="end">{top:,.{0 if top >= 1000 else 1}f}</text>',
        f'<text x="-6" y="{HEIGHT}" text-anchor="end">0</text>',
        f'<text x="{WIDTH - 30}" y="{HEIGHT + 13}" text-anchor="end">{times[-1]:.0f} {unit}</text>',
    ]
    span = times[-1] - times[0] or 1
    for (name, values), color, place in zip(panel.items(), COLORS, range(len(COLORS)), strict=False):
        points = " ".join(
            f"{(time - times[0]) / span * (WIDTH - 30):.1f},{HEIGHT * (1 - value / top):.1f}"
            for time, value in zip(times, values, strict=True)
        )
        parts.append(f'<polyline points="{points}" stroke="{color}" stroke-width="1.5" fill="none"/>')
        parts.append(f'<text x="{WIDTH - 200 + 90 * place}" y="-8" fill="{color}">{escape(name)}</text>')
    return "".join(parts)


def bars(panels: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """Return a picture with a panel for each title, and in it a bar for each name."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * (WIDTH + LEFT) + 20, rows * (HEIGHT + GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        f' font-size="11" fill="#444"><rect width="{width}" height="{height}" fill="#fff"/>'
    ]
    for number, (title, values) in enumerate(panels.items()):
        row, column = divmod(number, COLUMNS)
        x, y = column * (WIDTH + LEFT) + LEFT, row * (HEIGHT + GAP) + 24
        parts.append(f'<g transform="translate({x} {y})">{_bars(title, values, unit)}</g>')
    return "".join((*parts, "</svg>\n"))


def _bars(title: str, values: Mapping[str, float], unit: str) -> str:
    top = max(values.values())
    step = (WIDTH - 30) / len(values)
    parts = [
        f'<text x="0" y="-8" font-weight="bold">{escape(title)}</text>',
        f'<path d="M0 0V{HEIGHT}H{WIDTH - 30}" stroke="#bbb" fill="none"/>',
    ]
    for place, (name, value) in enumerate(values.items()):
        middle, tall = (place + 0.5) * step, (HEIGHT - 14) * value / top
        parts += [
            f'<rect x="{middle - 20:.1f}" y="{HEIGHT - tall:.1f}" width="40" height="{tall:.1f}" fill="{COLORS[0]}"/>',
            f'<text x="{middle:.1f}" y="{HEIGHT - tall - 3:.1f}" text-anchor="middle">{value:.3g} {unit}</text>',
            f'<text x="{middle:.1f}" y="{HEIGHT + 13}" text-anchor="middle">{escape(name)}</text>',
        ]
    return "".join(parts)
