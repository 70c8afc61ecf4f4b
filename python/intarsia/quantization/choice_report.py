# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A page of HTML about a choice of formats: nothing of it is fetched from elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import _runtime
from .choice import Budget, Item, Outcome, Problem, bytes_text, neighbours
from .safetensors import ModelWeights

#: Tensors whose weights are shown: those that lose most as chosen.
WORST = 4
#: Bars of a distribution.
BARS = 61

_STYLE = """
:root { color-scheme: light dark; --page: #f6f6f3; --surface: #fff; --ink: #0b0b0b; --muted: #52514e; --grid: #e4e3dc;
  --line: #8d8c86; --own: #2a78d6; --other: #c98500; }
@media (prefers-color-scheme: dark) { :root { --page: #0d0d0d; --surface: #1a1a19; --ink: #fff; --muted: #c3c2b7;
  --grid: #2f2f2d; --line: #8d8c86; --own: #4a93ec; --other: #d69213; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 20px 60px; max-width: 1120px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 2px; font-size: 26px; } h2 { margin: 0 0 12px; font-size: 18px; }
h3 { margin: 14px 0 4px; font-size: 14px; }
p { margin: 0 0 10px; max-width: 78ch; } .muted { color: var(--muted); }
section { background: var(--surface); border: 1px solid var(--grid); border-radius: 10px; padding: 18px 20px;
  margin: 0 0 16px; overflow-x: auto; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0; }
.tile { flex: 1 1 140px; border: 1px solid var(--grid); border-radius: 8px; padding: 10px 14px;
  background: var(--surface); }
.tile b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { color: var(--muted); font-size: 12px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--muted); font-weight: 500; border-bottom: 1px solid var(--grid); }
th, td { padding: 4px 12px 4px 0; vertical-align: top; } td { border-bottom: 1px solid var(--grid); }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.heat td { padding: 3px 8px; border: 1px solid var(--surface); }
.heat .chosen { outline: 2px solid var(--ink); outline-offset: -2px; }
svg { display: block; max-width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
svg .small { font-size: 11px; fill: var(--muted); } .grid { stroke: var(--grid); } .axis { stroke: var(--line); }
.front { fill: none; stroke: var(--own); stroke-width: 1.5; } .point { fill: var(--own); }
.uniform { fill: var(--other); }
.mark { fill: none; stroke: var(--ink); stroke-width: 2; } .bar { fill: var(--own); }
"""


def write_report(path: Path, outcome: Outcome, model: Path) -> None:
    """Write the page."""
    problem, chosen = outcome.problem, outcome.chosen
    name = html.escape(model.name or str(model))
    version = _runtime.version().split()[0]
    parts = [
        f"<h1>Formats of {name}</h1><p class=muted>{html.escape(_asked(outcome.budget))}. Intarsia {version}</p>",
        _tiles(outcome),
        _section("Size and loss", _front(outcome)),
        _section("What each tensor loses", _heat(problem, chosen)),
        _section("Why not another format", _why(problem, chosen)),
        _section("Weights of the tensors that lose most", _distributions(problem, chosen, model)),
    ]
    path.write_text(
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>Formats of {name}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n",
        encoding="utf-8",
    )


def _asked(budget: Budget) -> str:
    asked = []
    if budget.bits is not None:
        asked.append(f"at most {budget.bits:g} bits a weight")
    if budget.size is not None:
        asked.append(f"at most {bytes_text(budget.size)}")
    if budget.loss is not None:
        asked.append(f"a loss of at most {budget.loss:.3g}")
    if budget.microseconds is not None:
        asked.append(f"at least {1e6 / budget.microseconds:.1f} tokens a second")
    return "Asked for: " + ", ".join(asked)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _tiles(outcome: Outcome) -> str:
    problem, chosen = outcome.problem, outcome.chosen
    tiles = [
        (bytes_text(problem.size(chosen)), "weights"),
        (f"{problem.bits(chosen):.3f}", "bits a weight"),
        (f"{outcome.loss:.3g}", f"{problem.unit} lost, measured"),
        (f"{outcome.expected:.3g}", "sum of what the parts lose"),
    ]
    if outcome.same_class is not None:
        tiles.append((f"{100 * outcome.same_class:.4g} %", "have the same likeliest class"))
    if rate := problem.rate(chosen):
        tiles.append((f"{rate:.0f}", "tokens a second, predicted"))
    if math.isfinite(outcome.correlation):
        tiles.append((f"{outcome.correlation:.3f}", "rank correlation of layers' errors with losses"))
    return (
        "<div class=tiles>" + "".join(f"<div class=tile><b>{a}</b><span>{b}</span></div>" for a, b in tiles) + "</div>"
    )


# -- The front ---------------------------------------------------------------------------------------------------------


