"""From a folder of plain parallel text to a data-bin for fairseq.

    python -m data_prep.bilingual --text FOLDER --source en --target de --out FOLDER

The steps are normalisation (``data_prep.text``), Moses tokenisation, joint BPE with a vocabulary
filter for each language, and ``fairseq-preprocess`` with a joined dictionary. Tokens are those of
fairseq's own ``moses`` tokenizer and codes are subword-nmt's, so a model trained on the data-bin
translates raw text with ``from_pretrained(..., tokenizer="moses", bpe="subword_nmt",
bpe_codes=OUT/codes, source_lang=..., target_lang=...)``. Without the two languages fairseq takes
English for both; after ``--tokenizer none`` leave the tokenizer out.

The folder that comes out:

    bin/            the data-bin
    codes           BPE codes, learned on both languages
    vocab.LANG      BPE units of a language, with their frequency in the training text
    text/test.LANG  the test set, byte for byte as it was given: what sacreBLEU compares with
    corpus.json     options, counts at every step, versions, SHA-256 of what came in and went out
    preprocess.log  what fairseq-preprocess said
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import get_vocabulary, learn_bpe

from data_prep.text import (
    check_parallel,
    drop_empty,
    normalise_pairs,
    read_lines,
    replacing,
    sha256,
    write_lines,
    write_pairs,
)
from residual_fairseq.errors import UsageError

SPLITS = ("train", "valid", "test")
TOKENIZERS = ("moses", "none")


# Each worker process keeps its function here: a BPE model is too large to send with every batch.
_function: Callable[[str], str]


def _set_function(function: Callable[[str], str]) -> None:
    global _function
    _function = function


def _call_function(line: str) -> str:
    return _function(line)


def _map_lines(function: Callable[[str], str], lines: Iterable[str], workers: int) -> Iterator[str]:
    """``map`` over several processes: in order, with a bounded number of lines in memory."""
    if workers == 1:
        yield from map(function, lines)
        return
    lines = iter(lines)
    with Pool(workers, _set_function, (function,)) as pool:
        while batch := list(islice(lines, 10_000 * workers)):
            yield from pool.map(_call_function, batch, chunksize=1_000)


def tokenize(
    lines: Iterable[str], lang: str, tokenizer: str = "moses", workers: int = 1
) -> Iterator[str]:
    """Split lines into tokens, separated by single spaces.

    Moses tokens are exactly those of fairseq's ``moses`` tokenizer with its defaults: aggressive
    dash splits ("a-b" becomes "a @-@ b") and escaped XML characters.

    Args:
        lines: normalised text.
        lang: language code; one that Moses has no rules for is split by the general ones.
        tokenizer: "moses", or "none" to take what stands between spaces for tokens.
        workers: number of processes.
    """
    if tokenizer == "none":
        return iter(lines)
    split = partial(
        MosesTokenizer(lang).tokenize, aggressive_dash_splits=True, return_str=True, escape=True
    )
    return _map_lines(split, lines, workers)


def _detokenize_line(detokenizer: MosesDetokenizer, line: str) -> str:
    return detokenizer.detokenize(line.split())


def detokenize(
    lines: Iterable[str], lang: str, tokenizer: str = "moses", workers: int = 1
) -> Iterator[str]:
    """Join tokens to text; with "moses" exactly as fairseq's ``moses`` tokenizer does.

    Moses tokens do not say where the text had spaces, so this undoes ``tokenize`` only where the
    rules of Moses say so: "1/2" comes back as "1 / 2", "3 € und" as "3 €und".

    Args:
        lines: tokens separated by spaces, without BPE.
        lang: language code.
        tokenizer: that of ``tokenize``.
        workers: number of processes.
    """
    if tokenizer == "none":
        return iter(lines)
    return _map_lines(partial(_detokenize_line, MosesDetokenizer(lang)), lines, workers)


def learn_codes(words: Counter[str], codes: Path, merges: int) -> int:
    """Learn BPE and write its codes in subword-nmt's format.

    Args:
        words: tokens and their frequency, over all languages that share the codes.
        codes: the file to write.
        merges: number of merge operations.

    Returns:
        the number learned: fewer than asked for if no pair is left that occurs twice.

    Raises:
        UsageError: not even one pair of characters occurs twice.
    """
    learned = 0
    if any(len(word) > 1 for word in words):
        with replacing(codes) as file:
            learn_bpe([f"{word} {n}" for word, n in words.items()], file, merges, is_dict=True)
        learned = sum(1 for _ in read_lines(codes)) - 1
    if not learned:
        raise UsageError(
            "the training text is too small to learn BPE: no two characters in it occur together "
            "twice"
        )
    return learned


def read_codes(codes: Path, vocabulary: Path | None = None, threshold: int = 1) -> BPE:
    """Load BPE codes, and the vocabulary that filters them.

    Args:
        codes: file of ``learn_codes``.
        vocabulary: file of ``write_vocabulary`` for the language of the text. Units outside of it
            are split again, so that a language is never given units that only the other one has.
        threshold: count a unit in only with this frequency or more.

    Raises:
        UsageError: no unit is frequent enough.
    """
    units = None
    if vocabulary is not None:
        units = read_vocabulary(read_lines(vocabulary), threshold)
        if not units:
            raise UsageError(
                f"--vocabulary-threshold {threshold}: no unit in {vocabulary} is that frequent; "
                "lower it"
            )
    with open(codes, encoding="utf-8", newline="\n") as file:
        return BPE(file, vocab=units)


def apply_codes(lines: Iterable[str], bpe: BPE, workers: int = 1) -> Iterator[str]:
    """Split tokens into BPE units; all but the last unit of a token end in "@@"."""
    return _map_lines(bpe.process_line, lines, workers)


def remove_codes(lines: Iterable[str]) -> Iterator[str]:
    """Join BPE units to tokens, as fairseq's ``--post-process subword_nmt`` does."""
    for line in lines:
        yield f"{line} ".replace("@@ ", "").rstrip(" ")


