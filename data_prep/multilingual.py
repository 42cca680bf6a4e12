"""From text in many language pairs to one data-bin with one dictionary.

The steps are normalisation, one SentencePiece BPE model for all languages, learned on a sample in
which small pairs count for more than their size, and ``fairseq-preprocess`` for each pair with the
dictionary of the model. fairseq's task ``translation_multi_simple_epoch`` trains on it in both
directions of every pair, with a token for the target language.

The folder that comes out:

    bin/                     the data-bin of all pairs
    sentencepiece.model      the model; sentencepiece.vocab its units
    text/PAIR/test.LANG      a test set, byte for byte as it was given
    text/sample.LANG         training text of a language
    corpus.json, preprocess.log   as of data_prep.pipeline
"""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import sentencepiece

from data_prep import steps
from data_prep.databin import check_databin
from data_prep.options import Options
from data_prep.parallel import map_lines
from data_prep.pipeline import Text, prepare_folder
from data_prep.stages import run_stage
from data_prep.text import read_lines, replacing, write_lines
from residual_fairseq.errors import UsageError
from residual_fairseq.language_id import MAX_LINES

#: fairseq's name for the pairs that are trained on without being validated or tested.
TRAIN_ONLY = "train_only"


@dataclass(frozen=True)
class Pairs:
    """What decides about a multilingual data-bin besides the text.

    Args:
        pairs: language pairs with all splits, such as ``de-en``.
        train_only: pairs that only have training text.
        zero_shot: pairs that only have a test set.
        vocabulary_size: units of SentencePiece.
        temperature: of the sample that they are learned on: a pair with the share p of all
            training pairs has a share of it in proportion to p ** (1 / temperature).
        sample_lines: the size of that sample at most, both sides counted.
    """

    pairs: tuple[str, ...]
    train_only: tuple[str, ...] = ()
    zero_shot: tuple[str, ...] = ()
    vocabulary_size: int = 64000
    temperature: float = 5.0
    sample_lines: int = 5_000_000

    def __post_init__(self) -> None:
        if not self.pairs:
            raise UsageError("--pairs is empty")
        for pair in self.all:
            if not re.fullmatch("[A-Za-z0-9_]+-[A-Za-z0-9_]+", pair):
                raise UsageError(f"--pairs {pair}: write a pair like de-en")
        if self.temperature < 1:
            raise UsageError(f"--temperature {self.temperature}: has to be 1 or more")

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.pairs, *self.train_only, *self.zero_shot)

    @property
    def trained(self) -> tuple[str, ...]:
        return (*self.pairs, *self.train_only)

    @property
    def languages(self) -> list[str]:
        return sorted({lang for pair in self.all for lang in pair.split("-")})

    def options(self, pair: str) -> Options:
        """The pair as a corpus of its own."""
        only = {TRAIN_ONLY: ("train",), "zero_shot": ("test",)}
        kind = next((kind for kind in only if pair in getattr(self, kind)), None)
        return Options(
            *pair.split("-"), tokenizer="none", bpe_merges=None, only=only[kind] if kind else None
        )

    def as_json(self) -> dict[str, Any]:
        values = {**asdict(self), "tokenizer": "none", "lowercase": False}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def tests_of(pairs: Pairs) -> dict[str, dict[str, str]]:
    """The test sets, a direction each, as ``corpus.json`` has them."""
    tests = {}
    for pair in (*pairs.pairs, *pairs.zero_shot):
        for source, target in (pair.split("-"), pair.split("-")[::-1]):
            direction = f"{source}-{target}"
            name = f"zero-shot {direction}" if pair in pairs.zero_shot else direction
            tests[name] = {
                "subset": "test",
                "source": source,
                "target": target,
                "text": f"text/{pair}/test",
            }
    return tests


def facts_of(pairs: Pairs) -> dict[str, Any]:
    """What ``corpus.json`` says for those who train and test on it."""
    facts: dict[str, Any] = {
        "tests": tests_of(pairs),
        "post_process": "sentencepiece",
        "task": {
            "langs": ",".join(pairs.languages),
            "lang_pairs": ",".join(map(directions, pairs.pairs)),
        },
    }
    if pairs.train_only:
        facts["extra_lang_pairs"] = {TRAIN_ONLY: ",".join(map(directions, pairs.train_only))}
    return facts


def directions(pair: str) -> str:
    """``de-en`` to ``de-en,en-de``."""
    return f"{pair},{'-'.join(pair.split('-')[::-1])}"


def plan_of(pairs: Pairs) -> dict[str, Any]:
    """What is known of ``corpus.json`` before anything is done."""
    return {"options": pairs.as_json(), "inputs": {}, **facts_of(pairs)}


