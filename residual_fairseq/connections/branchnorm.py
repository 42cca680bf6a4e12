"""BranchNorm: Liu et al. 2023, BranchNorm: Robustly Scaling Extremely Deep Transformers,
arXiv 2305.02790."""

from dataclasses import dataclass, field
from typing import List

from torch import Tensor

from .connection import register_connection
from .post import PostLN


@register_connection("branchnorm")
class BranchNorm(PostLN):
    r"""Post-LN whose branches fade in over the first updates.

    .. math:: x_{k+1} = \mathrm{LN}(x_k + \alpha_t \, f(x_k)), \qquad
              \alpha_t = \min(1, t / T)

    t is the number of the update being made, from 1; after T updates, and in evaluation mode,
    this is Post-LN. A training that ends before is evaluated as a model that it never was.

    No public code was found, and the full text was not at hand: the form comes from a
    third party's description, the linear schedule from memory, and T, which the paper calls the
    maximum norm step, is our own choice: 4,000, the length of a common learning-rate warm-up.
    """

    @dataclass
    class Options:
        branchnorm_updates: int = field(
            default=4000,
            metadata={"help": "BranchNorm: T, the updates over which branches fade in"},
        )

    supported_flags = frozenset()

    def __init__(self, place, options):
        super().__init__(place, options)
        self.T = options.branchnorm_updates
        if self.T < 1:
            raise ValueError(f"--branchnorm-updates must be at least 1, not {self.T}")
        self.settled_after = self.T
        self.set_num_updates(0)

    def set_num_updates(self, num_updates: int) -> None:
        self.alpha = min(1.0, (num_updates + 1) / self.T)

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        if self.training:
            y = self.alpha * y
        return [self.layer_norm(stream[0] + y)]