def write_vocabulary(words: Counter[str], bpe: BPE, vocabulary: Path) -> int:
    """Write the BPE units of a text and their frequency, in subword-nmt's format.

    Args:
        words: tokens of one language, and their frequency.
        bpe: codes, read without a vocabulary.
        vocabulary: the file to write: the most frequent unit first, ties in order of code points.

    Returns:
        the number of units.
    """
    units: Counter[str] = Counter()
    for word, frequency in words.items():
        for unit in bpe.segment_tokens([word]):
            units[unit] += frequency
    ordered = sorted(units.items(), key=lambda item: (-item[1], item[0]))
    return write_lines(vocabulary, (f"{unit} {frequency}" for unit, frequency in ordered))


def binarise(
    text: Path, source: str, target: str, databin: Path, log: Path, workers: int = 1
) -> dict:
    """Run ``fairseq-preprocess`` with a joined dictionary, and check what it made.

    Args:
        text: folder of the BPE text, ``{train,valid,test}.LANG``.
        databin: the folder to write; what an interrupted run has left there is removed.
        log: file for the output of fairseq-preprocess.
        workers: number of processes; the data-bin does not depend on it.

    Returns:
        the counts of ``check_databin``.

    Raises:
        UsageError: fairseq-preprocess failed, or its output is not the text.
    """
    if databin.exists():
        shutil.rmtree(databin)
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary"]
    command += ["--source-lang", source, "--target-lang", target]
    for split in SPLITS:
        command += [f"--{split}pref", str(text / split)]
    command += ["--destdir", str(databin), "--workers", str(workers)]
    with open(log, "wb") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    if status:
        raise UsageError(f"fairseq-preprocess failed with exit status {status}: see {log}")
    # fairseq's own log repeats ours, and has no place in a folder that is to be reproducible.
    (databin / "preprocess.log").unlink(missing_ok=True)
    return check_databin(text, source, target, databin)


