"""Multi-head attention under fairseq's parameter names, on PyTorch's fused kernels."""

from typing import Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ..connections import Inside
from .masks import causal_mask

PLAIN = Inside()


class Attention(MultiheadAttention):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    Parameters, their names and their initialisation are fairseq's. Unlike fairseq's, it always
    takes ``scaled_dot_product_attention``, in cross-attention and step by step too; it computes
    the attention weights only when they are asked for; and quantisation noise reaches its
    projections.

    Args (those of fairseq's class that matter here):
        embed_dim: C; ``num_heads`` must divide it.
        num_heads: H.
        kdim, vdim: width of the memory, where it is not C.
        dropout: of the attention weights, default 0.
        self_attention: the memory is always the queries themselves.
        encoder_decoder_attention: the memory is always the encoder's output.
        q_noise, qn_block_size: quantisation noise on the four projections, default none.
        inside: what a scheme wants within it, default nothing.
    """

    def __init__(self, embed_dim: int, num_heads: int, inside: Inside = PLAIN, **options) -> None:
        super().__init__(embed_dim, num_heads, **options)
        self.head_scale = nn.Parameter(torch.ones(num_heads)) if inside.head_scale else None
        self.scales_output = inside.head_scale == "output"
        self.context_norm = nn.LayerNorm(embed_dim) if inside.context_norm else None
        self.output_norm = nn.LayerNorm(embed_dim) if inside.output_norm else None
        self.adds_scores = inside.adds_scores
        self.score_divisor = inside.score_divisor
        # The name that --retain-dropout-modules knows it by.
        self.dropout_module.module_name = "MultiheadAttention"

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        mask: Optional[Tensor] = None,
        causal: bool = False,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        need_weights: bool = False,
        scores: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """Attends from the queries to the memory.

        Args:
            query: ``(T, B, C)``.
            memory: ``(S, B, kdim)``, what keys and values are made of. With an incremental state,
                only what is new in it.
            mask: boolean, broadcastable to ``(B, H, T, S)``; True where a query may look.
            causal: a query looks at its own position and before. Not together with a mask.
            incremental_state: keys and values of earlier steps, which this step adds to.
            need_weights: also return the attention weights.
            scores: ``(B, H, T, S)``, of an earlier attention, to add to its own.

        Returns:
            The output ``(T, B, C)``, the attention weights ``(H, B, T, S)`` or None, and the
            scores before mask and softmax ``(B, H, T, S)`` if it adds scores, else None.
        """
        if incremental_state is None:
            q, k, v = self.project(query, memory)
            keys, values = self.split_heads(k), self.split_heads(v)
        else:
            q = self.q_proj(query)
            keys, values = self.extend_cache(memory, incremental_state)
        q = self.split_heads(q)

        dropout = 0.0
        if self.training or self.dropout_module.apply_during_inference:
            dropout = float(self.dropout_module.p)
        weights: Optional[Tensor] = None
        if need_weights or self.adds_scores:
            own = torch.matmul(q * self.scaling, keys.transpose(2, 3))
            scores = own if scores is None else own + scores
            weights = self.attention_weights(scores / self.score_divisor, mask, causal)
            context = torch.matmul(F.dropout(weights, dropout, training=True), values)
            weights = weights.transpose(0, 1)
        else:
            context = F.scaled_dot_product_attention(
                q, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        y = self.project_output(context.permute(2, 0, 1, 3))
        return y, weights if need_weights else None, scores if self.adds_scores else None

    def project_output(self, context: Tensor) -> Tensor:
        """The output ``(T, B, C)``, from the context of each head, ``(T, B, H, C / H)``."""
        T, B, H, _ = context.shape
        if self.head_scale is not None and not self.scales_output:
            context = context * self.head_scale.unsqueeze(-1)
        x = context.reshape(T, B, self.embed_dim)
        if self.context_norm is not None:
            x = self.context_norm(x)
        y = self.out_proj(x)
        if self.head_scale is not None and self.scales_output:
            y = (y.view(T, B, H, -1) * self.head_scale.unsqueeze(-1)).view(T, B, self.embed_dim)
        if self.output_norm is not None:
            y = self.output_norm(y)
        return y

    def project(self, query: Tensor, memory: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each ``(T or S, B, C)``.

        In training those of one input come from one matrix product, whose backward pass is one
        too. Elsewhere putting the weights together would cost more than it saves.
        """
        if torch.jit.is_scripting():
            return self.q_proj(query), self.k_proj(memory), self.v_proj(memory)
        elif not self.training or not self.are_plain():
            return self.q_proj(query), self.k_proj(memory), self.v_proj(memory)
        elif self.self_attention:
            return self.project_together(query, self.q_proj, self.k_proj, self.v_proj)
        else:
            return (self.q_proj(query), *self.project_together(memory, self.k_proj, self.v_proj))

    @torch.jit.unused
    def are_plain(self) -> bool:
        """Whether the projections are nothing but matrices.

        Quantisation noise hooks into them, and fairseq's scalar kind replaces them after the
        model was built: then they have to be called as modules.
        """
        projections = (self.q_proj, self.k_proj, self.v_proj)
        return all(type(p) is nn.Linear and not p._forward_pre_hooks for p in projections)

    @torch.jit.unused
    def project_together(self, x: Tensor, *projections):
        weight = torch.cat([projection.weight for projection in projections])
        bias = torch.cat([projection.bias for projection in projections])
        return F.linear(x, weight, bias).chunk(len(projections), dim=-1)

    def extend_cache(
        self, memory: Tensor, incremental_state: Dict[str, Dict[str, Optional[Tensor]]]
    ) -> Tuple[Tensor, Tensor]:
        """Keys and values ``(B, H, S, C / H)`` of the earlier steps and of the new memory.

        Those of cross-attention are there from the first step on.
        """
        saved = self._get_input_buffer(incremental_state)
        keys: Optional[Tensor] = None
        values: Optional[Tensor] = None
        if "prev_key" in saved:
            keys, values = saved["prev_key"], saved["prev_value"]
        if keys is not None and values is not None and self.encoder_decoder_attention:
            return keys, values
        k = self.split_heads(self.k_proj(memory))
        v = self.split_heads(self.v_proj(memory))
        if keys is not None and values is not None:
            k = torch.cat([keys, k], dim=2)
            v = torch.cat([values, v], dim=2)
        saved["prev_key"], saved["prev_value"] = k, v
        self._set_input_buffer(incremental_state, saved)
        return k, v

    @torch.jit.export
    def reorder_incremental_state(
        self, incremental_state: Dict[str, Dict[str, Optional[Tensor]]], new_order: Tensor
    ):
        """Follows the beams: row i of the cache becomes what row ``new_order[i]`` was.

        fairseq's own leaves the keys of cross-attention where they are while the number of rows
        stays, which is right only for beams that stay within their sentence.
        """
        saved = self._get_input_buffer(incremental_state)
        for name in saved.keys():
            cached = saved[name]
            if cached is not None:
                saved[name] = cached.index_select(0, new_order)
        return self._set_input_buffer(incremental_state, saved)

    def split_heads(self, x: Tensor) -> Tensor:
        """``(T, B, C)`` to ``(B, H, T, C / H)``."""
        T, B, _ = x.shape
        return x.view(T, B, self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def attention_weights(self, scores: Tensor, mask: Optional[Tensor], causal: bool) -> Tensor:
        """Softmax of the scores ``(B, H, T, S)`` where a query may look, in float32 and back."""
        if causal:
            mask = causal_mask(scores.size(2), scores.size(3), scores.device)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1, dtype=torch.float32).type_as(scores)
