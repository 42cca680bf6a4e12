"""``residual-results``: the trainings in some folders as tables.

Usage::

    residual-results results/wmt --baseline post
    residual-results results/iwslt14 --metric bleu tokenised_bleu --format latex --output iwslt.tex
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .errors import UsageError
from .formats import Table, as_csv, as_latex, as_markdown, as_text
from .published import Published, of
from .results import read_runs, write_text
from .scoring import METRICS
from .significance import LEVEL, SAMPLES, Comparison
from .summary import MAX_TESTS, Column, Row, Seeds, Summary, summarise, verdict

FORMATS = ("text", "markdown", "latex", "csv")

#: What significance is marked by, as :func:`residual_fairseq.summary.verdict` says it.
MARKS = {"better": "*", "worse": "†", None: ""}

MISSING = "–"


def render(summaries: Sequence[Summary], form: str) -> str:
    """The tables of all benchmarks.

    Args:
        form: one of ``FORMATS``.
    """
    if form == "csv":
        return csv_of(summaries)
    writer = {"text": as_text, "markdown": as_markdown, "latex": as_latex}[form]
    return writer([table for summary in summaries for table in tables(summary)])


def tables(summary: Summary) -> list[Table]:
    """The tables of one benchmark: our trainings, and what others have published.

    Args:
        summary: of the trainings.
    """
    names = column_names(summary.columns)
    shared = title_of(summary.columns)
    columns = ["connection", "depth", "parameters", "seeds", *names]
    if summary.compared_by:
        columns.append(f"p against {summary.baseline}")
    rows = []
    for row in summary.rows:
        cells = [*row.first.name.split(), f"{row.parameters:,}" if row.parameters else MISSING]
        cells.append(seeds_cell(row))
        for seeds in row.cells.values():
            cells.append(score_cell(seeds, len(row.runs)))
        if summary.compared_by:
            cells.append(comparison_cell(row, summary))
        rows.append(cells)
    ours = Table(", ".join([summary.benchmark, *shared]), columns, rows, notes(summary))
    metrics = dict.fromkeys(result.metric for result in of(summary.benchmark))
    return [ours, *(published_table(summary, metric) for metric in metrics)]


def column_names(columns: Sequence[Column]) -> list[str]:
    """What columns are called: by metric and test set, or by the one of these that varies."""
    metrics = {column.metric for column in columns}
    tests = {column.test for column in columns}
    if len(tests) == 1:
        return [METRICS[metric] for metric, _, _ in columns]
    if len(metrics) == 1:
        return [test for _, test, _ in columns]
    return [f"{METRICS[metric]} {test}" for metric, test, _ in columns]


def title_of(columns: Sequence[Column]) -> list[str]:
    """What :func:`column_names` leaves out: it is the same for all columns."""
    metrics = {column.metric for column in columns}
    tests = {column.test for column in columns}
    if len(tests) == 1:
        return list(tests)
    return [METRICS[metric] for metric in metrics] if len(metrics) == 1 else []


def seeds_cell(row: Row) -> str:
    """``3``, or ``2 of 3 failed``."""
    if not row.failed:
        return str(len(row.runs))
    return f"{len(row.failed)} of {len(row.runs) + len(row.failed)} failed"


def score_cell(seeds: Seeds | None, trained: int) -> str:
    """``27.35 ± 0.12``, and how many seeds that is of, if it is not of all that trained."""
    if seeds is None:
        return MISSING if trained else "failed"
    cell = f"{seeds.mean:.2f}"
    if seeds.deviation is not None:
        cell += f" ± {seeds.deviation:.2f}"
    return cell if seeds.n == trained else f"{cell} (n={seeds.n})"


def comparison_cell(row: Row, summary: Summary) -> str:
    """The p-value, or for how many directions a system is better and worse."""
    if row.first.connection == summary.baseline:
        return ""
    if row.comparisons is None:
        return MISSING
    verdicts = [verdict(by_seed, summary.compared_by) for by_seed in row.comparisons.values()]
    if len(verdicts) == 1:
        (by_seed,) = row.comparisons.values()
        p = max(comparison.p for comparison in by_seed.values())
        return f"{p:.3f}{MARKS[verdicts[0]]}"
    better, worse = verdicts.count("better"), verdicts.count("worse")
    return f"{better} better, {worse} worse of {len(verdicts)}"


def notes(summary: Summary) -> list[str]:
    """What the numbers of a table mean."""
    lines = []
    for metric, signatures in summary.signatures.items():
        lines += signature_notes(METRICS[metric], signatures)
    if summary.references_off_target is not None:
        lines.append(
            f"off-target %: the references themselves get {summary.references_off_target:.2f} on "
            "average"
        )
    for name, sets in {column.test: column.over for column in summary.columns}.items():
        if len(sets) > 1:
            lines.append(f"{name}: mean of {len(sets)} test sets")
    if any(
        seeds and seeds.deviation is not None
        for row in summary.rows
        for seeds in row.cells.values()
    ):
        lines.append("±: standard deviation over the seeds (n - 1)")
    for row in summary.rows:
        lines += [f"{run.name} seed {run.seed} failed: {run.failure}" for run in row.failed]
    lines += comparison_notes(summary)
    for key, values in summary.differences.items():
        parts = [f"{value} ({listed(names, 3)})" for value, names in values.items()]
        lines.append(f"WARNING: not one recipe: {key} is {'; '.join(parts)}")
    return lines


def signature_notes(metric: str, signatures: Mapping[str, Sequence[str]]) -> list[str]:
    """The signatures of a metric; if there are several, which test sets have which."""
    if len(signatures) == 1:
        return [f"{metric}: {signature}" for signature in signatures]
    return [
        f"{metric} of {listed(tests, 5)}: {signature}" for signature, tests in signatures.items()
    ]


def listed(names: Sequence[str], most: int) -> str:
    """Names, separated by commas; of many the first, and how many there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} ... ({len(names)} in all)"


