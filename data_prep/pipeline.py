"""From the text of a corpus to a data-bin, in stages that can be interrupted.

The folder that comes out:

    bin/                the data-bin
    codes               BPE codes, learned on both languages
    vocab.LANG          BPE units of a language, with their frequency in the training text
                        (of text that came in units: codes and vocab as they came, if they did)
    text/TEST.LANG      a test set, byte for byte as it was given: what sacreBLEU compares with
    text/TEST.tok.LANG  the same as the model sees it, BPE joined: for tokenised BLEU
    corpus.json         options, where the text is from, counts at every step, versions, SHA-256
                        of what came in and went out
    preprocess.log      what fairseq-preprocess said
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from data_prep import steps
from data_prep.bpe import remove_codes
from data_prep.databin import binarise
from data_prep.options import Options
from data_prep.stages import (
    check_reusable,
    disk_errors_reported,
    is_empty_folder,
    locked,
    open_work_folder,
    run_stage,
)
from data_prep.text import check_parallel, read_lines, write_lines
from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_json, sha256, write_json


class Text(NamedTuple):
    """Where the text of a corpus comes from.

    Args:
        inputs: facts about what came in by name, JSON-like: what tells one corpus from another.
        extract: given an existing empty folder, writes ``{train,valid,...}.LANG`` there and
            returns its counts; None if ``folder`` has them.
        folder: of the text; None if it has to be extracted.
        options: those of the extraction, by name of their flag.
        benchmark: what is prepared; None for a user's own text.
        sources: by input, the address that it is from, or else how it was come by. The same input
            from another address is the same corpus.
    """

    inputs: dict[str, Any]
    extract: Callable[[Path], dict] | None = None
    folder: Path | None = None
    options: Mapping[str, Any] = {}
    benchmark: str | None = None
    sources: Mapping[str, str] = {}


def read_folder(folder: Path, options: Options) -> Text:
    """The text in a folder of ``{train,valid,...}.LANG``.

    Raises:
        UsageError: a file is missing or not UTF-8, or two do not have equally many lines.
    """
    inputs = {}
    for split in options.given:
        names = [f"{split}.{lang}" for lang in options.languages]
        for name, facts in zip(names, check_parallel(*(folder / name for name in names))):
            inputs[name] = facts._asdict()
    return Text(inputs, folder=folder)


def prepare(text: Text, options: Options, out: Path, workers: int = 2) -> dict:
    """Make the folder described at the module.

    Args:
        text: where it comes from.
        options: what is done to it.
        out: the folder to make, as in ``prepare_folder``.
        workers: number of processes; the result does not depend on it.

    Returns:
        the content of ``corpus.json``.

    Raises:
        UsageError: unusable text, or ``out`` holds something else.
    """
    if workers < 1:
        raise UsageError(f"--workers {workers}: has to be 1 or more")
    request = {"options": {**options.as_json(), **text.options}, "inputs": text.inputs}
    return prepare_folder(
        request,
        {"benchmark": text.benchmark, "sources": text.sources, "tests": tests_of(options)},
        out,
        lambda work, result: run_stages(text, options, work, result, workers),
    )


def prepare_folder(
    request: dict, facts: Mapping[str, Any], out: Path, build: Callable[[Path, Path], dict]
) -> dict:
    """Make a folder with a ``corpus.json``.

    Nothing appears at ``out`` before everything is done. Until then the files are in a folder
    beside it, ``OUT.partial``, where a run that was interrupted goes on.

    Args:
        request: options and inputs.
        facts: what else ``corpus.json`` says about the outcome.
        out: the folder. If it is there and was made from the same text with the same options it
            is left as it is.
        build: given a folder for what the stages hand on and one for what is kept, does the
            stages and returns their counts.

    Returns:
        the content of ``corpus.json``.

    Raises:
        UsageError: ``out`` holds something else, the disk is full, or another run is at it.
    """
    out = Path(os.path.abspath(out))
    with disk_errors_reported(out):
        record = reusable(out, request)
        if record is None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with locked(out):
                # Another run may have made it by now.
                record = reusable(out, request) or make_folder(request, facts, out, build)
    return record


def reusable(out: Path, request: dict) -> dict | None:
    """The ``corpus.json`` of a finished folder; None if there is nothing yet.

    Raises:
        UsageError: the folder holds something else.
    """
    if out.exists() and not is_empty_folder(out):
        record = read_json(out / "corpus.json")
        if record is None:
            raise UsageError(f"--out {out}: exists and is not an earlier output; choose another")
        check_reusable(out, record, request, tool_versions())
        print(f"{out}: reused", flush=True)
        return record
    return None


def make_folder(
    request: dict, facts: Mapping[str, Any], out: Path, build: Callable[[Path, Path], dict]
) -> dict:
    """What ``prepare_folder`` does if there is nothing yet."""
    request = {**request, "versions": tool_versions()}
    work = out.with_name(f"{out.name}.partial")
    result = open_work_folder(work, request)
    (result / "text").mkdir(parents=True, exist_ok=True)
    counts = build(work, result)
    files = sorted(path for path in result.rglob("*") if path.is_file())
    outputs = {
        path.relative_to(result).as_posix(): sha256(path)
        for path in files
        if path.name not in ("corpus.json", "preprocess.log")
    }
    record = {**request, **facts, "counts": counts, "outputs": outputs}
    write_json(result / "corpus.json", record)
    os.replace(result, out)
    shutil.rmtree(work)
    return record


def tests_of(options: Options) -> dict[str, dict[str, str]]:
    """The test sets as ``corpus.json`` has them: fairseq's subset, the languages, the text."""
    return {
        name: {
            "subset": subset,
            "source": options.source,
            "target": options.target,
            "text": f"text/{name}",
        }
        for name, subset in options.subsets.items()
    }


