"""The equations of a Transformer in plain PyTorch, over weights under fairseq's names.

Nothing here is shared with the package or with fairseq: a sentence is a vector of token ids
without padding, there is no batch, and every formula is written out.
"""

import math
from functools import partial

import torch


class Transformer:
    """A Transformer of given weights, one sentence pair at a time.

    Args:
        weights: a state dict under the names of fairseq's transformer; those of the ResiDual
            reference code are the same and ``encoder.layer_norm``, ``decoder.layer_norm``.
        heads: attention heads.
        layers: (N, M), of the encoder and of the decoder.
    """

    def __init__(self, weights, heads, layers):
        self.weights = {name: value.double() for name, value in weights.items()}
        self.heads = heads
        self.layers = dict(zip(("encoder", "decoder"), layers))

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, name, x, memory, causal):
        q = self.linear(f"{name}.q_proj", x).chunk(self.heads, dim=-1)
        k = self.linear(f"{name}.k_proj", memory).chunk(self.heads, dim=-1)
        v = self.linear(f"{name}.v_proj", memory).chunk(self.heads, dim=-1)
        contexts = []
        for q_h, k_h, v_h in zip(q, k, v):
            scores = q_h @ k_h.T / math.sqrt(q_h.size(-1))
            if causal:
                later = torch.ones_like(scores).triu(1).bool()
                scores = scores.masked_fill(later, -math.inf)
            contexts.append(torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ v_h)
        return self.linear(f"{name}.out_proj", torch.cat(contexts, dim=-1))

    def self_attention(self, stack, name, x):
        return self.attention(f"{name}.self_attn", x, x, causal=stack == "decoder")

    def cross(self, name, memory, x):
        return self.attention(f"{name}.encoder_attn", x, memory, causal=False)

    def feed_forward(self, name, x):
        return self.linear(f"{name}.fc2", self.linear(f"{name}.fc1", x).clamp(min=0))

    def embed(self, stack, tokens):
        table = self.weights[f"{stack}.embed_tokens.weight"]
        d = table.size(1)
        # Positions count from 2: fairseq keeps 0 and 1 for its padding symbol.
        position = torch.arange(2, 2 + len(tokens), dtype=torch.float64)[:, None]
        rate = torch.exp(
            torch.arange(d // 2, dtype=torch.float64) * -(math.log(10000) / (d // 2 - 1))
        )
        angles = position * rate
        return math.sqrt(d) * table[tokens] + torch.cat([angles.sin(), angles.cos()], dim=-1)

    def sublayers(self, stack, memory):
        """(name of its LayerNorm, f) of each sublayer of a stack, from bottom to top."""
        for layer in range(self.layers[stack]):
            name = f"{stack}.layers.{layer}"
            yield f"{name}.self_attn_layer_norm", partial(self.self_attention, stack, name)
            if stack == "decoder":
                yield f"{name}.encoder_attn_layer_norm", partial(self.cross, name, memory)
            yield f"{name}.final_layer_norm", partial(self.feed_forward, name)

    def post(self, stack, x, memory=None):
        for norm, f in self.sublayers(stack, memory):
            x = self.norm(norm, x + f(x))
        return x

    def pre(self, stack, x, memory=None):
        for norm, f in self.sublayers(stack, memory):
            x = x + f(self.norm(norm, x))
        return self.norm(f"{stack}.layer_norm", x)

    def residual(self, stack, x, memory=None):
        x_ln, x_d = x, x
        for norm, f in self.sublayers(stack, memory):
            y = f(x_ln)
            x_ln = self.norm(norm, x_ln + y)
            x_d = x_d + y
        return x_ln + self.norm(f"{stack}.layer_norm", x_d, eps=1e-7)

    def logits(self, connection, source, target):
        """``(T, V)`` for a source and a target prefix of token ids."""
        run = getattr(self, connection)
        memory = run("encoder", self.embed("encoder", source))
        features = run("decoder", self.embed("decoder", target), memory)
        return features @ self.weights["decoder.output_projection.weight"].T
