"""What a bilingual preparation does to the text: the same steps for every corpus, by options."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from data_prep.tokens import TOKENIZERS
from residual_fairseq.errors import UsageError


@dataclass(frozen=True)
class Options:
    """Everything besides the text that decides about the bytes of a data-bin.

    Args:
        source, target: language codes, as in the names of the files.
        tests: names of the test sets; the first becomes fairseq's subset ``test``, the others
            ``test1``, ``test2`` ...
        tokenizer: whose tokens the model is given: "moses", or "none" for text that has to come
            back exactly as it was.
        dash_splits: Moses' aggressive splits of "a-b" to "a @-@ b".
        lowercase: lower-case all text; scores are then lower-cased too.
        max_tokens: drop training pairs with a longer side; None: keep them.
        max_ratio: drop training pairs of which one side is longer than the other by more than
            this factor; None: keep them.
        drop_by: what the two limits count: "tokens", or "units" after BPE.
        valid_every: every Nth training pair becomes the validation set, and is no longer trained
            on; None: the corpus has a validation set.
        bpe_merges: joint BPE merge operations; None: the text is in units already, so it is neither
            tokenised nor split.
        vocabulary_threshold: BPE units that are rarer in the training text of their language are
            split again; 0: units are as the merges give them.
        joined_dictionary: one dictionary for both languages.
        dictionary_size: symbols of the dictionary at most; None: no limit.
        only: the splits that there are, if the corpus does not have all.
    """

    source: str
    target: str
    tests: tuple[str, ...] = ("test",)
    tokenizer: str = "moses"
    dash_splits: bool = True
    lowercase: bool = False
    max_tokens: int | None = None
    max_ratio: float | None = None
    drop_by: str = "tokens"
    valid_every: int | None = None
    bpe_merges: int | None = 8000
    vocabulary_threshold: int = 1
    joined_dictionary: bool = True
    dictionary_size: int | None = None
    only: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for flag, lang in (("source", self.source), ("target", self.target)):
            if not re.fullmatch("[A-Za-z0-9_]+", lang):
                raise UsageError(
                    f"--{flag} {lang}: fairseq needs a language code of letters, digits and _"
                )
        if self.source == self.target:
            raise UsageError(f"--target {self.target}: has to differ from --source")
        if self.tokenizer not in TOKENIZERS:
            raise UsageError(f"--tokenizer {self.tokenizer}: has to be {' or '.join(TOKENIZERS)}")
        if self.bpe_merges is not None and self.bpe_merges < 1:
            raise UsageError(f"--bpe-merges {self.bpe_merges}: has to be 1 or more")
        if self.vocabulary_threshold < 0:
            raise UsageError(
                f"--vocabulary-threshold {self.vocabulary_threshold}: has to be 0 or more"
            )

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def in_units(self) -> bool:
        """Whether the text is in the units of the model already."""
        return self.bpe_merges is None

    @property
    def given(self) -> tuple[str, ...]:
        """The splits that the text has to have."""
        splits = ("train", *([] if self.valid_every else ["valid"]), *self.tests)
        return tuple(split for split in splits if self.only is None or split in self.only)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the data-bin."""
        splits = ("train", "valid", *self.tests)
        return tuple(split for split in splits if self.only is None or split in self.only)

    @property
    def subsets(self) -> dict[str, str]:
        """What fairseq calls the test sets: its ``--gen-subset``, by name."""
        return {name: f"test{i or ''}" for i, name in enumerate(self.tests)}

    def as_json(self) -> dict[str, Any]:
        """As ``corpus.json`` has them."""
        values = {**asdict(self), "tests": list(self.tests)}
        del values["only"]
        return values