def plan_of(options: Options) -> dict[str, Any]:
    """What is known of ``corpus.json`` before anything is done."""
    return {"options": options.as_json(), "inputs": {}, "tests": tests_of(options)}


def run_stages(text: Text, options: Options, work: Path, result: Path, workers: int) -> dict:
    """Do every stage that the options ask for.

    Args:
        work: folder for what the stages hand on.
        result: folder for what is kept.

    Returns:
        the counts of each stage by name.
    """
    counts = {}
    folder = text.folder

    def stage(name: str, build: Callable[[Path], dict], hands_on: bool = True) -> None:
        nonlocal folder
        counts[name] = run_stage(work, name, build)
        if hands_on:
            folder = work / name

    def drop(splits: Sequence[str]) -> None:
        if options.max_tokens is not None or options.max_ratio is not None:
            before = folder
            stage("drop", lambda made: steps.drop_long(options, before, made, splits))

    if text.extract:
        stage("extract", text.extract)
        for split in options.given:
            check_parallel(*(folder / f"{split}.{lang}" for lang in options.languages))
    given = folder
    stage("clean", lambda made: steps.clean(options, given, made))
    cleaned = folder
    stage("tokenize", lambda made: steps.tokenize_splits(options, cleaned, made, workers))
    if options.drop_by == "tokens":
        drop(["train"])
    if options.valid_every:
        whole = folder
        stage("split", lambda made: steps.split_valid(options, whole, made))
    if not options.in_units:
        tokens = folder
        stage("learn-bpe", lambda _: steps.learn_joint_codes(options, tokens, result), False)
        stage(
            "apply-bpe",
            lambda made: steps.apply_joint_codes(options, tokens, made, result, workers),
        )
    if options.drop_by == "units":
        drop(["train", "valid"] if options.valid_every else ["train"])
    units = folder
    stage(
        "round-trip",
        lambda _: steps.compare_round_trip(options, given, units, workers),
        False,
    )
    stage(
        "binarise",
        lambda _: binarise(units, options, result / "bin", result / "preprocess.log", workers),
        False,
    )
    for name in ("codes", "vocab"):
        if options.in_units and (given / name).exists():
            shutil.copyfile(given / name, result / name)
    for test in options.tests:
        for lang in options.languages:
            raw = steps.raw_text(given, test, lang) or given / f"{test}.{lang}"
            shutil.copyfile(raw, result / "text" / f"{test}.{lang}")
            write_lines(
                result / "text" / f"{test}.tok.{lang}",
                remove_codes(read_lines(units / f"{test}.{lang}")),
            )
    return counts


def tool_versions() -> dict[str, str]:
    """The versions of everything that the outcome depends on."""
    import fairseq

    names = ("subword-nmt", "sentencepiece", "sacremoses", "sacrebleu")
    packages = {name: version(name) for name in names}
    return {
        "python": platform.python_version(),
        "fairseq": fairseq.__version__,
        **packages,
    }


def describe(record: Mapping[str, Any]) -> str:
    """Say in a few lines what ``prepare`` made.

    Args:
        record: its result.
    """
    options, counts = record["options"], record["counts"]
    languages = options["source"], options["target"]
    lines = []
    for split in ("train", "valid", *options["tests"]):
        stages = [
            counts[name][split]
            for name in ("clean", "drop", "split")
            if split in counts.get(name, {})
        ]
        pairs = [stage["pairs"] for stage in stages][-1]
        dropped = [
            f", {n} dropped ({reason})"
            for stage in stages
            for reason, n in stage.get("dropped", {}).items()
        ]
        lines.append(f"{split}: {pairs} pairs" + "".join(dropped))
        for lang in languages:
            units = counts["binarise"][split][lang]
            parts = [f"{units['units']} units", f"{units['unk']} <unk>"]
            if split in counts["clean"]:
                changed = counts["clean"][split]["changed"][lang]
                parts += [f"{n} lines had {reason}" for reason, n in changed.items()]
                marks = counts["tokenize"][split][lang]["lines_with_marks"]
                if marks and options["bpe_merges"]:
                    parts.append(f"{marks} lines have @@ or @-@ and may not come back as they are")
            lines.append(f"  {lang}: " + ", ".join(parts))
    merges = counts.get("learn-bpe", {}).get("merges")
    lines.append(
        f"dictionary: {counts['binarise']['dictionary']} symbols"
        + (f", from {merges} BPE merges" if merges else "")
    )
    for test in options["tests"]:
        back = counts["round-trip"][test].get(languages[1])
        if back is None:
            continue
        lines.append(
            f"{test}.{languages[1]} through all steps and back: {back['changed']} of "
            f"{back['lines']} lines differ, BLEU {back['bleu']} ({back['signature']})"
        )
    return "\n".join(lines)
