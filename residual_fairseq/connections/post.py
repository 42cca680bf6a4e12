"""Post-LN: Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762."""

from typing import List

from torch import Tensor, nn

from .connection import Connection, register_connection


@register_connection("post")
class PostLN(Connection):
    r"""LayerNorm after the addition.

    .. math:: x_0 = \text{embedding}, \qquad x_{k+1} = \mathrm{LN}(x_k + f(x_k)),
              \qquad \text{output} = x_K

    The same in the encoder and in the decoder; there is no LayerNorm after a stack. Section 5.4
    of the paper places dropout on the output of f, before the addition.
    """

    supported_flags = frozenset({"scale_resids"})

    def __init__(self, place, options):
        super().__init__(place, options)
        if not place.at_ends:
            self.layer_norm = nn.LayerNorm(place.embed_dim)

    def read(self, stream: List[Tensor]) -> Tensor:
        return stream[0]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [self.layer_norm(stream[0] + y)]

    def scale_residual(self, stream: List[Tensor], w: Tensor) -> List[Tensor]:
        return [w * stream[0]]
