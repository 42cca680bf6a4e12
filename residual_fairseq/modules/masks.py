"""Attention masks: boolean, broadcastable to ``(B, H, T, S)``, True where a query may look."""

from typing import Optional

import torch
from torch import Tensor


def token_mask(padding: Tensor) -> Optional[Tensor]:
    """Every token and no padding, ``(B, 1, 1, S)``; None where there is no padding.

    Args:
        padding: boolean ``(B, S)``, True at padding.
    """
    if bool(padding.any()):
        return ~padding[:, None, None, :]
    return None


def causal_mask(T: int, S: int, device: torch.device) -> Tensor:
    """The query's own position and before, ``(T, S)``: the last T of S keys are the queries'."""
    return torch.ones(T, S, dtype=torch.bool, device=device).tril(S - T)
