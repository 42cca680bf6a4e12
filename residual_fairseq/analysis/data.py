"""Batches of a data-bin, and what a model that knows only frequencies would lose on it."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from itertools import count, islice
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..divergence import unigram_bits
from ..errors import UsageError


def quieten() -> None:
    """Leaves out what fairseq logs, and that memory it wants pinned has no GPU to be pinned for."""
    logging.disable(logging.INFO)
    warnings.filterwarnings("ignore", message=".*pin_memory")


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
        for epoch in count(1):
            yield from self._epoch(split, max_tokens, seed, epoch, shuffle=True)

    def once(self, split: str, max_tokens: int, at_most: int | None = None) -> Iterator[dict]:
        """The batches of a split, each once, by length; or some of them, chosen at random.

        Args:
            split, max_tokens: as above.
            at_most: so many batches, the same ones at every call; None: all of them.
        """
        shuffle = at_most is not None
        yield from islice(self._epoch(split, max_tokens, 1, 1, shuffle), at_most)

    def _epoch(
        self, split: str, max_tokens: int, seed: int, epoch: int, shuffle: bool
    ) -> Iterator[dict]:
        dataset = self.split(split)
        longest = max(dataset.src_sizes.max(), dataset.tgt_sizes.max())
        if longest > max_tokens:
            raise UsageError(
                f"--max-tokens {max_tokens}: the longest pair of {self.path}, split {split}, has "
                f"{longest} tokens"
            )
        iterator = self.task.get_batch_iterator(
            dataset, max_tokens=max_tokens, seed=seed, epoch=epoch, disable_iterator_cache=True
        )
        yield from iterator.next_epoch_itr(shuffle=shuffle)

    def digest(self) -> str:
        """A fingerprint: of the dictionaries, of the lengths of all sentences, of the sizes."""
        digest = hashlib.sha256()
        for path in sorted(self.path.iterdir()):
            if path.suffix in (".txt", ".idx", ".bin"):
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            if path.suffix in (".txt", ".idx"):
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def unigram_bits(self) -> float:
        """The entropy of the training text's target units and ends of sentences, in bits a unit."""
        dataset = self.split("train").tgt
        frequencies = np.zeros(len(self.task.target_dictionary), dtype=np.int64)
        for i in range(len(dataset)):
            frequencies += np.bincount(dataset[i], minlength=len(frequencies))
        return unigram_bits(frequencies)
