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
import os
import platform
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

from sacrebleu.metrics import BLEU
from subword_nmt.learn_bpe import get_vocabulary

from data_prep.bpe import apply_codes, learn_codes, read_codes, remove_codes, write_vocabulary
from data_prep.databin import binarise
from data_prep.stages import check_reusable, is_empty_folder, open_work_folder, run_stage
from data_prep.text import (
    SPLITS,
    check_parallel,
    drop_empty,
    normalise_pairs,
    read_lines,
    sha256,
    write_lines,
    write_pairs,
)
from data_prep.tokens import TOKENIZERS, detokenize, tokenize
from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_json, write_json


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
    if out.exists() and not is_empty_folder(out):
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
