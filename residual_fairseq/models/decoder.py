"""The decoder: fairseq's embeddings, output layer and interface around a stack of our layers."""

from typing import Dict, List, Optional, Tuple

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from ..errors import UsageError
from ..modules import DecoderLayer
from ..modules.masks import causal_mask, token_mask
from .encoder import perturbation, rename_closing_norm, wrap_layer
from .places import connection_of_ends, connections_of_layer


class ResidualTransformerDecoder(TransformerDecoderBase):
    """Transformer decoder over a residual connection.

    Embeddings, positions, layer drop, the output projection and the interface to the rest of
    fairseq are those of fairseq's decoder.

    Args:
        cfg: the model's configuration.
        dictionary: the target dictionary.
        embed_tokens: the target embedding.
        no_encoder_attn: leave cross-attention out.

    Attributes:
        trains_alignment: the criterion is given the last layer's cross-attention weights.
    """

    _layers_built = 0

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        # The name that --retain-dropout-modules knows it by.
        self.dropout_module.module_name = "TransformerDecoder"
        self.connection = connection_of_ends(cfg, "decoder")
        self.perturbation = perturbation(cfg, dictionary)
        self.trains_alignment = False

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        layer = DecoderLayer(cfg, connections_of_layer(cfg, "decoder", self._layers_built))
        self._layers_built += 1
        return wrap_layer(layer, cfg)

    def extract_features_scriptable(
        self,
        prev_output_tokens,
        encoder_out: Optional[Dict[str, List[Tensor]]],
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ):
        """The decoder without its output layer; called by ``forward``.

        Args:
            prev_output_tokens: token ids ``(B, T)``: the whole prefix, step by step too.
            encoder_out: what the encoder returned.
            incremental_state: keys and values of earlier steps; only the last position is then
                computed.
            full_context_alignment: let self-attention look at later positions too.
            alignment_layer: return the cross-attention weights of this layer. Without it they
                are computed only where generation was asked for alignments, in the last layer.
            alignment_heads: average the weights over the first so many heads only.

        Returns:
            The features ``(B, T, C)``, and a dictionary: ``attn`` holds the cross-attention
            weights ``(B, T, S)`` or None, ``inner_states`` the embedding and the main stream
            after each layer, ``(T, B, C)``.
        """
        enc: Optional[Tensor] = None
        source_padding: Optional[Tensor] = None
        encoder_mask: Optional[Tensor] = None
        if encoder_out is not None and len(encoder_out["encoder_out"]) > 0:
            enc = encoder_out["encoder_out"][0]
        if encoder_out is not None and len(encoder_out["encoder_padding_mask"]) > 0:
            source_padding = encoder_out["encoder_padding_mask"][0]
        if enc is not None and encoder_out is not None and "rows" in encoder_out:
            if incremental_state is None or self.cross_self_attention:
                rows = encoder_out["rows"][0]
                enc = enc.index_select(1, rows)
                if source_padding is not None:
                    source_padding = source_padding.index_select(0, rows)
        if source_padding is not None:
            encoder_mask = token_mask(source_padding)

        x = self.embed(prev_output_tokens, incremental_state)
        causal = incremental_state is None and not full_context_alignment
        mask = self.self_attention_mask(prev_output_tokens, source_padding, causal)

        attn: Optional[Tensor] = None
        inner_states: List[Optional[Tensor]] = [x]
        stream = self.connection.open(x)
        if alignment_layer is None and self.trains_alignment and self.training:
            alignment_layer = self.num_layers - 1
        for index, layer in enumerate(self.layers):
            stream, layer_attn = layer(
                stream,
                enc,
                encoder_mask,
                mask,
                causal and mask is None,
                incremental_state,
                alignment_layer is not None and index == alignment_layer,
            )
            inner_states.append(stream[0])
            if layer_attn is not None and (alignment_layer is None or index == alignment_layer):
                attn = layer_attn
        x = self.connection.close(stream)

        if attn is not None:
            attn = attn.float().to(x)
            if alignment_heads is not None:
                attn = attn[:alignment_heads]
            attn = attn.mean(dim=0)

        x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attn], "inner_states": inner_states}

    def embed(
        self,
        prev_output_tokens,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]],
    ):
        """Embeddings and positions ``(T, B, C)``; of the last token only when step by step."""
        positions: Optional[Tensor] = None
        if self.embed_positions is not None:
            positions = self.embed_positions(
                prev_output_tokens, incremental_state=incremental_state
            )
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            if positions is not None:
                positions = positions[:, -1:]
        tokens = self.perturbation.replace(prev_output_tokens.contiguous())
        embedded = self.perturbation.drop(self.embed_tokens(tokens), tokens)
        x = self.embed_scale * embedded
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x).transpose(0, 1)

    def self_attention_mask(
        self, prev_output_tokens, source_padding: Optional[Tensor], causal: bool
    ) -> Optional[Tensor]:
        """Where self-attention may look, broadcastable to ``(B, 1, T, T)``.

        None where it may look everywhere, or everywhere up to its own position. Under
        ``--cross-self-attention`` the keys are those of the source and then the target's own.
        """
        T = prev_output_tokens.size(1)
        padding = prev_output_tokens.eq(self.padding_idx)
        if self.cross_self_attention and source_padding is not None:
            padding = torch.cat([source_padding, padding], dim=1)
        mask = token_mask(padding)
        S = padding.size(1)
        if causal and (mask is not None or S > T):
            earlier = causal_mask(T, S, padding.device)
            mask = earlier if mask is None else mask & earlier
        return mask

    def get_normalized_probs(
        self,
        net_output: Tuple[Tensor, Optional[Dict[str, List[Optional[Tensor]]]]],
        log_probs: bool,
        sample: Optional[Dict[str, Tensor]] = None,
    ):
        """(Log-)probabilities of the words, as fairseq's decoder returns them.

        Raises:
            UsageError: a criterion asks an adaptive softmax for them in training; fairseq computes
                them in place, which leaves no gradient.
        """
        if not torch.jit.is_scripting():
            if self.adaptive_softmax is not None and self.training and torch.is_grad_enabled():
                raise UsageError("--adaptive-softmax-cutoff needs --criterion adaptive_loss")
        return self.get_normalized_probs_scriptable(net_output, log_probs, sample)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str):
        """Gives weights under fairseq's names their names here."""
        state_dict = super().upgrade_state_dict_named(state_dict, name)
        for index, layer in enumerate(self.layers):
            layer.upgrade_state_dict_named(state_dict, f"{name}.layers.{index}")
        rename_closing_norm(state_dict, name)
        return state_dict
