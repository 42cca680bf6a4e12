"""Hyper-Connections: Zhu et al. 2024, Hyper-Connections, arXiv 2409.19606."""

from dataclasses import dataclass, field
from typing import List

import torch
from torch import Tensor, nn

from .connection import Connection, register_connection


@register_connection("hc-static")
class StaticHyperConnections(Connection):
    r"""n streams, mixed by learned matrices at every sublayer.

    .. math:: h \in \mathbb{R}^{n \times C}, \qquad h_0 = (x, \ldots, x)

    .. math:: z = A_m^\top h, \qquad y = f(\mathrm{LN}(z)), \qquad h' = A_r^\top h + B^\top y

    .. math:: \text{output} = \mathrm{LN}\Big(\sum_i h_i\Big)

    At first B = (1, ..., 1), A_r = I and A_m = the one-hot vector of k mod n, k the index of the
    sublayer within its stack: the network is then Pre-LN. Published for language models; here the
    encoder is closed before cross-attention sees it, and each stack counts its own k.

    The equations come from long quotations of the paper. It leaves the static parts out of weight
    decay; fairseq's optimizers decay all parameters alike, so here they are decayed too. It also
    rescales the initial weights of output matrices by √n in a direction that the text leaves
    open; that is left out, since the last LayerNorm removes the factor.
    """

    @dataclass
    class Options:
        hc_streams: int = field(
            default=4, metadata={"help": "Hyper-Connections: n, the number of streams"}
        )

    def __init__(self, place, options):
        super().__init__(place, options)
        self.n = options.hc_streams
        if self.n < 1:
            raise ValueError(f"--hc-streams must be at least 1, not {self.n}")
        self.layer_norm = nn.LayerNorm(place.embed_dim)
        if not place.at_ends:
            k = place.layer * place.sublayers + place.index
            identity = torch.eye(self.n)
            self.A_m = nn.Parameter(identity[k % self.n].clone())
            self.A_r = nn.Parameter(identity)
            self.B = nn.Parameter(torch.ones(self.n))

    def open(self, x: Tensor) -> List[Tensor]:
        return [x for _ in range(self.n)]

    def read(self, stream: List[Tensor]) -> Tensor:
        h = torch.stack(stream)
        return self.layer_norm(torch.einsum("i,itbc->tbc", self.A_m, h))

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        h = torch.stack(stream)
        mixed = torch.einsum("ij,itbc->jtbc", self.A_r, h)
        return list(torch.unbind(mixed + self.B[:, None, None, None] * y))

    def close(self, stream: List[Tensor]) -> Tensor:
        return self.layer_norm(torch.stack(stream).sum(dim=0))


@register_connection("hc")
class HyperConnections(StaticHyperConnections):
    r"""n streams, mixed at every sublayer by matrices that depend on the token.

    As `StaticHyperConnections`, where each of the matrices is the learned one and, with
    H = LN(h) for each stream,

    .. math:: A_m(h) = A_m + s_a \tanh(H W_m), \qquad A_r(h) = A_r + s_a \tanh(H W_r), \qquad
              B(h) = B + s_b \tanh(H W_b)^\top

    At first W_m = 0, W_r = 0, W_b = 0 and s_a = s_b = 0.01: the network is then Pre-LN too.
    """

    def __init__(self, place, options):
        super().__init__(place, options)
        if not place.at_ends:
            self.stream_norm = nn.LayerNorm(place.embed_dim)
            self.W_m = nn.Parameter(torch.zeros(place.embed_dim))
            self.W_r = nn.Parameter(torch.zeros(place.embed_dim, self.n))
            self.W_b = nn.Parameter(torch.zeros(place.embed_dim))
            self.s_a = nn.Parameter(torch.tensor(0.01))
            self.s_b = nn.Parameter(torch.tensor(0.01))

    def read(self, stream: List[Tensor]) -> Tensor:
        h = torch.stack(stream)
        H = self.stream_norm(h)
        A_m = self.A_m[:, None, None] + self.s_a * torch.tanh(torch.matmul(H, self.W_m))
        return self.layer_norm(torch.einsum("itb,itbc->tbc", A_m, h))

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        h = torch.stack(stream)
        H = self.stream_norm(h)
        A_r = self.A_r[:, None, None, :] + self.s_a * torch.tanh(torch.matmul(H, self.W_r))
        B = self.B[:, None, None] + self.s_b * torch.tanh(torch.matmul(H, self.W_b))
        mixed = torch.einsum("itbj,itbc->jtbc", A_r, h)
        return list(torch.unbind(mixed + B.unsqueeze(-1) * y))
