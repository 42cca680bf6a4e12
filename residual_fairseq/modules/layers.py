"""The encoder layer and the decoder layer, each written once over a residual connection."""

from dataclasses import replace
from typing import Dict, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.modules import FairseqDropout
from fairseq.modules.quant_noise import quant_noise
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..connections import Connection, Inside
from ..errors import UsageError
from .attention import Attention

#: Weights of a layer that fairseq has under another name: by that, the name here.
FAIRSEQ_NAMES = {
    "self_attn_layer_norm": "self_attn_connection.layer_norm",
    "encoder_attn_layer_norm": "encoder_attn_connection.layer_norm",
    "final_layer_norm": "ffn_connection.layer_norm",
    "attn_ln": "self_attn.output_norm",
    "c_attn": "self_attn.head_scale",
}


class Layer(nn.Module):
    """What the two layers share: the feed-forward sublayer, dropout, names of weights.

    Args:
        cfg: the model's configuration.
        side: of the configuration, ``cfg.encoder`` or ``cfg.decoder``.
        connections: one for each sublayer, by its name ``self_attn``, ``encoder_attn``, ``ffn``.
        cross_self_attention: self-attention also looks at the encoder's output.
    """

    def __init__(
        self, cfg, side, connections: Dict[str, nn.Module], cross_self_attention: bool = False
    ) -> None:
        super().__init__()
        self.checkpoint_activations = cfg.checkpoint_activations
        self.embed_dim = side.embed_dim
        inside = {name: self.inside(cfg, name, place) for name, place in connections.items()}
        self.self_attn = Attention(
            side.embed_dim,
            side.attention_heads,
            inside=inside["self_attn"],
            dropout=cfg.attention_dropout,
            self_attention=not cross_self_attention,
            q_noise=cfg.quant_noise.pq,
            qn_block_size=cfg.quant_noise.pq_block_size,
        )
        self.fc1 = self.build_linear(cfg, side.embed_dim, side.ffn_embed_dim)
        self.fc2 = self.build_linear(cfg, side.ffn_embed_dim, side.embed_dim)
        has_hidden_norm = inside["ffn"].hidden_norm
        self.ffn_layernorm = nn.LayerNorm(side.ffn_embed_dim) if has_hidden_norm else None
        self.activation_fn = utils.get_activation_fn(cfg.activation_fn)
        # The name that --retain-dropout-modules knows it by.
        name = f"Transformer{type(self).__name__}Base"
        self.dropout_module = FairseqDropout(cfg.dropout, module_name=name)
        self.activation_dropout_module = FairseqDropout(
            float(cfg.activation_dropout or cfg.relu_dropout or 0), module_name=name
        )
        for sublayer, connection in connections.items():
            setattr(self, f"{sublayer}_connection", connection)

    def inside(self, cfg, sublayer: str, connection: Connection) -> Inside:
        """What is within a sublayer."""
        return connection.inside

    @torch.no_grad()
    def initialise(self) -> None:
        """Lets the connections change the initial weights of their sublayers."""
        for sublayer in ("self_attn", "encoder_attn"):
            attention = getattr(self, sublayer, None)
            if attention is not None:
                names = ("q_proj", "k_proj", "v_proj", "out_proj")
                weights = {name: getattr(attention, name).weight for name in names}
                getattr(self, f"{sublayer}_connection").initialise(weights)
        self.ffn_connection.initialise({"fc1": self.fc1.weight, "fc2": self.fc2.weight})

    @staticmethod
    def build_linear(cfg, inputs: int, outputs: int) -> nn.Module:
        return quant_noise(
            nn.Linear(inputs, outputs), cfg.quant_noise.pq, cfg.quant_noise.pq_block_size
        )

    def feed_forward(self, x: Tensor) -> Tensor:
        """The position-wise feed-forward sublayer, ``(T, B, C)`` to ``(T, B, C)``."""
        x = self.activation_dropout_module(self.activation_fn(self.fc1(x)))
        if self.ffn_layernorm is not None:
            x = self.ffn_layernorm(x)
        return self.dropout_module(self.fc2(x))

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Gives weights under fairseq's names of a layer their names here."""
        for fairseq_name, own in FAIRSEQ_NAMES.items():
            for weight in ("", ".weight", ".bias"):
                old = f"{name}.{fairseq_name}{weight}"
                if old in state_dict:
                    state_dict[f"{name}.{own}{weight}"] = state_dict.pop(old)
        # fairseq 0.12.2 keeps a second copy of an encoder layer's weights for its fast path.
        for copied in ("in_proj", "out_proj", "fc1", "fc2"):
            for weight in ("weight", "bias"):
                state_dict.pop(f"{name}.{copied}_{weight}", None)