def comparison_notes(summary: Summary) -> list[str]:
    """How significance was tested, and each outcome."""
    if summary.baseline and not summary.compared_by:
        return ["no comparison: sacreBLEU, chrF and TER can be resampled, and none is shown"]
    others = [row for row in summary.rows if row.first.connection != summary.baseline]
    if not summary.compared_by or not others:
        return []
    lines = []
    compared = [row for row in others if row.comparisons]
    if compared:
        lines.append(
            f"p: paired bootstrap, {SAMPLES} samples, by {METRICS[summary.compared_by]}, against "
            f"{summary.baseline} of the same depth and seed; of several seeds the largest p; * "
            f"better, † worse: p < {LEVEL} for every seed, all in the same direction"
        )
    if any(len(row.comparisons) > 1 for row in compared):
        lines.append("better and worse: each test set by itself, not corrected for their number")
    for row in compared:
        if len(row.comparisons) == 1:
            ((tests, by_seed),) = row.comparisons.items()
            parts = [f"seed {seed}: {outcome(by_seed[seed])}" for seed in sorted(by_seed)]
            over = listed(tests, 1) if len(tests) == 1 else f"{len(tests)} test sets together"
            lines.append(f"{row.first.name} on {over}: {'; '.join(parts)}")
    if len(compared) < len(others):
        lines.append(
            f"{MISSING}: no {summary.baseline} of the same depth and seed that trained, or no "
            "translations of one of the two"
        )
    return lines


def outcome(comparison: Comparison) -> str:
    """``+0.42, p 0.012``."""
    return f"{comparison.difference:+.2f}, p {comparison.p:.3f}"


def published_table(summary: Summary, metric: str) -> Table:
    """What others have published in one metric, and whether it compares with ours."""
    published = [result for result in of(summary.benchmark) if result.metric == metric]
    tests = list(dict.fromkeys(test for result in published for test in result.scores))
    sources: dict[str, int] = {}
    rows = []
    for result in published:
        number = sources.setdefault(source_of(result), len(sources) + 1)
        cells = [result.system, result.depth or MISSING]
        cells += [published_cell(result, test) for test in tests]
        rows.append([*cells, compares(result, summary), f"[{number}]"])
    columns = ["system", "depth", *tests, "compares with ours", "source"]
    lines = [f"[{number}] {said}" for said, number in sources.items()]
    title = f"{summary.benchmark}, {METRICS[metric]}, published by others"
    return Table(title, columns, rows, lines)


def source_of(result: Published) -> str:
    """Where a published number is from, and what is known of it."""
    return "; ".join(filter(None, [result.source, result.remark, result.certainty]))


def published_cell(result: Published, test: str) -> str:
    """``35.64 ± 0.23``, ``failed``, or nothing."""
    if not result.scores:
        return "failed"
    if test not in result.scores:
        return ""
    deviation = result.deviations.get(test)
    return result.scores[test] + (f" ± {deviation}" if deviation else "")


def compares(result: Published, summary: Summary) -> str:
    """Whether a published number may be set against one of ours."""
    if result.comparable is None:
        return "unclear"
    if not result.comparable:
        return "no"
    if result.metric not in summary.signatures:
        return f"with {METRICS[result.metric]} only"
    for signature in summary.signatures[result.metric]:
        if f"case:{result.case}" not in signature.split("|"):
            return "no: ours is cased" if result.case == "lc" else "no: ours is lower-cased"
    return "yes"


CSV_COLUMNS = (
    *("kind", "benchmark", "connection", "encoder_layers", "decoder_layers", "parameters"),
    *("metric", "test", "score", "deviation", "seeds", "failed", "signature"),
    *("baseline", "seed", "difference", "p", "source", "comparable"),
)


