"""Batches of a data-bin, and what a model that knows only frequencies would lose on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..divergence import unigram_bits
from ..errors import UsageError


class DataBin:
    """A data-bin of one pair of languages, as ``fairseq-preprocess`` makes it.

    Args:
        path: of the folder.

    Attributes:
        task: fairseq's task, with both dictionaries.

    Raises:
        UsageError: it is no such folder.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise UsageError(
                f"{path}: no such folder; give a data-bin of fairseq-preprocess, or make the "
                "quickstart's: bash scripts/quickstart.sh"
            )
        source, target = infer_language_pair(str(path))
        if source is None:
            raise UsageError(f"{path}: no data-bin of two languages (SPLIT.SOURCE-TARGET.LANG.idx)")
        for lang in (source, target):
            if not (self.path / f"dict.{lang}.txt").exists():
                raise UsageError(f"{path}: has no dict.{lang}.txt")
        config = TranslationConfig(
            data=str(path),
            source_lang=source,
            target_lang=target,
            # Otherwise taken from other parts of a configuration.
            train_subset="train",
            dataset_impl=None,
            required_seq_len_multiple=1,
        )
        self.task = TranslationTask.setup_task(config)

    @property
    def joined(self) -> bool:
        """Whether both languages have one dictionary."""
        return self.task.source_dictionary == self.task.target_dictionary

    def split(self, name: str) -> Any:
        """The pairs of a split.

        Raises:
            UsageError: there is none, or it is empty.
        """
        if name not in self.task.datasets:
            source, target = self.task.cfg.source_lang, self.task.cfg.target_lang
            file = self.path / f"{name}.{source}-{target}.{target}.bin"
            # fairseq cannot open a file of nothing.
            if file.exists() and not file.stat().st_size:
                raise UsageError(f"{self.path}: its split {name} is empty")
            try:
                self.task.load_dataset(name)
            except FileNotFoundError:
                raise UsageError(f"{self.path}: has no split {name}") from None
        if not len(self.task.datasets[name]):
            raise UsageError(f"{self.path}: its split {name} is empty")
        return self.task.datasets[name]

    def batches(self, split: str, max_tokens: int, seed: int = 1) -> Iterator[dict]:
        """Batches of a split without end: one order for each epoch and seed.

        Args:
            split: its name.
            max_tokens: of a batch at most, padding counted.
            seed: of the order.

        Yields:
            fairseq's samples: ``net_input``, ``target`` ``(B, T)``, ``ntokens``.
        """
        dataset = self.split(split)
        epoch = 0
        while True:
            epoch += 1
            iterator = self.task.get_batch_iterator(
                dataset, max_tokens=max_tokens, seed=seed, epoch=epoch, disable_iterator_cache=True
            )
            yield from iterator.next_epoch_itr(shuffle=True)

    def once(self, split: str, max_tokens: int) -> Iterator[dict]:
        """The batches of a split, each once, in a fixed order."""
        iterator = self.task.get_batch_iterator(
            self.split(split), max_tokens=max_tokens, disable_iterator_cache=True
        )
        yield from iterator.next_epoch_itr(shuffle=False)

    def unigram_bits(self) -> float:
        """The entropy of the training text's target units and ends of sentences, in bits a unit."""
        dataset = self.split("train").tgt
        frequencies = np.zeros(len(self.task.target_dictionary), dtype=np.int64)
        for i in range(len(dataset)):
            frequencies += np.bincount(dataset[i], minlength=len(frequencies))
        return unigram_bits(frequencies)