class EncoderLayer(Layer):
    """Self-attention and feed-forward, over the connections of their places."""

    def __init__(self, cfg, connections: Dict[str, nn.Module]) -> None:
        super().__init__(cfg, cfg.encoder, connections)
        self.initialise()

    def forward(self, stream: List[Tensor], mask: Optional[Tensor]) -> List[Tensor]:
        """Carries the stream through the layer.

        Args:
            stream: tensors of shape ``(T, B, C)``.
            mask: boolean ``(B, 1, 1, T)``, True at tokens and False at padding; None where there
                is no padding.
        """
        if torch.jit.is_scripting():
            return self.sublayers(stream, mask)
        elif self.checkpoint_activations and torch.is_grad_enabled():
            return checkpoint(self.sublayers, stream, mask, use_reentrant=False)
        else:
            return self.sublayers(stream, mask)

    def sublayers(self, stream: List[Tensor], mask: Optional[Tensor]) -> List[Tensor]:
        x = self.self_attn_connection.read(stream)
        y, _, scores = self.self_attn(x, x, mask, scores=self.self_attn_connection.scores(stream))
        if scores is not None:
            stream = self.self_attn_connection.hand_on(stream, scores)
        stream = self.self_attn_connection.write(stream, self.dropout_module(y))

        x = self.ffn_connection.read(stream)
        return self.ffn_connection.write(stream, self.feed_forward(x))