def _front(outcome: Outcome) -> str:
    problem = outcome.problem
    points = [(problem.size(one), problem.loss(one), problem.rate(one)) for one in problem.front()]
    points = [point for point in points if point[1] > 0]
    uniform = [(*one, name) for name, one in _uniform(problem).items() if one[1] > 0]
    own = (problem.size(outcome.chosen), outcome.loss)
    if not points or own[1] <= 0:
        return "<p>Nothing is lost.</p>"
    sizes = [size for size, *_ in [*points, *uniform]] + [own[0]]
    losses = [one[1] for one in [*points, *uniform]] + [own[1]]
    plot = _Plot((min(sizes), max(sizes)), (min(losses), max(losses)))
    body = [plot.axes("size", f"loss ({problem.unit})")]
    line = " ".join(f"{plot.x(size):.1f},{plot.y(loss):.1f}" for size, loss, _ in points)
    body.append(f'<polyline class=front points="{line}"/>')
    for size, loss, rate in points:
        about = f"{bytes_text(size)}, {loss:.3g}" + (f", {rate:.0f} tokens a second" if rate else "")
        body.append(
            f'<circle class=point cx="{plot.x(size):.1f}" cy="{plot.y(loss):.1f}" r="3"><title>{about}</title></circle>'
        )
    for number, (size, loss, _, name) in enumerate(sorted(uniform)):
        x, y = plot.x(size), plot.y(loss)
        body.append(f'<rect class=uniform x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>')
        # Formats of like sizes have their names on different sides.
        across, up, anchor = ((7, -5, "start"), (-7, 14, "end"))[number % 2]
        body.append(
            f'<text class=small x="{x + across:.1f}" y="{y + up:.1f}" text-anchor={anchor}>{html.escape(name)}</text>'
        )
    body.append(f'<circle class=mark cx="{plot.x(own[0]):.1f}" cy="{plot.y(own[1]):.1f}" r="8"/>')
    return (
        "<p>Blue: the best choice of each size; yellow: one format for all tensors. Both are sums of what tensors lose "
        "one by one, times measured / sum for the choice. The ring is what was chosen, measured as a whole.</p>"
        f'<svg viewBox="0 0 {plot.width} {plot.height}" width="{plot.width}" role=img '
        f'aria-label="size and loss">{"".join(body)}</svg>'
    )


def _uniform(problem: Problem) -> dict[str, tuple[float, float, float]]:
    """Return size, loss and time with one format for all tensors that have it and are not pinned."""
    found = {}
    for name in dict.fromkeys(one.format for item in problem.items if item.weights for one in item.candidates):
        chosen = []
        for item, own in zip(problem.items, problem.chosen, strict=True):
            formats = [one.format for one in item.candidates]
            if name in formats:
                chosen.append(formats.index(name))
            elif item.is_pinned or not item.weights:
                chosen.append(own)
        if len(chosen) == len(problem.items):
            found[name] = (problem.size(chosen), problem.loss(chosen), problem.microseconds(chosen))
    return found


class _Plot:
    """Logarithmic axes."""

    width, height, left, right, top, bottom = 880, 400, 70, 110, 16, 46

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across = (across[0] / 1.03, across[1] * 1.03)
        self.up = (up[0] / 1.3, up[1] * 1.3)

    def x(self, value: float) -> float:
        share = math.log(value / self.across[0]) / math.log(self.across[1] / self.across[0])
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        share = math.log(value / self.up[0]) / math.log(self.up[1] / self.up[0])
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def axes(self, across: str, up: str) -> str:
        floor, end = self.height - self.bottom, self.width - self.right
        body = []
        for value in _ticks(*self.across):
            body.append(
                f'<line class=grid x1="{self.x(value):.1f}" y1="{self.top}" x2="{self.x(value):.1f}" y2="{floor}"/>'
            )
            body.append(
                f'<text class=small x="{self.x(value):.1f}" y="{floor + 16}" text-anchor=middle>'
                f"{bytes_text(value)}</text>"
            )
        for value in _ticks(*self.up):
            body.append(
                f'<line class=grid x1="{self.left}" y1="{self.y(value):.1f}" x2="{end}" y2="{self.y(value):.1f}"/>'
            )
            body.append(
                f'<text class=small x="{self.left - 6}" y="{self.y(value) + 4:.1f}" text-anchor=end>{value:.0e}</text>'
            )
        body.append(
            f'<text class=small x="{(self.left + end) / 2}" y="{self.height - 8}" text-anchor=middle>{across}</text>'
        )
        body.append(f'<text class=small x="4" y="{self.top - 4}">{up}</text>')
        return "".join(body)


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two numbers, or only the powers where these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return found if len(found) <= 10 else [10.0**p for p in powers if low <= 10.0**p <= high]


