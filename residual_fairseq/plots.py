"""Pictures of trainings."""

from __future__ import annotations

import os
from itertools import cycle
from pathlib import Path
from typing import Mapping

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Wong 2011, Points of view: Color blindness, Nature Methods 8, 441; without its yellow, which is
# hard to see on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "X", "P", "<", ">")


def plot_learning_curves(
    curves: Mapping[str, Mapping[int, float]],
    path: str | os.PathLike,
    *,
    title: str,
    command: str,
) -> None:
    """Draw validation loss over updates, one line for each training, as a PNG.

    Args:
        curves: by label, the losses in bits per target unit by number of updates; those without
            any are left out.
        path: of the PNG; written beside and renamed into place.
        title: above the picture.
        command: the command that made it, kept in the PNG's metadata under "Command".
    """
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # 7 colours and 9 markers have no common factor: 63 different lines.
    for (label, curve), colour, marker in zip(curves.items(), cycle(COLOURS), cycle(MARKERS)):
        if curve:
            updates = sorted(curve)
            losses = [curve[update] for update in updates]
            axes.plot(updates, losses, color=colour, marker=marker, markersize=5, label=label)
    axes.set_title(title)
    axes.set_xlabel("updates")
    axes.set_ylabel("validation loss (bits per target unit)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        figure.legend(loc="outside right upper", frameon=False)
    path = Path(path)
    temporary = path.with_name(path.name + ".tmp")
    figure.savefig(temporary, format="png", metadata={"Title": title, "Command": command})
    os.replace(temporary, path)