def csv_of(summaries: Sequence[Summary]) -> str:
    """Everything as comma-separated values, one number a line.

    The column "kind" says of what: "result", the mean over the seeds of a connection at a depth;
    "comparison", the difference from the baseline for one seed; "published", a number of others.
    """
    lines = []
    for summary in summaries:
        for row in summary.rows:
            lines += csv_results(summary, row)
        for row in summary.rows:
            lines += csv_comparisons(summary, row)
        for result in of(summary.benchmark):
            lines += csv_published(summary, result)
    return as_csv(CSV_COLUMNS, [[line.get(name) for name in CSV_COLUMNS] for line in lines])


def csv_results(summary: Summary, row: Row) -> Iterator[dict[str, object]]:
    """The lines for our trainings of one connection at one depth."""
    for column, seeds in row.cells.items() or [(None, None)]:
        line = {"kind": "result", **csv_training(summary, row), "parameters": row.parameters}
        line.update(seeds=seeds.n if seeds else 0, failed=len(row.failed))
        if column:
            by_signature = summary.signatures[column.metric].items()
            used = [name for name, tests in by_signature if set(tests) & set(column.over)]
            line.update(metric=column.metric, test=column.test, signature=" and ".join(used))
        if seeds:
            line.update(score=seeds.mean, deviation=seeds.deviation)
        yield line


def csv_comparisons(summary: Summary, row: Row) -> Iterator[dict[str, object]]:
    """The lines for the comparisons of one connection at one depth with the baseline."""
    for tests, by_seed in (row.comparisons or {}).items():
        for seed, comparison in sorted(by_seed.items()):
            yield {
                "kind": "comparison",
                **csv_training(summary, row),
                "metric": summary.compared_by,
                "test": " and ".join(tests),
                "baseline": summary.baseline,
                "seed": seed,
                "difference": comparison.difference,
                "p": comparison.p,
            }


def csv_training(summary: Summary, row: Row) -> dict[str, object]:
    """The columns that say which of our trainings a line is about."""
    return {
        "benchmark": summary.benchmark,
        "connection": row.first.connection,
        "encoder_layers": row.first.encoder_layers,
        "decoder_layers": row.first.decoder_layers,
    }


def csv_published(summary: Summary, result: Published) -> Iterator[dict[str, object]]:
    """The lines for a result of others."""
    encoder, _, decoder = result.depth.partition("+")
    for test, score in result.scores.items() or [(None, None)]:
        yield {
            "kind": "published",
            "benchmark": summary.benchmark,
            "connection": result.system,
            "encoder_layers": encoder,
            "decoder_layers": decoder,
            "metric": result.metric,
            "test": test,
            "score": score,
            "deviation": result.deviations.get(test),
            "failed": None if result.scores else 1,
            "source": source_of(result),
            "comparable": compares(result, summary),
        }


def add_selection(parser: argparse.ArgumentParser, baseline: str | None = None) -> None:
    """The options for trainings, and for what is shown of them.

    Args:
        baseline: default of ``--baseline``; None: none.
    """
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="searched for result.json, however deep",
    )
    parser.add_argument(
        "--baseline",
        default=baseline,
        metavar="CONNECTION",
        help="compare the others with it by paired bootstrap, at the same depth and seed "
        f"(default: {baseline or 'none'})",
    )
    parser.add_argument(
        "--metric",
        nargs="+",
        choices=list(METRICS),
        default=["bleu"],
        metavar="NAME",
        help=f"one or more of {', '.join(METRICS)} (default: bleu); the first of bleu, chrf and "
        "ter is the one to compare by",
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        metavar="NAME",
        help=f"show and average only these test sets (default: all; of more than {MAX_TESTS} only "
        "the averages)",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ``arguments`` defaults to those of the process."""
    parser = argparse.ArgumentParser(
        prog="residual-results",
        description="Tables of the trainings in some folders: mean and standard deviation over "
        "seeds, averages over test sets, significance, signatures, and what others have published.",
    )
    add_selection(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="csv has one number a line (default: %(default)s)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the tables there, not to stdout"
    )
    args = parser.parse_args(arguments)
    runs = read_runs(args.folders)
    summaries = summarise(
        runs, unique(args.metric), args.tests and unique(args.tests), args.baseline
    )
    text = render(summaries, args.format)
    if args.output is None:
        print(text)
        return
    try:
        write_text(args.output, f"{text}\n")
    except OSError as error:
        raise UsageError(f"--output {args.output}: {error.strerror}") from error


def unique(names: Sequence[str]) -> list[str]:
    """Names, each once."""
    return list(dict.fromkeys(names))


if __name__ == "__main__":
    main()