def check_databin(text: Path, source: str, target: str, databin: Path) -> dict:
    """Check that every line of the text is in the data-bin, with all of its units.

    Args:
        text: folder of the text that was binarised.

    Returns:
        the size of the dictionary and, for each split and language, the number of sentences and
        units (without end-of-sentence symbols), and how many of the units are ``<unk>``.

    Raises:
        UsageError: a count differs, or a word of the text has become a special symbol.
    """
    from fairseq.data import Dictionary, indexed_dataset

    dictionary = Dictionary.load(str(databin / f"dict.{source}.txt"))
    result: dict = {"dictionary": len(dictionary)}
    for split in SPLITS:
        result[split] = {}
        for lang in (source, target):
            prefix = databin / f"{split}.{source}-{target}.{lang}"
            dataset = indexed_dataset.make_dataset(str(prefix), impl="mmap")
            if dataset is None:
                raise UsageError(f"{prefix}.idx: fairseq-preprocess did not write it")
            file = text / f"{split}.{lang}"
            expected = [len(line.split()) + 1 for line in read_lines(file)]
            if len(dataset) != len(expected):
                raise UsageError(
                    f"{prefix}.idx has {len(dataset)} sentences where {file} has "
                    f"{len(expected)} lines: fairseq-preprocess split the text otherwise"
                )
            differing = np.flatnonzero(np.asarray(dataset.sizes) != np.asarray(expected))
            if differing.size:
                raise UsageError(
                    f"{prefix}.idx, sentence {differing[0] + 1}: "
                    f"{dataset.sizes[differing[0]]} units where {file} has "
                    f"{expected[differing[0]]}, with the end of sentence"
                )
            units = sum(expected) - len(expected)
            unk = 0
            for i in range(len(dataset)):
                unknown = int((dataset[i] == dictionary.unk()).sum())
                unk += unknown
                if int((dataset[i] < dictionary.nspecial).sum()) - unknown > 1:
                    raise UsageError(
                        f"{file}, line {i + 1}: the text has <s>, </s> or <pad> as a word, which "
                        "fairseq takes for its own symbol: take it out, or use --tokenizer moses"
                    )
            result[split][lang] = {
                "sentences": len(expected),
                "units": units,
                "unk": unk,
                "unk_rate": unk / units if units else 0.0,
            }
    return result


def clean_splits(text: Path, clean: Path, source: str, target: str) -> dict:
    """Normalise all splits and drop the training pairs that have an empty side.

    Args:
        text: folder of the given text, ``{train,valid,test}.LANG``.
        clean: existing folder for what becomes of it, under the same names.

    Returns:
        for each split the number of pairs, of dropped pairs by reason, and of changed lines by
        language and reason.

    Raises:
        UsageError: no training pair is left.
    """
    counts = {}
    for split in SPLITS:
        names = f"{split}.{source}", f"{split}.{target}"
        changed: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        dropped: Counter[str] = Counter()
        pairs = normalise_pairs(*(read_lines(text / name) for name in names), changed)
        if split == "train":
            pairs = drop_empty(pairs, dropped)
        kept = write_pairs(*(clean / name for name in names), pairs)
        if not kept:
            raise UsageError(f"{text / names[0]}: no pair of the training text has two sides")
        counts[split] = {
            "pairs": kept,
            "dropped": dict(sorted(dropped.items())),
            "changed": {
                lang: dict(sorted(reasons.items()))
                for lang, reasons in zip((source, target), changed)
            },
        }
    return counts


def tokenize_splits(
    clean: Path, tokens: Path, languages: Iterable[str], tokenizer: str, workers: int
) -> dict:
    """Tokenise all splits.

    Returns:
        for each split and language the number of lines, of tokens, and of lines that contain "@@"
        or "@-@". Moses separates these signs ("a@@ b" becomes "a @ @ b"), so they cannot be taken
        for the marks of BPE and of dash splits, but do not come back as they were either. Without
        it a word that ends in "@@" can come back joined to the next.
    """
    counts: dict = {split: {} for split in SPLITS}
    for split in SPLITS:
        for lang in languages:
            given, written = clean / f"{split}.{lang}", tokens / f"{split}.{lang}"
            lines = write_lines(written, tokenize(read_lines(given), lang, tokenizer, workers))
            counts[split][lang] = {
                "lines": lines,
                "tokens": sum(len(line.split()) for line in read_lines(written)),
                "lines_with_marks": sum(
                    "@@" in line or "@-@" in line for line in read_lines(given)
                ),
            }
    return counts


