"""T-Fixup: Huang et al. 2020, Improving Transformer Optimization Through Better Initialization,
ICML 2020; details from its public code (layer6ai-labs/T-Fixup at b17e166)."""

from typing import Dict, List

from torch import Tensor, nn

from .connection import OUTPUT_PATH, Connection, redraw, register_connection


@register_connection("tfixup")
class TFixup(Connection):
    r"""No LayerNorm; small initial weights, by depth, in its place.

    .. math:: x_{k+1} = x_k + f(x_k)

    The matrices of values, outputs and feed-forward start Xavier-uniform with gain
    0.67 N^(-1/4) in the encoder and (9M)^(-1/4) in the decoder, cross-attention included; those
    of queries and keys as elsewhere. Embeddings are multiplied by (9N)^(-1/4) on the source side
    and (9M)^(-1/4) on the target side, a shared table once, with N, as in the public code; an
    embedding that is also the output layer is scaled there too. Biases start as elsewhere (in the
    public code at 0). Published without learning-rate warm-up.
    """

    def __init__(self, place, options):
        super().__init__(place, options)
        N, M = place.encoder_layers, place.decoder_layers
        if place.stack == "encoder":
            self.gain, self.embedding_gain = 0.67 * N ** (-1 / 4), (9 * N) ** (-1 / 4)
        else:
            self.gain, self.embedding_gain = (9 * M) ** (-1 / 4), (9 * M) ** (-1 / 4)

    def initialise(self, weights: Dict[str, Tensor]) -> None:
        redraw(weights, OUTPUT_PATH, nn.init.xavier_uniform_, self.gain)
        if "embed_tokens" in weights:
            weights["embed_tokens"].mul_(self.embedding_gain)

    def read(self, stream: List[Tensor]) -> Tensor:
        return stream[0]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [stream[0] + y]
