"""Multi-head attention under fairseq's parameter names, on PyTorch's fused kernels."""

from typing import Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..connections import Inside
from .beams import moved_rows, regroup
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
            incremental_state: keys and values of earlier steps, which this step adds to. Those
                of cross-attention stay the ones of the first step; of a beam's rows they are held
                once, when T = 1 and the memory has fewer rows than the query.
            need_weights: also return the attention weights.
            scores: ``(B, H, T, S)``, of an earlier attention, to add to its own.

        Returns:
            The output ``(T, B, C)``, the attention weights ``(H, B, T, S)`` or None, and the
            scores before mask and softmax ``(B, H, T, S)`` if it adds scores, else None.
        """
        rows = query.size(1)
        if incremental_state is None:
            q, k, v = self.project(query, memory)
        else:
            q = self.q_proj(query)
            k, v = self.extend_cache(memory, incremental_state, rows)
        q, keys, values = self.split_heads(q), self.split_heads(k), self.split_heads(v)
        sentences = keys.size(0)
        if sentences != rows:
            # The rows of a sentence are queries of one batch element.
            q = q.view(sentences, -1, self.num_heads, self.head_dim).transpose(1, 2)

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
        if sentences != rows:
            context = context.transpose(1, 2).reshape(rows, self.num_heads, 1, self.head_dim)
            if weights is not None:
                weights = weights.reshape(self.num_heads, rows, 1, -1)
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
        weights = [projection.weight for projection in projections]
        biases = [projection.bias for projection in projections]
        if torch.is_autocast_enabled(x.device.type):
            y = F.linear(x, torch.cat(weights), torch.cat(biases))
        else:
            y = JoinedLinear.apply(x, *weights, *biases)
        return y.chunk(len(projections), dim=-1)

    def extend_cache(
        self,
        memory: Tensor,
        incremental_state: Dict[str, Dict[str, Optional[Tensor]]],
        rows: int,
    ) -> Tuple[Tensor, Tensor]:
        """Keys and values ``(S, B, C)`` of the earlier steps and of the new memory.

        They are in the first S places of longer tensors, so that a step writes what is new and
        moves nothing else. Those of cross-attention are there from the first step on.

        Args:
            rows: of the queries.
        """
        saved = self._get_input_buffer(incremental_state)
        if self.encoder_decoder_attention:
            if "keys" not in saved:
                saved["keys"], saved["values"] = self.k_proj(memory), self.v_proj(memory)
                saved["beam"] = torch.tensor(rows // memory.size(1))
                self._set_input_buffer(incremental_state, saved)
            k, v = saved["keys"], saved["values"]
            assert k is not None and v is not None
            return k, v
        k, v, length = self.k_proj(memory), self.v_proj(memory), 0
        keys: Optional[Tensor] = None
        values: Optional[Tensor] = None
        if "keys" in saved:
            keys, values = saved["keys"], saved["values"]
            before = saved["length"]
            assert before is not None
            length = int(before)
        keys, values = append(keys, length, k), append(values, length, v)
        length += k.size(0)
        saved["keys"], saved["values"], saved["length"] = keys, values, torch.tensor(length)
        self._set_input_buffer(incremental_state, saved)
        return keys[:length], values[:length]

    @torch.jit.export
    def reorder_incremental_state(
        self, incremental_state: Dict[str, Dict[str, Optional[Tensor]]], new_order: Tensor
    ):
        """Follows the beams: row i of the cache becomes what row ``new_order[i]`` was.

        fairseq's own leaves the keys of cross-attention where they are while the number of rows
        stays, which is right only for beams that stay within their sentence.
        """
        saved = self._get_input_buffer(incremental_state)
        keys: Optional[Tensor] = None
        values: Optional[Tensor] = None
        if "keys" in saved:
            keys, values = saved["keys"], saved["values"]
        if keys is None or values is None:
            return incremental_state
        if self.encoder_decoder_attention:
            before = saved["beam"]
            assert before is not None
            selected, beam = regroup(new_order, keys.size(1), int(before))
            saved["beam"] = torch.tensor(beam)
            if selected is not None:
                keys, values = keys.index_select(1, selected), values.index_select(1, selected)
        else:
            before = saved["length"]
            assert before is not None
            moved = moved_rows(new_order, keys.size(1))
            keys = follow(keys, int(before), new_order, moved)
            values = follow(values, int(before), new_order, moved)
        saved["keys"], saved["values"] = keys, values
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


class JoinedLinear(torch.autograd.Function):
    """Several linear layers of one input as one matrix product, forward and backward.

    Unlike ``linear`` of weights put together it keeps the weights themselves for the backward pass
    and puts them together there again: a copy of them for every layer would outweigh its inputs.
    """

    @staticmethod
    def forward(ctx, x: Tensor, *weights_and_biases: Tensor) -> Tensor:
        half = len(weights_and_biases) // 2
        weights, biases = weights_and_biases[:half], weights_and_biases[half:]
        ctx.save_for_backward(x, *weights)
        return F.linear(x, torch.cat(weights), torch.cat(biases))

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor):
        x, *weights = ctx.saved_tensors
        sizes = [weight.size(0) for weight in weights]
        dx = gradient.matmul(torch.cat(weights)) if ctx.needs_input_grad[0] else None
        dy = gradient.flatten(0, -2)
        dweight, dbias = dy.t().matmul(x.flatten(0, -2)), dy.sum(0)
        return (dx, *dweight.split(sizes), *dbias.split(sizes))


def append(cache: Optional[Tensor], length: int, x: Tensor, places: int = 32) -> Tensor:
    """The cache with x ``(T, B, C)`` in its places from ``length`` on; a longer one if need be.

    Args:
        cache: ``(places, B, C)``, changed in place where that leaves no gradient behind.
        length: how many places are taken.
        places: that a new cache has at least; it doubles when they are taken.
    """
    end = length + x.size(0)
    if x.requires_grad:
        return x if cache is None else torch.cat([cache[:length], x])
    if cache is None or cache.size(0) < end:
        longer = x.new_empty(max(places, 2 * end), x.size(1), x.size(2))
        if cache is not None:
            longer[:length] = cache[:length]
        cache = longer
    cache[length:end] = x
    return cache


def follow(cache: Tensor, length: int, new_order: Tensor, moved: Optional[Tensor]) -> Tensor:
    """The cache ``(places, B, C)`` with its rows in another order; only those that move are copied.

    Args:
        length: how many places are taken.
        new_order: by new row the old one.
        moved: the rows that are to be copied; None where the number of rows changes.
    """
    if moved is None or cache.requires_grad:
        return cache.index_select(1, new_order)
    if moved.numel() > 0:
        taken = cache[:length]
        taken.index_copy_(1, moved, taken.index_select(1, new_order.index_select(0, moved)))
    return cache