class DecoderLayer(Layer):
    """Self-attention, cross-attention and feed-forward, over the connections of their places.

    ``--scale-attn``, ``--scale-heads``, ``--scale-fc`` and ``--scale-resids`` act as in fairseq's
    decoder layer (NormFormer, Shleifer et al. 2021, arXiv 2110.09456), under its weights' names.
    """

    def __init__(self, cfg, connections: Dict[str, nn.Module]) -> None:
        super().__init__(cfg, cfg.decoder, connections, cfg.cross_self_attention)
        self.cross_self_attention = cfg.cross_self_attention
        self.encoder_attn = None
        if not cfg.no_cross_attention:
            self.encoder_attn = Attention(
                cfg.decoder.embed_dim,
                cfg.decoder.attention_heads,
                inside=connections["encoder_attn"].inside,
                kdim=cfg.encoder.embed_dim,
                vdim=cfg.encoder.embed_dim,
                dropout=cfg.attention_dropout,
                encoder_decoder_attention=True,
                q_noise=cfg.quant_noise.pq,
                qn_block_size=cfg.quant_noise.pq_block_size,
            )
        self.w_resid = nn.Parameter(torch.ones(cfg.decoder.embed_dim)) if cfg.scale_resids else None
        self.need_attn = False
        self.initialise()

    def inside(self, cfg, sublayer: str, connection: Connection) -> Inside:
        inside = connection.inside
        for flag, at, part, value in (
            ("scale_fc", "ffn", "hidden_norm", True),
            ("scale_attn", "self_attn", "output_norm", True),
            ("scale_heads", "self_attn", "head_scale", "output"),
        ):
            if getattr(cfg, flag) and sublayer == at:
                if getattr(inside, part):
                    raise UsageError(
                        f"--{flag.replace('_', '-')}: --residual-connection "
                        f"{cfg.residual_connection} has this already"
                    )
                inside = replace(inside, **{part: value})
        return inside

    def forward(
        self,
        stream: List[Tensor],
        encoder_out: Optional[Tensor],
        encoder_mask: Optional[Tensor],
        mask: Optional[Tensor],
        causal: bool,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        need_attn: bool = False,
    ) -> Tuple[List[Tensor], Optional[Tensor]]:
        """Carries the stream through the layer.

        Args:
            stream: tensors of shape ``(T, B, C)``.
            encoder_out: the encoder's output ``(S, B, C)``, if there is an encoder.
            encoder_mask: boolean ``(B, 1, 1, S)``, True at tokens of the source; None where there
                is no padding.
            mask: boolean, broadcastable to ``(B, 1, T, T)`` (``(B, 1, T, S + T)`` under
                ``--cross-self-attention``), True where self-attention may look; None: everywhere.
            causal: self-attention looks at no later position; instead of a mask.
            incremental_state: keys and values of earlier steps, when decoding step by step.
            need_attn: also return the weights of cross-attention. They are returned too in
                evaluation mode if generation was asked for alignments.

        Returns:
            The stream, and the cross-attention weights ``(H, B, T, S)`` or None.
        """
        if torch.jit.is_scripting():
            return self.sublayers(
                stream, encoder_out, encoder_mask, mask, causal, incremental_state, need_attn
            )
        elif self.checkpoint_activations and torch.is_grad_enabled() and incremental_state is None:
            return checkpoint(
                self.sublayers,
                stream,
                encoder_out,
                encoder_mask,
                mask,
                causal,
                None,
                need_attn,
                use_reentrant=False,
            )
        else:
            return self.sublayers(
                stream, encoder_out, encoder_mask, mask, causal, incremental_state, need_attn
            )

    def sublayers(
        self,
        stream: List[Tensor],
        encoder_out: Optional[Tensor],
        encoder_mask: Optional[Tensor],
        mask: Optional[Tensor],
        causal: bool,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]],
        need_attn: bool,
    ) -> Tuple[List[Tensor], Optional[Tensor]]:
        x = self.self_attn_connection.read(stream)
        memory = x
        if self.cross_self_attention:
            # Step by step, the source is among the cached keys from the first step on.
            if "keys" not in self.self_attn._get_input_buffer(incremental_state):
                assert encoder_out is not None
                memory = torch.cat([encoder_out, x], dim=0)
        y, _, scores = self.self_attn(
            x,
            memory,
            mask,
            causal,
            incremental_state,
            scores=self.self_attn_connection.scores(stream),
        )
        if scores is not None:
            stream = self.self_attn_connection.hand_on(stream, scores)
        stream = self.self_attn_connection.write(stream, self.dropout_module(y))

        attn: Optional[Tensor] = None
        if self.encoder_attn is not None and encoder_out is not None:
            x = self.encoder_attn_connection.read(stream)
            y, attn, scores = self.encoder_attn(
                x,
                encoder_out,
                encoder_mask,
                False,
                incremental_state,
                need_attn or (self.need_attn and not self.training),
                self.encoder_attn_connection.scores(stream),
            )
            if scores is not None:
                stream = self.encoder_attn_connection.hand_on(stream, scores)
            stream = self.encoder_attn_connection.write(stream, self.dropout_module(y))

        x = self.ffn_connection.read(stream)
        y = self.feed_forward(x)
        if self.w_resid is not None:
            stream = self.ffn_connection.scale_residual(stream, self.w_resid)
        return self.ffn_connection.write(stream, y), attn

    def make_generation_fast_(self, need_attn: bool = False, **kwargs) -> None:
        """Called by fairseq's generators: with need_attn where alignments were asked for."""
        self.need_attn = need_attn
