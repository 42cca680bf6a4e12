"""ResiDual, Pre-Post-LN: Xie et al. 2023, ResiDual: Transformer with Dual Residual Connections,
arXiv 2304.14802; details from its public code (microsoft/ResiDual at 8682f75)."""

import math
from dataclasses import dataclass, field
from typing import List, Optional

import torch
from torch import Tensor, nn

from .connection import Connection, register_connection


@register_connection("residual")
class ResiDual(Connection):
    r"""Two streams at once: one that is normalised after each addition, one that never is.

    .. math:: x^{ln}_0 = \text{embedding}, \qquad x^d_0 = s \cdot \text{embedding}

    .. math:: y = f(x^{ln}_k), \qquad
              x^{ln}_{k+1} = \mathrm{LN}(x^{ln}_k + y), \qquad
              x^d_{k+1} = x^d_k + s \cdot y

    .. math:: \text{output} = x^{ln}_K + \mathrm{LN}_f(x^d_K)

    f reads only the normalised stream. The same in the encoder, whose output is what
    cross-attention sees, and in the decoder.

    The scale s does not change the output, since LN_f(s x) = LN_f(x) when the epsilon of LN_f is
    scaled by s², which it is here (1e-7 at s = 1, as in the public code). It does decide whether
    x^d fits into half precision, which holds up to 65504 only. The default is the largest power
    of two not above 1 / (K + 1) for a stack of K sublayers: x^d is then at most the mean size of
    the embedding and the K outputs, so it overflows at no depth unless one of these has already;
    and a power of two scales without rounding. (The public code has s = 1, and 0.05 set by hand
    for its 18-layer half-precision runs, with an epsilon that is not scaled.)
    """

    @dataclass
    class Options:
        residual_stream_scale: Optional[float] = field(
            default=None,
            metadata={
                "help": "ResiDual: scale s of the dual stream, which does not change the output "
                "(default: the largest power of two not above 1 / (sublayers of the stack + 1), "
                "safe in half precision at any depth)"
            },
        )

    def __init__(self, place, options):
        super().__init__(place, options)
        s = options.residual_stream_scale
        if s is None:
            s = 2.0 ** -math.ceil(math.log2(place.layers * place.sublayers + 1))
        if not (s > 0 and math.isfinite(s)):
            raise ValueError(f"--residual-stream-scale must be above 0 and finite, not {s}")
        self.s = float(s)
        self.layer_norm = nn.LayerNorm(place.embed_dim, eps=1e-7 * s**2 if place.at_ends else 1e-5)

    def open(self, x: Tensor) -> List[Tensor]:
        return [x, self.s * x]

    def read(self, stream: List[Tensor]) -> Tensor:
        return stream[0]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        x_ln, x_d = stream
        return [self.layer_norm(x_ln + y), torch.add(x_d, y, alpha=self.s)]

    def close(self, stream: List[Tensor]) -> Tensor:
        x_ln, x_d = stream
        return x_ln + self.layer_norm(x_d)
