"""Pre-LN: Xiong et al. 2020, On Layer Normalization in the Transformer Architecture,
arXiv 2002.04745; for deep translation models Wang et al. 2019, arXiv 1906.01787."""

from typing import List

from torch import Tensor, nn

from .connection import Connection, register_connection


@register_connection("pre")
class PreLN(Connection):
    r"""LayerNorm before the sublayer, and one more after each stack.

    .. math:: x_0 = \text{embedding}, \qquad x_{k+1} = x_k + f(\mathrm{LN}(x_k)),
              \qquad \text{output} = \mathrm{LN}(x_K)

    Cross-attention normalises its queries only: its keys and values are the encoder's output,
    which the encoder's own last LayerNorm has normalised. fairseq's ``--no-decoder-final-norm``
    leaves out the one after the decoder.
    """

    supported_flags = frozenset({"scale_resids", "no_decoder_final_norm"})

    def __init__(self, place, options):
        super().__init__(place, options)
        unnormed = options.no_decoder_final_norm and place.stack == "decoder" and place.at_ends
        self.layer_norm = nn.Identity() if unnormed else nn.LayerNorm(place.embed_dim)

    def read(self, stream: List[Tensor]) -> Tensor:
        return self.layer_norm(stream[0])

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [stream[0] + y]

    def scale_residual(self, stream: List[Tensor], w: Tensor) -> List[Tensor]:
        return [w * stream[0]]

    def close(self, stream: List[Tensor]) -> Tensor:
        return self.layer_norm(stream[0])
