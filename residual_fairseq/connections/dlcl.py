"""DLCL: Wang et al. 2019, Learning Deep Transformer Models for Machine Translation,
arXiv 1906.01787; details from its public code (wangqiangneu/dlcl at c632ee2)."""

from typing import List

import torch
from torch import Tensor, nn

from .connection import Connection, refuse_layer_drop, register_connection
from .post import PostLN
from .pre import PreLN


class DLCL(Connection):
    r"""Dynamic linear combination of layers: what both forms have in common.

    The input of each layer, and the output of a stack, is a learned combination of the embedding
    y_0 and the outputs y_1, y_2, ... of all layers before; row l of the weights W starts at
    1 / (l + 1). The stream is the state within the layer and then the history.
    """

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        refuse_layer_drop(place, options, "combines all layers before")
        self.combines = not place.at_ends and place.index == place.sublayers - 1
        self.history_norm = nn.LayerNorm(place.embed_dim) if self.combines else nn.Identity()
        row = place.layer + 1 if self.combines else 0
        if self.combines or place.at_ends:
            self.W = nn.Parameter(torch.full((row + 1,), 1 / (row + 1)))
        else:
            self.W = torch.empty(0)

    def open(self, x: Tensor) -> List[Tensor]:
        return [self.W[0] * x, x]

    def combination(self, history: List[Tensor]) -> Tensor:
        total = self.W[0] * history[0]
        for k in range(1, len(history)):
            total = total + self.W[k] * history[k]
        return total


@register_connection("dlcl")
class PreDLCL(DLCL, PreLN):
    r"""Dynamic linear combination of layers, on Pre-LN.

    .. math:: x_{l+1} = \sum_{k \le l} W_{lk} \, \mathrm{LN}_k(y_k), \qquad
              \mathrm{LN}_0 = \mathrm{id}, \qquad y_{l+1} = \text{Pre-LN layer}(x_{l+1})

    .. math:: \text{output} = \mathrm{LN}\Big(\sum_{k \le L} W_{Lk} \, \mathrm{LN}_k(y_k)\Big)
    """

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        x, history = stream[0] + y, stream[1:]
        if self.combines:
            history = history + [self.history_norm(x)]
            x = self.combination(history)
        return [x] + history


@register_connection("dlcl-post")
class PostDLCL(DLCL, PostLN):
    r"""Dynamic linear combination of layers, on Post-LN.

    .. math:: x_{l+1} = \mathrm{LN}_l\Big(\sum_{k \le l} W_{lk} \, y_k\Big), \qquad
              \mathrm{LN}_0 = \mathrm{id}, \qquad y_{l+1} = \text{Post-LN layer}(x_{l+1})

    .. math:: \text{output} = \mathrm{LN}_L\Big(\sum_{k \le L} W_{Lk} \, y_k\Big)
    """

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        x, history = self.layer_norm(stream[0] + y), stream[1:]
        if self.combines:
            history = history + [x]
            x = self.history_norm(self.combination(history))
        return [x] + history