# -- Tables ------------------------------------------------------------------------------------------------------------


def _heat(problem: Problem, chosen: Sequence[int]) -> str:
    formats = list(dict.fromkeys(one.format for item in problem.items for one in item.candidates if one.loss > 0))
    losses = [one.loss for item in problem.items for one in item.candidates if one.loss > 0]
    if not losses:
        return "<p>Nothing is lost.</p>"
    low, high = math.log(min(losses)), math.log(max(losses))
    rows = []
    for item, at in zip(problem.items, chosen, strict=True):
        cells = []
        for name in formats:
            own = next((one for one in item.candidates if one.format == name), None)
            if own is None or own.loss <= 0:
                cells.append("<td></td>")
                continue
            share = (math.log(own.loss) - low) / max(high - low, 1e-9)
            mark = " chosen" if item.candidates[at].format == name else ""
            shade = f"background: color-mix(in srgb, var(--other) {100 * share:.0f}%, transparent)"
            cells.append(f'<td class="n{mark}" style="{shade}">{own.loss:.1e}</td>')
        rows.append(f"<tr><td>{html.escape(item.name)}</td>{''.join(cells)}</tr>")
    head = "".join(f"<th class=n>{html.escape(name)}</th>" for name in formats)
    return (
        f"<p>In {problem.unit}, if only this tensor has the format. Framed is what was chosen; a row without a frame "
        f"keeps its weights.</p><table class=heat><tr><th></th>{head}</tr>{''.join(rows)}</table>"
    )


def _why(problem: Problem, chosen: Sequence[int]) -> str:
    rows = []
    for item, at in zip(problem.items, chosen, strict=True):
        own = item.candidates[at]
        cells = []
        for other in neighbours(item, at):
            text = "" if other is None else (
                f"{html.escape(other.format)}: loss {other.loss - own.loss:+.1e}, "
                f"{'+' if other.bytes > own.bytes else '−'}{bytes_text(abs(other.bytes - own.bytes))}"
            )  # fmt: skip
            cells.append(f"<td>{'pinned' if item.is_pinned else text or 'none'}</td>")
        bits = f"{8 * own.bytes / item.weights:.2f}" if item.weights else ""
        rows.append(
            f"<tr><td>{html.escape(item.name)}</td><td>{html.escape(own.format)}</td><td class=n>{bits}</td>"
            f"<td class=n>{own.loss:.1e}</td>{''.join(cells)}</tr>"
        )
    head = (
        "<tr><th></th><th>format</th><th class=n>bits</th><th class=n>loss</th><th>next smaller</th>"
        "<th>next larger</th></tr>"
    )
    return f"<table>{head}{''.join(rows)}</table>"


# -- Distributions -----------------------------------------------------------------------------------------------------


def _distributions(problem: Problem, chosen: Sequence[int], model: Path) -> str:
    weights = ModelWeights(model)
    pairs = [(item.candidates[at].loss, item) for item, at in zip(problem.items, chosen, strict=True) if item.weights]
    worst = [item for loss, item in sorted(pairs, key=lambda pair: -pair[0])[:WORST] if loss > 0]
    figures = [_distribution(item, np.asarray(weights.read(item.key, "f32")).reshape(-1)) for item in worst]
    return (
        "<p>How often weights are between two values (heights are logarithmic), with the largest weight and it over "
        f"the standard deviation: blocks with one large weight round the others coarsely.</p>{''.join(figures)}"
    )


def _distribution(item: Item, values: np.ndarray) -> str:
    largest = float(np.abs(values).max()) or 1.0
    counts, _ = np.histogram(values, BARS, (-largest, largest))
    width, height = 880, 90
    step = width / BARS
    tallest = math.log1p(int(counts.max()))
    bars = "".join(
        f'<rect class=bar x="{at * step + 0.5:.1f}" y="{height - height * math.log1p(int(count)) / tallest:.1f}" '
        f'width="{step - 1:.1f}" height="{height * math.log1p(int(count)) / tallest:.1f}"/>'
        for at, count in enumerate(counts)
    )
    ratio = largest / (float(values.std()) or 1.0)
    return (
        f"<h3>{html.escape(item.name)}: largest {largest:.3g}, {ratio:.1f} standard deviations</h3>"
        f'<svg viewBox="0 0 {width} {height + 18}" width="{width}"><line class=axis x1="0" y1="{height}" x2="{width}" '
        f'y2="{height}"/>{bars}<text class=small x="0" y="{height + 14}">{-largest:.3g}</text>'
        f'<text class=small x="{width / 2}" y="{height + 14}" text-anchor=middle>0</text>'
        f'<text class=small x="{width}" y="{height + 14}" text-anchor=end>{largest:.3g}</text></svg>'
    )
