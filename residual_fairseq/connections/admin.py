"""Admin: Liu et al. 2020, Understanding the Difficulty of Training Transformers,
arXiv 2004.08249; details from its public code (Transformer-Clinic at 70f72b7, admin-torch at
08b6605)."""

import math
from typing import List

import torch
import torch.distributed
from torch import Tensor, nn

from .connection import register_connection
from .post import PostLN


@register_connection("admin")
class Admin(PostLN):
    r"""Post-LN with a learned scale on the residual, initialised by a measurement.

    .. math:: x_k = \mathrm{LN}(\omega_k \odot x_{k-1} + f_k(x_{k-1}))

    Before the first update one pass over the first batch sets every element of ω_k, from below:

    .. math:: \omega_1 = 1, \qquad
              \omega_{k+1}^2 = \mathrm{Var}(\omega_k \odot x_{k-1}) + \mathrm{Var}(f_k(x_{k-1}))

    Var is the variance over all elements, padding included, dropout on. Encoder and decoder each
    start anew from 1. As in the public code each ω_k is in use when the next is measured (the
    paper, as we remember it, measures with all ω = 1; after a LayerNorm that is nearly the same).

    Our own choices: ω is the sum of the measured ω_0, which is a buffer, and a parameter δ that
    starts at 0; training changes it as if it were one parameter, but that weight decay draws it
    to ω_0, and a half-precision optimizer's copy of the parameters, made before the first batch,
    stays right. Data-parallel workers take what the first one has measured on its batch, so
    that their number changes nothing; the public code measures in a run of its own, on one GPU.

    fairseq's ``--store-ema`` averages ω_0 with the weights, from its 1 before the measurement on;
    with ``--ema-start-update 2`` from the measured one on.
    """

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        if not place.at_ends:
            self.register_buffer("omega_0", torch.ones(()))
            self.register_buffer("is_profiled", torch.zeros(()))
            self.delta = nn.Parameter(torch.zeros(place.embed_dim))

    def unprofiled(self) -> bool:
        return hasattr(self, "is_profiled") and not bool(self.is_profiled)

    def open(self, x: Tensor) -> List[Tensor]:
        if not torch.jit.is_scripting():
            if self.profiling:
                return [x, torch.ones((), device=x.device)]
        return [x]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        if not torch.jit.is_scripting():
            if self.profiling:
                return self.profile(stream, y)
        return [self.layer_norm((self.omega_0 + self.delta) * stream[0] + y)]

    @torch.jit.unused
    def profile(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        """`write` while measuring; the stream's second tensor is the square of this place's ω."""
        x, square = stream
        self.omega_0.copy_(square.sqrt())
        self.is_profiled.fill_(1)
        x = (self.omega_0 + self.delta) * x
        return [self.layer_norm(x + y), of_first_worker(variance(x) + variance(y))]


def variance(x: Tensor) -> Tensor:
    return x.float().var(unbiased=False)


def of_first_worker(value: Tensor) -> Tensor:
    """What the first worker has measured: so the number of workers changes nothing."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.broadcast(value, 0)
    return value


@register_connection("admin-closed")
class ClosedAdmin(PostLN):
    r"""Admin without the measurement: a constant for all sublayers of a stack.

    .. math:: x_k = \mathrm{LN}(\omega \, x_{k-1} + f_k(x_{k-1})), \qquad
              \omega = \sqrt{\frac{R + 1}{\ln(R + 1)} - 1}

    This is the default of admin-torch, "O(log n)" (its other form is ω = √R). R, its number of
    residual sublayers, is in our own reading those of the stack: 2N in the encoder, 3M in the
    decoder.
    """

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        if not place.at_ends:
            R = place.layers * place.sublayers
            omega = math.sqrt((R + 1) / math.log(R + 1) - 1)
            self.register_buffer("omega", torch.tensor(omega))

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [self.layer_norm(self.omega * stream[0] + y)]
