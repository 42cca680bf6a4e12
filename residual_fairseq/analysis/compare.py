"""Trainings side by side: learning curves, scores by depth, significance against a baseline."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from .. import plots
from ..errors import UsageError
from ..logs import read_log
from ..plots import Panel
from ..report import add_selection, csv_comparisons, csv_results, tables, unique
from ..results import Run, read_runs
from ..scoring import METRICS
from ..summary import Row, Summary, summarise
from .output import Analysis, Picture


def learning_curve(run: Run) -> dict[int, float]:
    """Validation losses from the ``train.log`` beside a result, in bits per target unit by update.

    Losses that are not finite are left out. Empty without a log.

    Raises:
        UsageError: it is no log of fairseq-train.
    """
    path = run.path.with_name("train.log")
    if not path.is_file():
        return {}
    try:
        losses = read_log(path).valid
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not a log of fairseq-train --log-format json") from error
    return {update: loss for update, loss in losses.items() if math.isfinite(loss)}


def learning_curves(row: Row) -> dict[str, dict[str, dict[int, float]]]:
    """Learning curves of one connection at one depth.

    Returns:
        by label, at ``"mean"`` the loss by update over the seeds that trained, at those updates
        where each of them was measured, and at ``"deviation"`` (n - 1) that of several seeds. A
        training that failed has a line of its own, and so has each if they share no update.
    """
    name = row.first.connection
    trained = {f"{name} seed {run.seed}": learning_curve(run) for run in row.runs}
    failed = {f"{name} seed {run.seed}, failed": learning_curve(run) for run in row.failed}
    seeds = [curve for curve in trained.values() if curve]
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    alone = {**({} if shared else trained), **failed}
    found = {label: {"mean": curve, "deviation": {}} for label, curve in alone.items() if curve}
    if not shared:
        return found
    values = {update: [curve[update] for curve in seeds] for update in shared}
    several = len(seeds) > 1
    over_seeds = {
        "mean": {update: mean(losses) for update, losses in values.items()},
        "deviation": {update: stdev(losses) for update, losses in values.items() if several},
    }
    return {name: over_seeds, **found}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection(parser, baseline="post")


def run(args: argparse.Namespace) -> Analysis:
    """The trainings in some folders, benchmark by benchmark."""
    tests = args.tests and unique(args.tests)
    settings = {
        "folders": list(map(str, args.folders)),
        "baseline": args.baseline,
        "metric": unique(args.metric),
        "tests": tests,
    }
    return analysis_of(read_runs(args.folders), settings)


def analysis_of(runs: Sequence[Run], settings: Mapping[str, Any]) -> Analysis:
    """Trainings side by side.

    Args:
        settings: at "metric", "tests" and "baseline" what ``summarise`` takes; all are kept.

    Raises:
        UsageError: the trainings do not compare.
    """
    summaries = summarise(runs, settings["metric"], settings["tests"], settings["baseline"])
    curves = {summary.benchmark: curves_of(summary) for summary in summaries}
    return Analysis(
        name="compare",
        title="Trainings side by side",
        settings=settings,
        tables=[table for summary in summaries for table in tables(summary)],
        pictures=[
            picture
            for summary in summaries
            for picture in pictures(summary, curves[summary.benchmark])
        ],
        numbers={
            summary.benchmark: {
                "learning_curves": curves[summary.benchmark],
                "scores": [line for row in summary.rows for line in csv_results(summary, row)],
                "comparisons": [
                    line for row in summary.rows for line in csv_comparisons(summary, row)
                ],
            }
            for summary in summaries
        },
    )


def curves_of(summary: Summary) -> dict[str, dict[str, dict[str, dict[int, float]]]]:
    """Learning curves by depth (``"6+6"``), as of :func:`learning_curves`."""
    depths: dict[str, dict] = {}
    for row in summary.rows:
        depth = f"{row.first.encoder_layers}+{row.first.decoder_layers}"
        depths.setdefault(depth, {}).update(learning_curves(row))
    return {depth: curves for depth, curves in depths.items() if curves}


def pictures(summary: Summary, curves: Mapping[str, Mapping]) -> list[Picture]:
    """Learning curves with a panel for each depth; with several depths, scores by depth too."""
    name = re.sub(r"\W+", "-", summary.benchmark)
    panels = [curve_panel(f"{depth} layers", found) for depth, found in curves.items()]
    drawn = [
        Picture(
            f"compare-{name}-curves",
            f"Learning curves, {summary.benchmark}",
            f"Validation loss over updates{said(panels)}.",
            panels,
        )
    ]
    if len({row.first.encoder_layers for row in summary.rows if row.runs}) > 1:
        panels = score_panels(summary)
        failed = [run.name for row in summary.rows for run in row.failed]
        without = f" Failed, and not in it: {', '.join(failed)}." if failed else ""
        drawn.append(
            Picture(
                f"compare-{name}-depth",
                f"Scores by depth, {summary.benchmark}",
                f"Score, mean over seeds, by layers of the encoder{said(panels)}.{without}",
                panels,
            )
        )
    return [picture for picture in drawn if picture.panels]


def said(panels: Sequence[Panel]) -> str:
    """What a description says of lines and panels."""
    labels = dict.fromkeys(label for panel in panels for label in panel.curves)
    titles = ", ".join(panel.title for panel in panels)
    return f", a line for each of {', '.join(labels)}; panels: {titles}"


def curve_panel(title: str, found: Mapping[str, Mapping]) -> Panel:
    means, spreads = (
        {label: curve[part] for label, curve in found.items()} for part in ("mean", "deviation")
    )
    return plots.learning_curves(means, title, spreads)


def score_panels(summary: Summary) -> list[Panel]:
    """Mean over seeds by layers of the encoder, a panel for each average; or for each test set."""
    means = [column for column in summary.columns if len(column.over) > 1]
    panels = []
    for column in means or summary.columns:
        curves: dict[str, dict[float, float]] = {}
        spreads: dict[str, dict[float, float]] = {}
        for row in summary.rows:
            if (seeds := row.cells[column]) is None:
                continue
            label, encoder = row.first.connection, row.first.encoder_layers
            if row.first.decoder_layers != encoder:
                label += f", decoder of {row.first.decoder_layers}"
            curves.setdefault(label, {})[encoder] = seeds.mean
            spreads.setdefault(label, {})[encoder] = seeds.deviation or 0.0
        metric = METRICS[column.metric]
        panels.append(Panel("layers of the encoder", metric, curves, column.test, spreads))
    return panels
