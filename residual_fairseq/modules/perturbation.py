"""Perturbed input words in training: Takase and Kiyono 2021, Rethinking Perturbations in
Encoder-Decoders for Fast Training, arXiv 2104.01853."""

import math
import re

import torch
from torch import Tensor, nn

#: Tokens of languages, and what fairseq fills a dictionary up with.
NO_WORD = r"__.+__|madeupword\d+"


class WordPerturbation(nn.Module):
    r"""Drops and replaces words of a training batch; the identity in evaluation mode.

    Word dropout sets the embedding of each word to zero with probability P; its position stays.
    Replacement puts a word drawn uniformly from the dictionary in its place with probability
    1 - α_t, where α_t, the probability of the right word, decays with the number of updates t as
    in scheduled sampling (Bengio et al. 2015, arXiv 1506.03099):

    .. math:: \alpha_t = \max\Big(1 - P, \frac{k}{k + \exp(t / k)}\Big)

    The paper was not re-read for this: its two kinds are as we remember them. That padding,
    special symbols (end of sentence, unknown word) and language tokens are neither dropped nor
    replaced, nor drawn, is our own choice.

    Args:
        dictionary: fairseq's.
        dropout: P of word dropout.
        replacement: P of replacement.
        decay: k.
    """

    def __init__(self, dictionary, dropout: float, replacement: float, decay: float) -> None:
        super().__init__()
        is_word = [
            index >= dictionary.nspecial and not re.fullmatch(NO_WORD, symbol)
            for index, symbol in enumerate(dictionary.symbols)
        ]
        words = [index for index, is_one in enumerate(is_word) if is_one]
        self.register_buffer("is_word", torch.tensor(is_word), persistent=False)
        self.register_buffer("words", torch.tensor(words, dtype=torch.long), persistent=False)
        self.dropout, self.replacement, self.decay = dropout, replacement, decay
        self.set_num_updates(0)

    def set_num_updates(self, num_updates: int) -> None:
        # exp overflows long after the maximum has been reached.
        kept = self.decay / (self.decay + math.exp(min(num_updates / self.decay, 500.0)))
        self.replacement_rate = 1 - max(1 - self.replacement, kept)

    def replace(self, tokens: Tensor) -> Tensor:
        """Token ids of any shape, some replaced."""
        if not self.training or self.replacement == 0:
            return tokens
        chosen = self.choose(tokens, self.replacement_rate)
        others = self.words[torch.randint_like(tokens, len(self.words))]
        return torch.where(chosen, others, tokens)

    def drop(self, embedded: Tensor, tokens: Tensor) -> Tensor:
        """Embeddings ``(..., C)`` of tokens ``(...)``, some set to zero."""
        if not self.training or self.dropout == 0:
            return embedded
        return embedded.masked_fill(self.choose(tokens, self.dropout).unsqueeze(-1), 0.0)

    def choose(self, tokens: Tensor, rate: float) -> Tensor:
        is_drawn = torch.rand(tokens.shape, device=tokens.device) < rate
        return is_drawn & self.is_word[tokens]