def prepare(text: Text, pairs: Pairs, out: Path, workers: int = 2) -> dict:
    """Make the folder described at the module.

    Args:
        text: ``extract`` or ``folder`` with ``PAIR/{train,valid,test}.LANG``.
        pairs: what to make of it.
        out: the folder, as in ``data_prep.pipeline.prepare_folder``.
        workers: number of processes; the result does not depend on it.

    Returns:
        the content of ``corpus.json``.

    Raises:
        UsageError: unusable text, or ``out`` holds something else.
    """
    if workers < 1:
        raise UsageError(f"--workers {workers}: has to be 1 or more")
    request = {"options": {**pairs.as_json(), **text.options}, "inputs": text.inputs}

    def build(work: Path, result: Path) -> dict:
        counts = {}
        folder = text.folder
        if text.extract:
            folder = work / "extract"
            counts["extract"] = run_stage(work, "extract", text.extract)
        cleaned, units = work / "clean", work / "encode"
        stages = {
            "clean": lambda made: clean(pairs, folder, made),
            "learn-sentencepiece": lambda made: learn(pairs, cleaned, made, result),
            "encode": lambda made: encode(pairs, cleaned, made, result, workers),
            "round-trip": lambda _: compare_round_trip(pairs, folder, cleaned, units, result),
            "binarise": lambda made: binarise(pairs, units, made, result, workers),
        }
        counts |= {name: run_stage(work, name, stage) for name, stage in stages.items()}
        write_samples(pairs, cleaned, result)
        for pair in (*pairs.pairs, *pairs.zero_shot):
            (result / "text" / pair).mkdir(exist_ok=True)
            for lang in pair.split("-"):
                name = f"test.{lang}"
                shutil.copyfile(folder / pair / name, result / "text" / pair / name)
        return counts

    facts = {"benchmark": text.benchmark, "sources": text.sources, **facts_of(pairs)}
    return prepare_folder(request, facts, out, build)


def clean(pairs: Pairs, text: Path, cleaned: Path) -> dict:
    """Normalise the text of all pairs; returns the counts of ``steps.clean`` by pair."""
    counts = {}
    for pair in pairs.all:
        (cleaned / pair).mkdir(exist_ok=True)
        counts[pair] = steps.clean(pairs.options(pair), text / pair, cleaned / pair)
    return counts


def shares(sizes: Mapping[str, int], temperature: float, lines: int) -> dict[str, int]:
    """How many sentence pairs of each language pair go into a sample.

    Args:
        sizes: of the pairs.
        temperature: as of ``Pairs``.
        lines: of the sample at most. A pair that has fewer than its share gives all.
    """
    weights = {pair: size ** (1 / temperature) for pair, size in sizes.items()}
    total = sum(weights.values())
    return {
        pair: min(sizes[pair], max(1, int(lines / 2 * weight / total)))
        for pair, weight in weights.items()
    }


