"""RealFormer: He et al. 2020, RealFormer: Transformer Likes Residual Attention,
arXiv 2012.11747; details from its public code (google-research, realformer.py)."""

from dataclasses import dataclass, field
from typing import List, Optional

from torch import Tensor

from .connection import Inside, refuse_layer_drop, register_connection
from .post import PostLN


@register_connection("realformer")
class RealFormer(PostLN):
    r"""Post-LN whose attentions add the scores of the layer below to their own.

    .. math:: S_l = Q_l K_l^\top / \sqrt{d_k} + S_{l-1}, \qquad S_0 = 0, \qquad
              \text{weights} = \mathrm{softmax}(\text{mask}(S_l))

    Each head has its own S. There are three chains: encoder self-attention, decoder
    self-attention and cross-attention. ``--realformer-mean`` takes the softmax of S_l / l, which
    the paper does for translation and advises for deep models; S_l itself is handed on. (For
    translation the paper builds on Admin; this is on Post-LN, as for BERT.)

    The scores have to be computed, so PyTorch's fused attention is not used.
    """

    @dataclass
    class Options:
        realformer_mean: bool = field(
            default=False,
            metadata={
                "help": "RealFormer: the mean of the scores of all layers so far, not the sum"
            },
        )

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        divisor = 1.0
        if options.realformer_mean:
            refuse_layer_drop(place, options, "divides by the number of layers before")
            divisor = place.layer + 1.0
        if place.sublayer in ("self_attn", "encoder_attn"):
            self.inside = Inside(adds_scores=True, score_divisor=divisor)
        #: Where in the stream this chain's scores are.
        self.chain = 2 if place.sublayer == "encoder_attn" else 1

    def scores(self, stream: List[Tensor]) -> Optional[Tensor]:
        return stream[self.chain] if len(stream) > self.chain else None

    def hand_on(self, stream: List[Tensor], scores: Tensor) -> List[Tensor]:
        return stream[: self.chain] + [scores] + stream[self.chain + 1 :]

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        return [self.layer_norm(stream[0] + y)] + stream[1:]
