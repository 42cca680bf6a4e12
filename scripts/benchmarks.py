"""The benchmarks: how each is prepared, trained and scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    """

    name: str
    title: str
    preparation: str
    decoding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compound_split: bool = False

    @property
    def recipe(self) -> Path:
        return CONFIGS / f"{self.name}.yaml"


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
        ),
        Benchmark("opus100", "OPUS-100", "data_prep.opus100"),
    )
}