def learn_joint_codes(tokens: Path, result: Path, source: str, target: str, merges: int) -> dict:
    """Learn BPE on both sides of the training text together.

    Args:
        tokens: folder of the tokenised splits.
        result: folder for ``codes`` and ``vocab.LANG``.

    Returns:
        the number of merge operations, and of units for each language.
    """
    words = {
        lang: get_vocabulary(read_lines(tokens / f"train.{lang}")) for lang in (source, target)
    }
    learned = learn_codes(words[source] + words[target], result / "codes", merges)
    bpe = read_codes(result / "codes")
    units = {
        lang: write_vocabulary(words[lang], bpe, result / f"vocab.{lang}")
        for lang in (source, target)
    }
    return {"merges": learned, "units": units}


def apply_codes_to_splits(
    tokens: Path, units: Path, result: Path, languages: Iterable[str], threshold: int, workers: int
) -> dict:
    """Split the tokens of all splits into BPE units, each language with its own vocabulary.

    Args:
        tokens: folder of the tokenised splits.
        units: existing folder for what becomes of them.
        result: folder of ``codes`` and ``vocab.LANG``.

    Returns:
        for each split and language the number of lines and of units.
    """
    counts: dict = {split: {} for split in SPLITS}
    for lang in languages:
        bpe = read_codes(result / "codes", result / f"vocab.{lang}", threshold)
        for split in SPLITS:
            written = units / f"{split}.{lang}"
            lines = apply_codes(read_lines(tokens / written.name), bpe, workers)
            counts[split][lang] = {
                "lines": write_lines(written, lines),
                "units": sum(len(line.split()) for line in read_lines(written)),
            }
    return counts


def compare_round_trip(
    text: Path, clean: Path, units: Path, languages: Iterable[str], tokenizer: str, workers: int
) -> dict:
    """Turn the units of valid and test back into text, as is done with a translation.

    Returns:
        for each split and language the number of lines, how many of them are not what they were
        before tokenisation, and the BLEU of all against the given text: what a model would reach
        that translates everything right.
    """
    counts: dict = {split: {} for split in ("valid", "test")}
    for split in counts:
        for lang in languages:
            name = f"{split}.{lang}"
            joined = remove_codes(read_lines(units / name))
            back = list(detokenize(joined, lang, tokenizer, workers))
            bleu = BLEU()
            score = bleu.corpus_score(back, [list(read_lines(text / name))])
            counts[split][lang] = {
                "lines": len(back),
                "changed": sum(a != b for a, b in zip(back, read_lines(clean / name))),
                "bleu": round(score.score, 2),
                "signature": str(bleu.get_signature()),
            }
    return counts


def tool_versions() -> dict[str, str]:
    """The versions of everything that the outcome depends on."""
    import fairseq

    packages = {name: version(name) for name in ("subword-nmt", "sacremoses", "sacrebleu")}
    return {
        "python": platform.python_version(),
        "fairseq": fairseq.__version__,
        **packages,
    }


def write_json(path: Path, content: dict) -> None:
    """Write a JSON file, keys in the order given."""
    write_lines(path, [json.dumps(content, indent=2, ensure_ascii=False)])


