"""B2T connection: Takase et al. 2022, On Layer Normalizations and Residual Connections in
Transformers, arXiv 2206.00330; details from its public code (takase/b2t_connection)."""

from dataclasses import dataclass, field
from typing import Dict, List

from torch import Tensor

from .connection import register_connection
from .post import PostLN


@register_connection("b2t")
class BottomToTop(PostLN):
    r"""Post-LN, where the input of a layer is added once more before the layer's last LayerNorm.

    With x the input of a layer and f_1 ... f_S its sublayers (S = 2 in the encoder, 3 in the
    decoder):

    .. math:: u_0 = x, \qquad u_i = \mathrm{LN}(u_{i-1} + f_i(u_{i-1})), \qquad
              x' = \mathrm{LN}(x + u_{S-1} + f_S(u_{S-1}))

    The public code also multiplies every initial weight matrix of a layer by L^(-1/2), L = N in
    the encoder and M in the decoder; so does this, unless ``--b2t-unscaled`` is given. Whether
    the paper counts that as part of the method is not known to us.
    """

    @dataclass
    class Options:
        b2t_unscaled: bool = field(
            default=False,
            metadata={
                "help": "B2T: leave the initial weights as they are, instead of multiplying them "
                "by 1 / sqrt(layers of the stack) as the public code does"
            },
        )

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        self.is_last = place.index == place.sublayers - 1
        self.gain = 1.0 if options.b2t_unscaled else place.layers ** (-1 / 2)

    def initialise(self, weights: Dict[str, Tensor]) -> None:
        for name, weight in weights.items():
            if name != "embed_tokens":
                weight.mul_(self.gain)

    def open(self, x: Tensor) -> List[Tensor]:
        return [x, x]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        u, x = stream
        if self.is_last:
            x = self.layer_norm(x + u + y)
            return [x, x]
        return [self.layer_norm(u + y), x]
