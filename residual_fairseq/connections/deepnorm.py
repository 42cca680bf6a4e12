"""DeepNorm: Wang et al. 2022, DeepNet: Scaling Transformers to 1,000 Layers, arXiv 2203.00555."""

from typing import Dict, List

import torch
from torch import Tensor, nn

from .connection import OUTPUT_PATH, QUERY_AND_KEY, redraw, register_connection
from .post import PostLN


@register_connection("deepnorm")
class DeepNorm(PostLN):
    r"""Post-LN with a larger residual and smaller initial weights, both by depth.

    .. math:: x_{k+1} = \mathrm{LN}(\alpha \, x_k + f(x_k))

    .. math:: \text{encoder:}\quad \alpha = 0.81 \, (N^4 M)^{1/16}, \quad
              \beta = 0.87 \, (N^4 M)^{-1/16}

    .. math:: \text{decoder:}\quad \alpha = (3M)^{1/4}, \quad \beta = (12M)^{-1/4}

    The matrices of values, outputs and feed-forward start Xavier-normal with gain β, in
    self-attention and in cross-attention, those of queries and keys with gain 1. Biases and
    embeddings start as elsewhere. (torchscale's code also scales the biases.)
    """

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        N, M = place.encoder_layers, place.decoder_layers
        if place.stack == "encoder":
            alpha = 0.81 * (N**4 * M) ** (1 / 16)
            self.beta = 0.87 * (N**4 * M) ** (-1 / 16)
        else:
            alpha = (3 * M) ** (1 / 4)
            self.beta = (12 * M) ** (-1 / 4)
        if not place.at_ends:
            self.register_buffer("alpha", torch.tensor(alpha))

    def initialise(self, weights: Dict[str, Tensor]) -> None:
        redraw(weights, OUTPUT_PATH, nn.init.xavier_normal_, self.beta)
        redraw(weights, QUERY_AND_KEY, nn.init.xavier_normal_)

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [self.layer_norm(self.alpha * stream[0] + y)]