def read_json(path: Path) -> dict | None:
    """Read a JSON file; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise UsageError(f"{path}: not a JSON file; delete its folder and run again") from None


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def check_reusable(out: Path, record: dict, request: dict) -> None:
    """Check that a finished folder is what is asked for, and whole.

    Args:
        out: the folder.
        record: its ``corpus.json``.
        request: options and inputs, as they would be in ``corpus.json``.

    Raises:
        UsageError: options, inputs or outputs differ.
    """
    advice = f"choose another --out or delete {out}"
    for name, value in request["options"].items():
        made_with = record.get("options", {}).get(name)
        if made_with != value:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} {value}: {out} was made with {made_with}; {advice}")
    for name, facts in request["inputs"].items():
        if record["inputs"].get(name) != facts:
            raise UsageError(f"{name} is not the file that {out} was made from; {advice}")
    for name, digest in record["outputs"].items():
        if not (out / name).is_file() or sha256(out / name) != digest:
            raise UsageError(f"{out / name} is missing or was changed; delete {out} and run again")


def open_work_folder(work: Path, request: dict) -> None:
    """Make the folder of a run, or take up that of an interrupted one that was to do the same.

    Args:
        request: options, inputs and versions of the run.

    Raises:
        UsageError: the folder is none that an interrupted run has left.
    """
    earlier = read_json(work / "request.json")
    if earlier is None and work.exists() and not _is_empty_folder(work):
        raise UsageError(f"{work}: needed for this run, but is not from an earlier one; move it")
    if earlier not in (None, request):
        shutil.rmtree(work)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / "request.json", request)


def run_stage(work: Path, name: str, build: Callable[[Path], dict]) -> dict:
    """Do one stage of a run, unless an interrupted run has done it.

    Args:
        work: folder of the run.
        name: of the stage, and of its folder in ``work``.
        build: is given the folder of the stage and returns its counts.

    Returns:
        the counts.
    """
    counts = read_json(work / f"{name}.json")
    if counts is None:
        (work / name).mkdir(exist_ok=True)
        counts = build(work / name)
        write_json(work / f"{name}.json", counts)
        print(f"{name}: done", flush=True)
    else:
        print(f"{name}: reused", flush=True)
    return counts


def prepare(
    text: Path,
    source: str,
    target: str,
    out: Path,
    bpe_merges: int = 8000,
    vocabulary_threshold: int = 1,
    tokenizer: str = "moses",
    workers: int = 2,
) -> dict:
    """Prepare a bilingual corpus; the steps and the folder are described at the module.

    Nothing appears at ``out`` before everything is done. Until then the files are in a folder
    beside it, ``OUT.partial``, where a run that was interrupted goes on.

    Args:
        text: folder of ``{train,valid,test}.{source,target}``.
        source, target: language codes, as in the file names.
        out: the folder to make. If it is there and was made from the same text with the same
            options it is left as it is.
        bpe_merges: number of BPE merge operations.
        vocabulary_threshold: BPE units that are rarer in the training text of their language are
            split again. fairseq's ``subword_nmt`` does not do so: with 1 it differs in words with
            units never seen in that language, with more it meets units that the dictionary lacks.
        tokenizer: "moses", or "none" for text that is tokenised already, or that has to come back
            exactly as it was.
        workers: number of processes; the result does not depend on it.

    Returns:
        the content of ``corpus.json``.

    Raises:
        UsageError: unusable text or options, or ``out`` holds something else.
    """
    for flag, lang in (("source", source), ("target", target)):
        if not re.fullmatch("[A-Za-z0-9_]+", lang):
            raise UsageError(
                f"--{flag} {lang}: fairseq needs a language code of letters, digits and _"
            )
    if tokenizer not in TOKENIZERS:
        raise UsageError(f"--tokenizer {tokenizer}: has to be {' or '.join(TOKENIZERS)}")
    if source == target:
        raise UsageError(f"--target {target}: has to differ from --source")
    for flag, number in (
        ("bpe-merges", bpe_merges),
        ("vocabulary-threshold", vocabulary_threshold),
        ("workers", workers),
    ):
        if number < 1:
            raise UsageError(f"--{flag} {number}: has to be 1 or more")

    languages = source, target
    request: dict = {
        "options": {
            "source": source,
            "target": target,
            "bpe_merges": bpe_merges,
            "vocabulary_threshold": vocabulary_threshold,
            "tokenizer": tokenizer,
        },
        "inputs": {},
    }
    for split in SPLITS:
        names = [f"{split}.{lang}" for lang in languages]
        for name, facts in zip(names, check_parallel(*(text / name for name in names))):
            request["inputs"][name] = facts._asdict()

    out = Path(os.path.abspath(out))
    if out.exists() and not _is_empty_folder(out):
        record = read_json(out / "corpus.json")
        if record is None:
            raise UsageError(f"--out {out}: exists and is not an earlier output; choose another")
        check_reusable(out, record, request)
        print(f"{out}: reused", flush=True)
        return record

    request["versions"] = tool_versions()
    work = out.with_name(f"{out.name}.partial")
    open_work_folder(work, request)
    result = work / "result"
    (result / "text").mkdir(parents=True, exist_ok=True)
    clean, tokens, units = (work / name for name in ("clean", "tokenize", "apply-bpe"))
    stages: dict[str, Callable[[Path], dict]] = {
        "clean": lambda folder: clean_splits(text, folder, source, target),
        "tokenize": lambda folder: tokenize_splits(clean, folder, languages, tokenizer, workers),
        "learn-bpe": lambda _: learn_joint_codes(tokens, result, source, target, bpe_merges),
        "apply-bpe": lambda folder: apply_codes_to_splits(
            tokens, folder, result, languages, vocabulary_threshold, workers
        ),
        "round-trip": lambda _: compare_round_trip(
            text, clean, units, languages, tokenizer, workers
        ),
        "binarise": lambda _: binarise(
            units, source, target, result / "bin", result / "preprocess.log", workers
        ),
    }
    counts = {name: run_stage(work, name, build) for name, build in stages.items()}
    for lang in languages:
        shutil.copyfile(text / f"test.{lang}", result / "text" / f"test.{lang}")
    files = sorted(path for path in result.rglob("*") if path.is_file())
    outputs = {
        path.relative_to(result).as_posix(): sha256(path)
        for path in files
        if path.name not in ("corpus.json", "preprocess.log")
    }
    record = {**request, "counts": counts, "outputs": outputs}
    write_json(result / "corpus.json", record)
    os.replace(result, out)
    shutil.rmtree(work)
    return record


def describe(record: dict) -> str:
    """Say in a few lines what ``prepare`` made.

    Args:
        record: its result.
    """
    languages = record["options"]["source"], record["options"]["target"]
    counts = record["counts"]
    lines = []
    for split in SPLITS:
        clean = counts["clean"][split]
        dropped = [f", {n} dropped ({reason})" for reason, n in clean["dropped"].items()]
        lines.append(f"{split}: {clean['pairs']} pairs" + "".join(dropped))
        for lang in languages:
            units = counts["binarise"][split][lang]
            parts = [f"{units['units']} units", f"{units['unk']} <unk>"]
            parts += [f"{n} lines had {reason}" for reason, n in clean["changed"][lang].items()]
            marks = counts["tokenize"][split][lang]["lines_with_marks"]
            if marks:
                parts.append(f"{marks} lines have @@ or @-@ and may not come back as they are")
            lines.append(f"  {lang}: " + ", ".join(parts))
    lines.append(
        f"dictionary: {counts['binarise']['dictionary']} symbols, "
        f"from {counts['learn-bpe']['merges']} BPE merges"
    )
    back = counts["round-trip"]["test"][languages[1]]
    lines.append(
        f"test.{languages[1]} through all steps and back: {back['changed']} of {back['lines']} "
        f"lines differ, BLEU {back['bleu']} ({back['signature']})"
    )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.bilingual",
        description="Make a fairseq data-bin of a folder of plain parallel text.",
    )
    parser.add_argument(
        "--text",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of {train,valid,test}.LANG: UTF-8, one sentence a line",
    )
    parser.add_argument("--source", required=True, metavar="LANG", help="source language, e.g. en")
    parser.add_argument("--target", required=True, metavar="LANG", help="target language, e.g. de")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to make: data-bin, BPE codes, test text and corpus.json",
    )
    parser.add_argument(
        "--bpe-merges",
        type=int,
        default=8000,
        metavar="N",
        help="BPE merge operations, both languages together (default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary-threshold",
        type=int,
        default=1,
        metavar="N",
        help="split BPE units again that the training text of their language has less than N "
        "times; with more than 1, fairseq's bpe 'subword_nmt' no longer gives the same units "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--tokenizer",
        choices=TOKENIZERS,
        default="moses",
        help="'none' if the text is tokenised, or has to come back exactly (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="processes (default: %(default)s)"
    )
    print(describe(prepare(**vars(parser.parse_args(arguments)))))


if __name__ == "__main__":
    main()
