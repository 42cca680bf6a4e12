"""NormFormer: Shleifer et al. 2021, NormFormer: Improved Transformer Pretraining with Extra
Normalization, arXiv 2110.09456; details from fairseq's code."""

from dataclasses import dataclass, field

from .connection import Inside, register_connection
from .pre import PreLN


@register_connection("normformer")
class NormFormer(PreLN):
    r"""Pre-LN with a scale for each head and two more LayerNorms within a layer.

    .. math:: u = x + \mathrm{LN}_a(W_O \, [\gamma_1 h_1; \ldots; \gamma_H h_H]), \qquad
              h = \text{heads}(\mathrm{LN}(x))

    .. math:: x' = r \odot u + W_2 \, \mathrm{LN}_f(\phi(W_1 \, \mathrm{LN}(u)))

    γ and all gains start at 1; r is 1, or learned with ``--scale-resids`` (decoder). fairseq
    scales the heads after W_O, on slices of its output: so does
    ``--normformer-scale-after-projection``.

    Published for language models. That the encoder's layers have it too, and cross-attention
    does not, is our own choice (fairseq has it in decoder layers, there not in cross-attention).
    """

    @dataclass
    class Options:
        normformer_scale_after_projection: bool = field(
            default=False,
            metadata={
                "help": "NormFormer: scale the heads after the output projection, as fairseq does, "
                "instead of before it, as the paper does"
            },
        )

    def __init__(self, place, options):
        super().__init__(place, options)
        if place.sublayer == "self_attn":
            after = options.normformer_scale_after_projection
            self.inside = Inside(head_scale="output" if after else "context", output_norm=True)
        elif place.sublayer == "ffn":
            self.inside = Inside(hidden_norm=True)
