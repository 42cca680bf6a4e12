"""Branches scaled by 1 / sqrt(L): Zhang et al. 2019, Stabilize Deep ResNet with A Sharp Scaling
Factor tau, arXiv 1903.07120."""

from dataclasses import dataclass, field
from typing import List

import torch
from torch import Tensor, nn

from .connection import register_connection
from .pre import PreLN


@register_connection("tau")
class Tau(PreLN):
    r"""Pre-LN with branches scaled by 1 / √L, L the number of sublayers of the stack.

    .. math:: x_{k+1} = x_k + \tau f(\mathrm{LN}(x_k)), \qquad \tau = 1 / \sqrt{L}, \qquad
              \text{output} = \mathrm{LN}(x_K)

    The paper proves the factor for residual networks, L counting residual blocks, with and
    without normalisation of the branch. Its form in a Transformer is our own reading: a block is
    a sublayer (L = 2N in the encoder, 3M in the decoder), and the branch is normalised as in
    Pre-LN. ``--tau-without-norm`` leaves all LayerNorms out.
    """

    @dataclass
    class Options:
        tau_without_norm: bool = field(
            default=False, metadata={"help": "tau: no LayerNorm, neither in a layer nor at the end"}
        )

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        if options.tau_without_norm:
            self.layer_norm = nn.Identity()
        if not place.at_ends:
            tau = (place.layers * place.sublayers) ** (-1 / 2)
            self.register_buffer("tau", torch.tensor(tau))

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [stream[0] + self.tau * y]
