"""The benchmarks: how each is prepared, trained and scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from residual_fairseq.connections import REGISTRY
from residual_fairseq.errors import UsageError
from residual_fairseq.recipe import read_recipe
from scripts.trainings import Training, unigram_bits

#: What recipes leave open, since the corpus says it.
LEFT_OPEN = {"task.data": "", "task.langs": "", "task.lang_pairs": ""}

CONFIGS = Path(__file__).resolve().parent.parent / "configs"


@dataclass(frozen=True)
class Benchmark:
    """What tells one benchmark from another.

    Args:
        name: of its scripts, folders and results.
        title: what a person calls it.
        preparation: module that prepares it.
        decoding: values of the recipe's ``generation`` for single test sets.
        compound_split: older papers score it with compounds split.
        others: corpora of other names that its recipe is for, too.
        config: name of its recipe, if that is not the benchmark's.
        multilingual: its recipe is for many pairs of languages.
    """

    name: str
    title: str
    preparation: str
    decoding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compound_split: bool = False
    others: tuple[str, ...] = ()
    config: str = ""
    multilingual: bool = False

    @property
    def recipe(self) -> Path:
        return CONFIGS / f"{self.config or self.name}.yaml"

    def values(self, overrides: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """The recipe, with what it leaves open for a corpus empty.

        Args:
            overrides: values by dotted key.
        """
        return read_recipe(self.recipe, {**LEFT_OPEN, **(overrides or {})})

    @property
    def layers(self) -> tuple[int, int]:
        """The depth of the recipe: of the encoder and of the decoder."""
        model = self.values()["model"]
        return model["encoder"]["layers"], model["decoder"]["layers"]

    def training(
        self,
        connection: str,
        layers: tuple[int, int],
        folder: Path,
        corpus: Path,
        record: Mapping[str, Any],
        overrides: Mapping[str, Any],
        comet: Path | None = None,
    ) -> Training:
        """One training of this benchmark.

        Args:
            record: corpus.json of the corpus; others as of ``Training``.

        Raises:
            UsageError: the corpus is of another benchmark, or of another kind than the recipe, or
                there is no such connection.
        """
        name = record.get("benchmark") or self.name
        self.check_corpus(name, corpus, record)
        if connection not in REGISTRY:
            raise UsageError(f"no connection {connection}: known are {' '.join(sorted(REGISTRY))}")
        options = record["options"]
        direction = f"{options['source']}-{options['target']}" if "source" in options else ""
        training = Training(
            connection=connection,
            encoder_layers=layers[0],
            decoder_layers=layers[1],
            folder=folder,
            corpus=corpus,
            corpus_record=record,
            recipe=self.recipe,
            overrides=overrides,
            benchmark=f"{name} {direction}".rstrip(),
            decoding=self.decoding,
            compound_split=self.compound_split,
            numbered=True,
            comet=comet,
            unigram_bits=unigram_bits(record),
        )
        if training.values_of("model").get("share_all_embeddings") and not options.get(
            "joined_dictionary", True
        ):
            raise UsageError(
                f"{corpus} has a dictionary for each language, and {self.recipe.name} one "
                "embedding for both: add --set model.share_all_embeddings=false"
            )
        return training

    def check_corpus(self, name: str, corpus: Path, record: Mapping[str, Any]) -> None:
        """Check that the recipe is for a corpus.

        Args:
            name: of what the corpus was prepared for.
            corpus, record: as of ``training``.

        Raises:
            UsageError: it is not.
        """
        if name not in (self.name, *self.others):
            raise UsageError(f"--corpus {corpus}: prepared for {name}, not for {self.name}")
        multilingual = "task" in record
        if multilingual != self.multilingual:
            fitting = [
                other.name
                for other in BENCHMARKS.values()
                if name in (other.name, *other.others) and other.multilingual == multilingual
            ]
            raise UsageError(
                f"--corpus {corpus}: of {'many pairs' if multilingual else 'one pair'} of "
                f"languages, which the recipe of {self.name} is not for; take that of "
                f"{' or '.join(fitting) or 'another benchmark'}"
            )


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("multi30k", "Multi30k", "data_prep.multi30k"),
        Benchmark("home_assistant", "Home Assistant", "data_prep.home_assistant"),
        Benchmark("iwslt14", "IWSLT'14", "data_prep.iwslt14"),
        Benchmark(
            "wmt_en_de",
            "WMT En-De",
            "data_prep.wmt_en_de",
            # README of the reference code of Takase et al. 2022, arXiv 2206.00330.
            decoding={"newstest2014": {"lenpen": 0.6}},
            compound_split=True,
            others=("wmt14_en_de",),
        ),
        Benchmark(
            "opus100",
            "OPUS-100",
            "data_prep.opus100",
            others=("embedded",),
            multilingual=True,
        ),
        Benchmark("embedded", "Embedded corpus", "data_prep.embedded_corpus", config="quickstart"),
    )
}
