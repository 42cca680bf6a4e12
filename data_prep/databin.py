"""From units to a data-bin, by ``fairseq-preprocess``, and a check of what it made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, indexed_dataset

from data_prep.options import Options
from data_prep.text import read_lines
from residual_fairseq.divergence import unigram_bits
from residual_fairseq.errors import UsageError

#: Sentences that are counted at once.
CHUNK = 10_000


def binarise(text: Path, options: Options, databin: Path, log: Path, workers: int = 1) -> dict:
    """Run ``fairseq-preprocess``, and check what it made.

    Args:
        text: folder of the BPE text, ``SPLIT.LANG``.
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
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", options.source, "--target-lang", options.target]
    command += ["--trainpref", str(text / "train"), "--validpref", str(text / "valid")]
    command += ["--testpref", ",".join(str(text / test) for test in options.tests)]
    command += ["--destdir", str(databin), "--workers", str(workers)]
    if options.joined_dictionary:
        command.append("--joined-dictionary")
    if options.dictionary_size:
        size = str(options.dictionary_size)
        command += ["--nwordssrc", size, "--nwordstgt", size]
    with open(log, "wb") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    if status:
        raise UsageError(f"fairseq-preprocess failed with exit status {status}: see {log}")
    # fairseq's own log repeats ours, and has no place in a folder that is to be reproducible.
    (databin / "preprocess.log").unlink(missing_ok=True)
    return check_databin(text, options, databin)


def check_databin(text: Path, options: Options, databin: Path) -> dict:
    """Check that every line of the text is in the data-bin, with all of its units.

    Args:
        text: folder of the text that was binarised.

    Returns:
        the size of the dictionary, of each language and (the target's) as "dictionary"; for each
        split and language the number of sentences and units (without end-of-sentence symbols),
        how many of the units are ``<unk>``, and what BPE joined they come to as "tokens", an
        ``<unk>`` being one by itself, as fairseq-generate counts a reference; of train also the
        entropy of the units and ends of sentences in bits, the loss of a model that has learned
        their frequencies and nothing else.

    Raises:
        UsageError: a count differs, or a word of the text has become a special symbol.
    """
    dictionaries = {
        lang: Dictionary.load(str(databin / f"dict.{lang}.txt")) for lang in options.languages
    }
    continued = {
        lang: np.array([unit.endswith("@@") for unit in dictionary.symbols])
        for lang, dictionary in dictionaries.items()
    }
    sizes = {lang: len(dictionary) for lang, dictionary in dictionaries.items()}
    result: dict = {"dictionary": sizes[options.target], "dictionaries": sizes}
    for split in options.splits:
        result[split] = {}
        for lang in options.languages:
            dictionary = dictionaries[lang]
            subset = options.subsets.get(split, split)
            prefix = databin / f"{subset}.{options.source}-{options.target}.{lang}"
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
            frequencies = np.zeros(len(dictionary), dtype=np.int64)
            for first in range(0, len(dataset), CHUNK):
                block = range(first, min(first + CHUNK, len(dataset)))
                units = np.concatenate([dataset[i].numpy() for i in block])
                found = np.bincount(units, minlength=len(dictionary))
                special = found[: dictionary.nspecial].sum() - found[dictionary.unk()]
                if special > len(block):
                    raise UsageError(
                        f"{file}, line {line_with_symbol(file, dictionary)}: the text has <s>, "
                        "</s> or <pad> as a word, which fairseq takes for its own symbol: take it "
                        "out, or use --tokenizer moses"
                    )
                frequencies += found
            units = sum(expected) - len(expected)
            unk = int(frequencies[dictionary.unk()])
            result[split][lang] = {
                "sentences": len(expected),
                "units": units,
                "tokens": units - int(frequencies[continued[lang]].sum()),
                "unk": unk,
                "unk_rate": unk / units if units else 0.0,
            }
            if split == "train":
                result[split][lang]["unigram_bits"] = round(unigram_bits(frequencies), 4)
    return result


def line_with_symbol(text: Path, dictionary: Dictionary) -> int:
    """The number of the first line that has one of fairseq's own symbols as a word."""
    symbols = {dictionary.bos_word, dictionary.eos_word, dictionary.pad_word}
    return next(i for i, line in enumerate(read_lines(text), 1) if symbols & set(line.split()))