def sample(pairs: Pairs, cleaned: Path, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of the sample, both sides of each pair that is drawn."""
    for pair, share in shares(sizes, pairs.temperature, pairs.sample_lines).items():
        drawn = set(random.Random(pair).sample(range(sizes[pair]), share))
        for lang in pair.split("-"):
            for number, line in enumerate(read_lines(cleaned / pair / f"train.{lang}")):
                if number in drawn:
                    yield line


def learn(pairs: Pairs, cleaned: Path, made: Path, result: Path) -> dict:
    """Learn SentencePiece's BPE on the sample, and write it with fairseq's dictionary.

    Returns:
        the size of the sample by pair, in sentence pairs, and the number of units.

    Raises:
        UsageError: the text is too small for so many units.
    """
    sizes = {
        pair: sum(1 for _ in read_lines(cleaned / pair / f"train.{pair.split('-')[0]}"))
        for pair in pairs.trained
    }
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sample(pairs, cleaned, sizes),
            model_writer=model,
            model_type="bpe",
            vocab_size=pairs.vocabulary_size,
            # Zhang et al. 2020 call their 0.9995 a mistake; the released script has this.
            character_coverage=1.0,
            input_sentence_size=0,
            # Both are written into the model, and must not depend on the machine.
            num_threads=1,
            minloglevel=1,
        )
    except RuntimeError as error:
        message = " ".join(str(error).split())
        raise UsageError(f"--vocabulary-size {pairs.vocabulary_size}: {message}") from None
    with open(made / "model", "wb") as file:
        file.write(model.getvalue())
    shutil.copyfile(made / "model", result / "sentencepiece.model")
    processor = read_model(result)
    units = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    write_lines(result / "sentencepiece.vocab", units)
    # <unk>, <s> and </s> are fairseq's own. It wants a frequency, and does not use it.
    write_lines(result / "dict.txt", (f"{unit} 100" for unit in units[3:]))
    return {
        "sample": shares(sizes, pairs.temperature, pairs.sample_lines),
        "units": len(units),
    }


def write_samples(pairs: Pairs, cleaned: Path, result: Path) -> None:
    """Write text of every language: what tells an output of another language from one of this."""
    for lang in pairs.languages:
        sides = [pair for pair in pairs.trained if lang in pair.split("-")]
        share = -(-MAX_LINES // len(sides)) if sides else 0
        lines = (
            line
            for pair in sides
            for line in islice(read_lines(cleaned / pair / f"train.{lang}"), share)
        )
        write_lines(result / "text" / f"sample.{lang}", lines)


def read_model(result: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(result / "sentencepiece.model"))


def encode_line(processor: sentencepiece.SentencePieceProcessor, line: str) -> str:
    return " ".join(processor.encode(line, out_type=str))


def encode(pairs: Pairs, cleaned: Path, units: Path, result: Path, workers: int) -> dict:
    """Split all text into units; returns the number of lines by pair, split and language."""
    split_line = partial(encode_line, read_model(result))
    counts: dict = {}
    for pair in pairs.all:
        (units / pair).mkdir(exist_ok=True)
        options = pairs.options(pair)
        counts[pair] = {split: {} for split in options.splits}
        for split in options.splits:
            for lang in options.languages:
                lines = map_lines(
                    split_line, read_lines(cleaned / pair / f"{split}.{lang}"), workers
                )
                counts[pair][split][lang] = write_lines(units / pair / f"{split}.{lang}", lines)
    return counts


def compare_round_trip(pairs: Pairs, text: Path, cleaned: Path, units: Path, result: Path) -> dict:
    """Turn the units of the test sets back into text.

    Returns:
        by pair and language the number of lines and of those that are not what they were:
        SentencePiece normalises text by NFKC.
    """
    processor = read_model(result)
    counts: dict = {}
    for pair in (*pairs.pairs, *pairs.zero_shot):
        counts[pair] = {}
        for lang in pair.split("-"):
            name = f"test.{lang}"
            sides = zip(read_lines(units / pair / name), read_lines(cleaned / pair / name))
            same = [processor.decode(line.split()) == before for line, before in sides]
            counts[pair][lang] = {"lines": len(same), "changed": same.count(False)}
    return counts


def binarise(pairs: Pairs, units: Path, made: Path, result: Path, workers: int) -> dict:
    """Run ``fairseq-preprocess`` for every pair, and check what it made.

    Args:
        made: folder for the data-bins of single pairs, before they are put together.

    Returns:
        by pair the counts of ``databin.check_databin``.

    Raises:
        UsageError: fairseq-preprocess failed, or its output is not the text.
    """
    databin = result / "bin"
    shutil.rmtree(databin, ignore_errors=True)
    databin.mkdir()
    counts = {}
    with replacing(result / "preprocess.log") as log:
        for pair in pairs.all:
            options = pairs.options(pair)
            folder = made / pair
            shutil.rmtree(folder, ignore_errors=True)
            command = preprocess_command(
                options, units / pair, folder, result / "dict.txt", workers
            )
            process = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            log.write(process.stdout)
            if process.returncode:
                last = process.stdout.strip().split("\n")[-1]
                raise UsageError(f"fairseq-preprocess failed for {pair}: {last}")
            counts[pair] = check_databin(units / pair, options, folder)
            for path in sorted(folder.iterdir()):
                if path.name != "preprocess.log":
                    shutil.move(str(path), databin / path.name)
    return counts


def preprocess_command(
    options: Options, units: Path, folder: Path, dictionary: Path, workers: int
) -> list[str]:
    """The command that makes the data-bin of one pair with a given dictionary."""
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["--source-lang", options.source, "--target-lang", options.target]
    command += ["--srcdict", str(dictionary), "--tgtdict", str(dictionary)]
    for split in options.splits:
        command += [f"--{split}pref", str(units / split)]
    return [*command, "--destdir", str(folder), "--workers", str(workers)]


def describe(record: Mapping[str, Any]) -> str:
    """Say in a few lines what ``prepare`` made."""
    counts = record["counts"]
    lines = []
    for pair, splits in counts["clean"].items():
        sizes = ", ".join(f"{split} {facts['pairs']}" for split, facts in splits.items())
        unknown = {
            lang: max(
                (facts[lang]["unk_rate"] for facts in splits_of(counts["binarise"][pair])),
                default=0.0,
            )
            for lang in pair.split("-")
        }
        rates = ", ".join(f"{lang} {100 * rate:.3f} %" for lang, rate in unknown.items())
        dropped = sum(splits.get("train", {}).get("dropped", {}).values())
        gone = f", {dropped} empty ones dropped" if dropped else ""
        lines.append(f"{pair}: {sizes}{gone}; <unk> at most: {rates}")
    units = counts["learn-sentencepiece"]["units"]
    lines.append(f"one dictionary of {units} units for {record['task']['langs']}")
    return "\n".join(lines)


def splits_of(counts: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The counts of the splits, without those of the dictionaries."""
    return [counts[split] for split in ("train", "valid", "test") if split in counts]
