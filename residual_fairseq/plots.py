"""Pictures: curves in panels, with axes, a legend beside them, and the command that made them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Mapping, Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Wong 2011, Points of view: Color blindness, Nature Methods 8, 441; without its yellow, which is
# hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">")


@dataclass(frozen=True)
class Panel:
    """One system of axes, with whole numbers along x.

    Attributes:
        x, y: what they show, with units.
        curves: by label, y by x.
        title: above it; without one if it is empty.
        spreads: by label, the deviation of y by x, drawn as a band.
        log: y is logarithmic; values that are not above 0 are left out.
        bottom, top: ends of y; None: as the curves want it.
        from_zero: x begins at 0, as updates do.
    """

    x: str
    y: str
    curves: Mapping[str, Mapping[float, float]]
    title: str = ""
    spreads: Mapping[str, Mapping[float, float]] | None = None
    log: bool = False
    bottom: float | None = None
    top: float | None = None
    from_zero: bool = False


def plot(panels: Sequence[Panel], path: str | os.PathLike, *, title: str, command: str) -> None:
    """Draw panels as a PNG.

    Args:
        panels, title: as of ``draw``.
        path: of the PNG; written beside and renamed into place.
        command: the command that made it, kept in the PNG's metadata under "Command".
    """
    path = Path(path)
    temporary = path.with_name(path.name + ".tmp")
    metadata = {"Title": title, "Command": command}
    draw(panels, title).savefig(temporary, format="png", metadata=metadata)
    os.replace(temporary, path)


def draw(panels: Sequence[Panel], title: str) -> Figure:
    """Panels, up to three in a row, four in two; a label looks the same in all of them.

    Args:
        panels: those without any curve stay empty.
        title: above the picture.
    """
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    size = (3.5 + 4.5 * columns, 4.5 * rows)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    # 7 colours and 9 markers have no common factor: 63 different lines.
    labels = dict.fromkeys(label for panel in panels for label, c in panel.curves.items() if c)
    styles = dict(zip(labels, zip(cycle(COLOURS), cycle(MARKERS))))
    handles = {}
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid, panels):
        for label, curve in panel.curves.items():
            points = sorted((x, y) for x, y in curve.items() if y > 0 or not panel.log)
            if not points:
                continue
            colour, marker = styles[label]
            xs, ys = zip(*points)
            (handles[label],) = axes.plot(xs, ys, color=colour, marker=marker, markersize=5)
            spread = (panel.spreads or {}).get(label)
            if spread:
                # On a logarithmic axis a band that reaches 0 would reach the floor.
                low = [
                    max(y - spread[x], y / 100) if panel.log else y - spread[x] for x, y in points
                ]
                high = [y + spread[x] for x, y in points]
                axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)
        if panel.log:
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if panel.from_zero:
            axes.set_xlim(left=0)
        axes.set_ylim(bottom=panel.bottom, top=panel.top)
        axes.set_title(panel.title if len(panels) > 1 else title)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    if len(panels) > 1:
        figure.suptitle(title)
    if handles:
        kept = [label for label in labels if label in handles]
        figure.legend(
            [handles[label] for label in kept], kept, loc="outside right upper", frameon=False
        )
    return figure


def learning_curves(
    curves: Mapping[str, Mapping[float, float]],
    title: str = "",
    spreads: Mapping[str, Mapping[float, float]] | None = None,
) -> Panel:
    """Validation loss over updates.

    Args:
        curves: by label, the losses in bits per target unit by number of updates.
        title, spreads: as of ``Panel``.
    """
    loss = "validation loss (bits per target unit)"
    return Panel("updates", loss, curves, title, spreads, bottom=0, from_zero=True)


def plot_learning_curves(
    curves: Mapping[str, Mapping[int, float]],
    path: str | os.PathLike,
    *,
    title: str,
    command: str,
) -> None:
    """Draw validation loss over updates, one line for each training, as a PNG.

    Args:
        curves: as of ``learning_curves``.
        path, title, command: as of ``plot``.
    """
    plot([learning_curves(curves)], path, title=title, command=command)
