"""Sub-LN: Wang et al. 2022, Foundation Transformers (Magneto), arXiv 2210.06423."""

import math
from typing import Dict

from torch import Tensor, nn

from .connection import OUTPUT_PATH, QUERY_AND_KEY, Inside, redraw, register_connection
from .pre import PreLN


@register_connection("subln")
class SubLN(PreLN):
    r"""Pre-LN with one more LayerNorm before each output matrix, and initial weights by depth.

    .. math:: \text{self-attention:}\quad
              x' = x + W_O \, \mathrm{LN}_i(\text{heads}(\mathrm{LN}(x)))

    .. math:: \text{feed-forward:}\quad x' = x + W_2 \, \mathrm{LN}_i(\phi(W_1 \, \mathrm{LN}(x)))

    Cross-attention is that of Pre-LN. All matrices of a layer start Xavier-uniform; outside of
    cross-attention those of values, outputs and feed-forward with gain

    .. math:: \gamma = \sqrt{\ln(3M) \ln(2N) / 3} \text{ in the encoder}, \qquad
              \gamma = \sqrt{\ln(3M)} \text{ in the decoder}

    Biases start as elsewhere. (torchscale's code scales them too, and starts from PyTorch's
    default for linear layers instead of Xavier.)
    """

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        N, M = place.encoder_layers, place.decoder_layers
        gain = (
            math.log(3 * M) * math.log(2 * N) / 3 if place.stack == "encoder" else math.log(3 * M)
        )
        self.gain = math.sqrt(gain) if place.sublayer != "encoder_attn" else 1.0
        self.inside = Inside(
            context_norm=place.sublayer == "self_attn", hidden_norm=place.sublayer == "ffn"
        )

    def initialise(self, weights: Dict[str, Tensor]) -> None:
        redraw(weights, OUTPUT_PATH, nn.init.xavier_uniform_, self.gain)
        redraw(weights, QUERY_AND_KEY, nn.init.xavier_uniform_)
