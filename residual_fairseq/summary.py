"""From trainings to the numbers of a table: mean and deviation over seeds, averages, comparisons.

What goes into one table compares: every column has one signature, and trainings that differ in
more than connection, depth and seed are named below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, NamedTuple

from tqdm import tqdm

from .errors import UsageError
from .results import Run
from .scoring import LOWER_IS_BETTER, read_lines, score
from .significance import LEVEL, RESAMPLED, Comparison, metric_of, paired_bootstrap

#: Of more test sets than this only the averages are shown, unless they are asked for by name.
MAX_TESTS = 8

_DIRECTION = re.compile(r"(zero-shot )?(\w+)-(\w+)")


class Column(NamedTuple):
    """Of a table: a metric on a test set, or the average of a metric over some of them."""

    metric: str
    test: str
    over: tuple[str, ...]


class Seeds(NamedTuple):
    """A number over the seeds of a row.

    Attributes:
        mean: over them.
        deviation: of the sample (n - 1); None of one seed.
        n: how many have a score.
    """

    mean: float
    deviation: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """The trainings of one connection at one depth.

    Attributes:
        runs: those that trained, by seed.
        failed: those that did not.
        cells: by column; None where no training has the score.
        comparisons: with the baseline, by test sets that were taken together and then by seed;
            None if this is the baseline, or there is nothing to compare.
    """

    runs: Sequence[Run]
    failed: Sequence[Run]
    cells: Mapping[Column, Seeds | None]
    comparisons: Mapping[tuple[str, ...], Mapping[int, Comparison]] | None

    @property
    def first(self) -> Run:
        """What the trainings have in common can be read from this one."""
        return [*self.runs, *self.failed][0]

    @property
    def parameters(self) -> int | None:
        return next((run.parameters for run in [*self.runs, *self.failed] if run.parameters), None)


@dataclass(frozen=True)
class Summary:
    """All trainings on one benchmark.

    Attributes:
        signatures: by metric and signature, the test sets that have it.
        references_off_target: percentage of the references that look off target, on average over
            the test sets; None without that metric.
        baseline: the connection that others are compared with; None: none was asked for.
        compared_by: the metric for that; None if no column can be resampled.
        differences: by setting that is not the same in all trainings, their names by its value.
    """

    benchmark: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    signatures: Mapping[str, Mapping[str, Sequence[str]]]
    references_off_target: float | None
    baseline: str | None
    compared_by: str | None
    differences: Mapping[str, Mapping[str, Sequence[str]]]


def summarise(
    runs: Sequence[Run],
    metrics: Sequence[str] = ("bleu",),
    tests: Sequence[str] | None = None,
    baseline: str | None = None,
) -> list[Summary]:
    """Sum up trainings, benchmark by benchmark.

    Args:
        runs: the trainings.
        metrics: keys of ``scoring.METRICS``, in the order of the columns.
        tests: names of test sets; only they are shown and averaged over. None: all.
        baseline: a connection to compare the others with.

    Raises:
        UsageError: no training has a metric, a test set or the connection, or they do not compare.
    """
    scores = [by_metric for run in runs for by_metric in run.scores.values()]
    check_known("metric", metrics, {metric for by_metric in scores for metric in by_metric})
    check_known("tests", tests or [], {test for run in runs for test in run.scores})
    check_known("baseline", [baseline] if baseline else [], {run.connection for run in runs})
    benchmarks: dict[str, list[Run]] = {}
    for run in runs:
        benchmarks.setdefault(run.benchmark, []).append(run)
    return [
        summarise_benchmark(benchmarks[name], metrics, tests, baseline)
        for name in sorted(benchmarks)
    ]


def only(summary: Summary, metrics: Set[str]) -> Summary:
    """A summary without the columns of other metrics."""
    columns = [column for column in summary.columns if column.metric in metrics]
    return replace(
        summary,
        columns=columns,
        rows=[
            replace(row, cells={column: row.cells[column] for column in columns})
            for row in summary.rows
        ],
        signatures={
            metric: tests for metric, tests in summary.signatures.items() if metric in metrics
        },
    )


def check_known(flag: str, asked: Sequence[str], known: set[str]) -> None:
    """Check that there are results for what a flag asks for.

    Raises:
        UsageError: there are results, but not for this.
    """
    for name in asked:
        if known and name not in known:
            raise UsageError(
                f"--{flag} {name}: none of the trainings has it; there are: "
                f"{', '.join(sorted(known))}"
            )


def summarise_benchmark(
    runs: Sequence[Run],
    metrics: Sequence[str],
    tests: Sequence[str] | None,
    baseline: str | None,
) -> Summary:
    """Sum up the trainings on one benchmark; see :func:`summarise`."""
    all_columns, shown = columns_of(runs, metrics, tests)
    sets = [column for column in all_columns if len(column.over) == 1]
    signatures = {
        metric: signatures_of(runs, [column for column in sets if column.metric == metric])
        for metric in dict.fromkeys(column.metric for column in sets)
    }
    compared_by = next((metric for metric in signatures if metric in RESAMPLED), None)
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        key = run.encoder_layers, run.decoder_layers, run.connection != baseline, run.connection
        groups.setdefault(key, []).append(run)
    rows = []
    for key in sorted(groups):
        group = sorted(groups[key], key=lambda run: run.seed)
        trained = [run for run in group if run.failure is None]
        comparisons = None
        if baseline and compared_by and key[3] != baseline:
            rivals = [run for run in groups.get((*key[:2], False, baseline), []) if run.scores]
            names = [column.test for column in sets if column.metric == compared_by]
            comparisons = compare(trained, rivals, names, compared_by) or None
        rows.append(
            Row(
                runs=trained,
                failed=[run for run in group if run.failure is not None],
                cells={column: over_seeds(trained, column) for column in shown},
                comparisons=comparisons,
            )
        )
    return Summary(
        benchmark=runs[0].benchmark,
        columns=shown,
        rows=rows,
        signatures=signatures,
        references_off_target=off_target_of_references(runs, sets),
        baseline=baseline,
        compared_by=compared_by if baseline else None,
        differences=differences(runs),
    )


def columns_of(
    runs: Sequence[Run], metrics: Sequence[str], tests: Sequence[str] | None
) -> tuple[list[Column], list[Column]]:
    """The columns that there are scores for, test sets in the order of the files.

    Returns:
        all of them, and those to show.
    """
    every, shown = [], []
    for metric in metrics:
        names = dict.fromkeys(
            test for run in runs for test, scores in run.scores.items() if metric in scores
        )
        chosen = [test for test in tests if test in names] if tests else list(names)
        sets = [Column(metric, test, (test,)) for test in chosen]
        means = [Column(metric, name, tuple(over)) for name, over in averages(chosen).items()]
        every += sets + means
        shown += (sets if tests or len(sets) <= MAX_TESTS or not means else []) + means
    return every, shown


def averages(tests: Sequence[str]) -> dict[str, list[str]]:
    """What is averaged over which test sets.

    Returns:
        "average" over all, if there are several. Directions of multilingual models are averaged
        apart: out of English (en-X), into it (X-en), between others (X-Y), over all these (all),
        and over those that were not trained on (zero-shot).
    """
    directions = [_DIRECTION.fullmatch(test) for test in tests]
    if not all(directions):
        result = {"average": list(tests)}
    else:
        result = {"en-X": [], "X-en": [], "X-Y": [], "all": [], "zero-shot": []}
        for test, direction in zip(tests, directions):
            zero_shot, source, target = direction.groups()
            if zero_shot:
                result["zero-shot"].append(test)
            else:
                kind = "en-X" if source == "en" else "X-en" if target == "en" else "X-Y"
                result[kind].append(test)
                result["all"].append(test)
        if any(result["all"] == result[kind] for kind in ("en-X", "X-en", "X-Y")):
            del result["all"]
    return {name: over for name, over in result.items() if len(over) > 1}


def signatures_of(runs: Sequence[Run], columns: Sequence[Column]) -> dict[str, list[str]]:
    """By signature the test sets that have it.

    Args:
        columns: of one metric, for a test set each.

    Raises:
        UsageError: a test set was scored in two ways. Both numbers may be right, but to set one
            against the other is not.
    """
    result: dict[str, list[str]] = {}
    for metric, test, _ in columns:
        first: Run | None = None
        for run in runs:
            score = run.scores.get(test, {}).get(metric)
            if score is None:
                continue
            if first is None:
                first, signature = run, score["signature"]
            elif score["signature"] != signature:
                raise UsageError(
                    f"{first.path} and {run.path} do not compare: {metric} of {test} is by "
                    f"{signature} and by {score['signature']}: score both alike, or make two tables"
                )
        result.setdefault(signature, []).append(test)
    return result


def over_seeds(runs: Sequence[Run], column: Column) -> Seeds | None:
    """A number over those trainings of a row that have all scores for it."""
    numbers = []
    for run in runs:
        scores = [run.scores.get(test, {}).get(column.metric) for test in column.over]
        if all(scores):
            numbers.append(mean(score["score"] for score in scores))
    if not numbers:
        return None
    return Seeds(mean(numbers), stdev(numbers) if len(numbers) > 1 else None, len(numbers))


def compare(
    runs: Sequence[Run], rivals: Sequence[Run], tests: Sequence[str], metric: str
) -> dict[tuple[str, ...], dict[int, Comparison]]:
    """Compare trainings with those of a baseline, each with the one of the same seed.

    Test sets are taken together, as one long one. Not so those of different directions: sentences
    of different languages are no sample of anything, and each direction is compared by itself.

    Args:
        runs, rivals: of the system and of the baseline.
        tests: the test sets.
        metric: to compare by.

    Returns:
        by test sets and then by seed. What one side has no files of is left out.

    Raises:
        UsageError: a file is not what was scored.
    """
    by_seed = {run.seed: run for run in rivals}
    apart = all(map(_DIRECTION.fullmatch, tests))
    pairs: list[tuple[Run, Run, tuple[str, ...]]] = []
    for run in runs:
        rival = by_seed.get(run.seed)
        groups: dict[str, list[str]] = {}
        for test in tests if rival else ():
            if has_files(run, test, metric) and has_files(rival, test, metric):
                signature = run.scores[test][metric]["signature"]
                groups.setdefault(test if apart else signature, []).append(test)
        pairs += [(run, rival, tuple(group)) for group in groups.values()]
    result: dict[tuple[str, ...], dict[int, Comparison]] = {}
    for run, rival, group in tqdm(pairs, desc="paired bootstrap", leave=False, disable=None):
        baseline, references = read_scored(rival, group, metric)
        system, other_references = read_scored(run, group, metric)
        if references != other_references:
            raise UsageError(
                f"{rival.path} and {run.path} were scored against different references of "
                f"{', '.join(group)}"
            )
        tool = metric_of(metric, run.scores[group[0]][metric]["signature"])
        comparison = paired_bootstrap(baseline, system, references, tool)
        result.setdefault(group, {})[run.seed] = comparison
    return result


def has_files(run: Run, test: str, metric: str) -> bool:
    """Whether a test set has the score, and its translations and reference are there."""
    files = run.hypotheses_file(test), run.references_file(test)
    return metric in run.scores.get(test, {}) and None not in files


def read_scored(run: Run, tests: Sequence[str], metric: str) -> tuple[list[str], list[str]]:
    """Translations and references of test sets, one after the other.

    Raises:
        UsageError: they do not have the score that was recorded.
    """
    all_hypotheses: list[str] = []
    all_references: list[str] = []
    for test in tests:
        path = run.hypotheses_file(test)
        hypotheses, references = read_lines(path), read_lines(run.references_file(test))
        recorded = run.scores[test][metric]
        if len(hypotheses) != len(references):
            raise UsageError(f"{path} has {len(hypotheses)} lines, its reference {len(references)}")
        found = score(metric_of(metric, recorded["signature"]), hypotheses, references)["score"]
        if abs(found - recorded["score"]) > 0.005:
            raise UsageError(
                f"{path}: its {metric} is {found:.2f}, but {recorded['score']:.2f} in {run.path}: "
                "score it again"
            )
        all_hypotheses += hypotheses
        all_references += references
    return all_hypotheses, all_references


def verdict(comparisons: Mapping[int, Comparison], metric: str) -> str | None:
    """Whether a system is better or worse than the baseline for every seed.

    To ask this of each seed at the full level needs no correction for their number: it gets less
    likely by chance, not more (an intersection-union test, Berger 1982).

    Args:
        comparisons: by seed.
        metric: they were compared by.

    Returns:
        "better" or "worse"; None if neither is significant.
    """
    sign = -1 if metric in LOWER_IS_BETTER else 1
    for word, direction in (("better", sign), ("worse", -sign)):
        if all(c.p < LEVEL and c.difference * direction > 0 for c in comparisons.values()):
            return word
    return None


def off_target_of_references(runs: Sequence[Run], columns: Sequence[Column]) -> float | None:
    """How many percent of the references look off target, on average over the test sets."""
    rates = {
        test: run.scores[test][metric]["references"]
        for metric, test, _ in columns
        if metric == "off_target"
        for run in runs
        if "references" in run.scores.get(test, {}).get(metric, {})
    }
    return mean(rates.values()) if rates else None


def differences(runs: Sequence[Run]) -> dict[str, dict[str, list[str]]]:
    """By setting that is not the same everywhere, the names of the trainings by its value.

    Raises:
        UsageError: they were trained or tested on different corpora.
    """
    result: dict[str, dict[str, list[str]]] = {}
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        values: dict[str, list[Run]] = {}
        for run in runs:
            # One that failed has not come to averaging its checkpoints.
            if run.failure is None or key in run.settings:
                values.setdefault(as_text(run.settings.get(key)), []).append(run)
        if len(values) > 1:
            if key.startswith("corpus."):
                one, other = list(values.values())[:2]
                raise UsageError(
                    f"{one[0].path} and {other[0].path} are not of the same {runs[0].benchmark}: "
                    f"{key} is {' and '.join(list(values)[:2])}: make two tables"
                )
            result[key] = {
                value: [f"{run.name} seed {run.seed}" for run in some]
                for value, some in values.items()
            }
    return result


def as_text(setting: Any) -> str:
    """A setting for a person."""
    return "not set" if setting is None else str(setting)
