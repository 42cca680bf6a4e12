"""ReZero: Bachlechner et al. 2020, ReZero is All You Need: Fast Convergence at Large Depth,
arXiv 2003.04887; details from its public code (majumderb/rezero at e2c94a8)."""

from typing import List

import torch
from torch import Tensor, nn

from .connection import Connection, register_connection


@register_connection("rezero")
class ReZero(Connection):
    r"""A learned scalar on each branch that starts at zero; no LayerNorm anywhere.

    .. math:: x_{k+1} = x_k + \alpha_l \, f(x_k), \qquad \alpha_l = 0 \text{ at first}

    The sublayers of a layer l share one α_l. So each stack is the identity at first, and
    cross-attention sees the source's embeddings.
    """

    def __init__(self, place, options):
        super().__init__(place, options)
        if not place.at_ends:
            self.alpha = nn.Parameter(torch.zeros(()))

    @classmethod
    def share(cls, layer: List[Connection]) -> None:
        for connection in layer[1:]:
            connection.alpha = layer[0].alpha

    def read(self, stream: List[Tensor]) -> Tensor:
        return stream[0]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [stream[0] + self.alpha * y]
