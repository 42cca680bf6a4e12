"""The equations of a Transformer in plain PyTorch, over weights under fairseq's names.

Nothing here is shared with the package or with fairseq: a sentence is a vector of token ids
without padding, there is no batch, and every formula is written out.
"""

import math
from functools import partial
from typing import Callable, NamedTuple

import torch


class Sublayer(NamedTuple):
    """A sublayer f and where it is; names are those of weights."""

    norm: str
    f: Callable
    kind: str
    layer: int
    name: str
    connection: str
    first: bool
    last: bool


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
        self.attention_heads = heads
        self.layers = dict(zip(("encoder", "decoder"), layers))

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def heads(self, name, x, memory, causal, earlier=None, divisor=1):
        """The context of each head, ``(T, C / H)``, and its scores before the mask."""
        q = self.linear(f"{name}.q_proj", x).chunk(self.attention_heads, dim=-1)
        k = self.linear(f"{name}.k_proj", memory).chunk(self.attention_heads, dim=-1)
        v = self.linear(f"{name}.v_proj", memory).chunk(self.attention_heads, dim=-1)
        contexts, handed_on = [], []
        for h, (q_h, k_h, v_h) in enumerate(zip(q, k, v)):
            scores = q_h @ k_h.T / math.sqrt(q_h.size(-1))
            if earlier is not None:
                scores = scores + earlier[h]
            handed_on.append(scores)
            scores = scores / divisor
            if causal:
                later = torch.ones_like(scores).triu(1).bool()
                scores = scores.masked_fill(later, -math.inf)
            contexts.append(torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ v_h)
        return contexts, handed_on

    def attention(self, name, x, memory, causal):
        contexts, _ = self.heads(name, x, memory, causal)
        return self.linear(f"{name}.out_proj", torch.cat(contexts, dim=-1))

    def self_attention(self, stack, name, x):
        return self.attention(f"{name}.self_attn", x, x, causal=stack == "decoder")

    def cross(self, name, x, memory):
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
        """Each sublayer of a stack, from bottom to top."""
        for layer in range(self.layers[stack]):
            name = f"{stack}.layers.{layer}"
            kinds = [("self_attn", "self_attn_layer_norm", partial(self.self_attention, stack))]
            if stack == "decoder":
                cross = partial(self.cross, memory=memory)
                kinds.append(("encoder_attn", "encoder_attn_layer_norm", cross))
            kinds.append(("ffn", "final_layer_norm", self.feed_forward))
            for index, (kind, norm, f) in enumerate(kinds):
                yield Sublayer(
                    norm=f"{name}.{norm}",
                    f=partial(f, name),
                    kind=kind,
                    layer=layer,
                    name=name,
                    connection=f"{name}.{kind}_connection",
                    first=index == 0,
                    last=index == len(kinds) - 1,
                )

    def post(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            x = self.norm(sub.norm, x + sub.f(x))
        return x

    def pre(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            x = x + sub.f(self.norm(sub.norm, x))
        return self.norm(f"{stack}.layer_norm", x)

    def residual(self, stack, x, memory=None):
        x_ln, x_d = x, x
        for sub in self.sublayers(stack, memory):
            y = sub.f(x_ln)
            x_ln = self.norm(sub.norm, x_ln + y)
            x_d = x_d + y
        return x_ln + self.norm(f"{stack}.layer_norm", x_d, eps=1e-7)

    def deepnorm(self, stack, x, memory=None):
        N, M = self.layers["encoder"], self.layers["decoder"]
        alpha = 0.81 * (N**4 * M) ** 0.0625 if stack == "encoder" else (3 * M) ** 0.25
        for sub in self.sublayers(stack, memory):
            x = self.norm(sub.norm, alpha * x + sub.f(x))
        return x

    def b2t(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            if sub.first:
                bottom = x
            total = x + sub.f(x)
            x = self.norm(sub.norm, total + bottom if sub.last else total)
        return x

    def dlcl(self, stack, x, memory=None):
        """Layer by layer: the combination, a Pre-LN layer, the history."""
        history = [x]
        x = self.weights[f"{stack}.connection.W"][0] * x
        for sub in self.sublayers(stack, memory):
            x = x + sub.f(self.norm(sub.norm, x))
            if sub.last:
                history.append(self.norm(f"{sub.connection}.history_norm", x))
                x = self.combined(sub, history)
        return self.norm(f"{stack}.layer_norm", x)

    def dlcl_post(self, stack, x, memory=None):
        history = [x]
        x = self.weights[f"{stack}.connection.W"][0] * x
        for sub in self.sublayers(stack, memory):
            x = self.norm(sub.norm, x + sub.f(x))
            if sub.last:
                history.append(x)
                x = self.norm(f"{sub.connection}.history_norm", self.combined(sub, history))
        return x

    def combined(self, sub, history):
        row = self.weights[f"{sub.connection}.W"]
        assert row.shape == (len(history),)
        return torch.einsum("k,ktc->tc", row, torch.stack(history))

    def admin(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            omega = self.weights[f"{sub.connection}.omega_0"]
            omega = omega + self.weights[f"{sub.connection}.delta"]
            x = self.norm(sub.norm, omega * x + sub.f(x))
        return x

    def admin_closed(self, stack, x, memory=None):
        R = len(list(self.sublayers(stack, memory)))
        omega = math.sqrt((R + 1) / math.log(R + 1) - 1)
        for sub in self.sublayers(stack, memory):
            x = self.norm(sub.norm, omega * x + sub.f(x))
        return x

    def rezero(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            x = x + self.weights[f"{sub.name}.self_attn_connection.alpha"] * sub.f(x)
        return x

    def tfixup(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            x = x + sub.f(x)
        return x

    def tau(self, stack, x, memory=None):
        L = len(list(self.sublayers(stack, memory)))
        for sub in self.sublayers(stack, memory):
            x = x + sub.f(self.norm(sub.norm, x)) / math.sqrt(L)
        return self.norm(f"{stack}.layer_norm", x)

    def realformer(self, stack, x, memory=None, mean=False):
        scores = {}
        for sub in self.sublayers(stack, memory):
            if sub.kind == "ffn":
                y = sub.f(x)
            else:
                attention = f"{sub.name}.{sub.kind}"
                seen = x if sub.kind == "self_attn" else memory
                causal = stack == "decoder" and sub.kind == "self_attn"
                divisor = sub.layer + 1 if mean else 1
                contexts, scores[sub.kind] = self.heads(
                    attention, x, seen, causal, scores.get(sub.kind), divisor
                )
                y = self.linear(f"{attention}.out_proj", torch.cat(contexts, dim=-1))
            x = self.norm(sub.norm, x + y)
        return x

    def normformer(self, stack, x, memory=None, after=False):
        for sub in self.sublayers(stack, memory):
            z = self.norm(sub.norm, x)
            if sub.kind == "self_attn":
                attention = f"{sub.name}.self_attn"
                gamma = self.weights[f"{attention}.head_scale"]
                contexts, _ = self.heads(attention, z, z, stack == "decoder")
                if not after:
                    contexts = [g * context for g, context in zip(gamma, contexts)]
                y = self.linear(f"{attention}.out_proj", torch.cat(contexts, dim=-1))
                if after:
                    y = y * gamma.repeat_interleave(y.size(-1) // len(gamma))
                y = self.norm(f"{attention}.output_norm", y)
            elif sub.kind == "ffn":
                y = self.normed_feed_forward(sub.name, z)
            else:
                y = sub.f(z)
            x = x + y
        return self.norm(f"{stack}.layer_norm", x)

    def subln(self, stack, x, memory=None):
        for sub in self.sublayers(stack, memory):
            z = self.norm(sub.norm, x)
            if sub.kind == "self_attn":
                attention = f"{sub.name}.self_attn"
                contexts, _ = self.heads(attention, z, z, stack == "decoder")
                context = self.norm(f"{attention}.context_norm", torch.cat(contexts, dim=-1))
                y = self.linear(f"{attention}.out_proj", context)
            elif sub.kind == "ffn":
                y = self.normed_feed_forward(sub.name, z)
            else:
                y = sub.f(z)
            x = x + y
        return self.norm(f"{stack}.layer_norm", x)

    def normed_feed_forward(self, name, x):
        hidden = self.linear(f"{name}.fc1", x).clamp(min=0)
        return self.linear(f"{name}.fc2", self.norm(f"{name}.ffn_layernorm", hidden))

    def branchnorm(self, stack, x, memory=None, alpha=1.0):
        for sub in self.sublayers(stack, memory):
            x = self.norm(sub.norm, x + alpha * sub.f(x))
        return x

    def hc_static(self, stack, x, memory=None):
        h = [x] * 4
        for sub in self.sublayers(stack, memory):
            A_m, A_r, B = (self.weights[f"{sub.connection}.{w}"] for w in ("A_m", "A_r", "B"))
            n = range(len(h))
            y = sub.f(self.norm(sub.norm, sum(A_m[i] * h[i] for i in n)))
            h = [sum(A_r[i, j] * h[i] for i in n) + B[j] * y for j in n]
        return self.norm(f"{stack}.layer_norm", sum(h))

    def hc(self, stack, x, memory=None):
        """Token by token."""
        h = torch.stack([x] * 4, dim=1)
        for sub in self.sublayers(stack, memory):
            own = {
                name.rpartition(".")[2]: value
                for name, value in self.weights.items()
                if name.startswith(f"{sub.connection}.")
            }
            normed = self.norm(f"{sub.connection}.stream_norm", h)
            z, kept, gates = [], [], []
            for token, H in zip(h, normed):
                A_m = own["A_m"] + own["s_a"] * torch.tanh(H @ own["W_m"])
                A_r = own["A_r"] + own["s_a"] * torch.tanh(H @ own["W_r"])
                B = own["B"] + own["s_b"] * torch.tanh(H @ own["W_b"])
                z.append(A_m @ token)
                kept.append(A_r.T @ token)
                gates.append(B)
            y = sub.f(self.norm(sub.norm, torch.stack(z)))
            h = torch.stack([k + b[:, None] * o for k, b, o in zip(kept, gates, y)])
        return self.norm(f"{stack}.layer_norm", h.sum(dim=1))

    def logits(self, connection, source, target, **options):
        """``(T, V)`` for a source and a target prefix of token ids."""
        run = partial(getattr(self, connection.replace("-", "_")), **options)
        memory = run("encoder", self.embed("encoder", source))
        features = run("decoder", self.embed("decoder", target), memory)
        return features @ self.weights["decoder.output_projection.weight"].T
