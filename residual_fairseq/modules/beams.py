"""Rows of a batch in beam search: which of them move, and which share a sentence.

The rows of sentence i are ``i * beam ... (i + 1) * beam - 1``. What is made of the source alone is
held once a sentence, and what a beam has made once a row.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor


def moved_rows(new_order: Tensor, rows: int) -> Optional[Tensor]:
    """The rows that are to hold what another one held; None where their number changes.

    Args:
        new_order: by new row the old one, ``(rows afterwards,)``.
        rows: how many there were.
    """
    if new_order.numel() != rows:
        return None
    stay = torch.arange(rows, device=new_order.device)
    return torch.ne(new_order, stay).nonzero().squeeze(1)


def regroup(new_order: Tensor, sentences: int, beam: int) -> Tuple[Optional[Tensor], int]:
    """What is to be done to something that is held once a sentence when rows are reordered.

    Args:
        new_order: by new row the old one, ``(rows afterwards,)``; any order is possible.
        sentences: how many are held.
        beam: rows of each.

    Returns:
        by new sentence the old one, None if all stay as they are; and the rows of each then.
    """
    rows = new_order.numel()
    sentence = torch.div(new_order, beam, rounding_mode="floor")
    if sentences > 0 and rows > 0 and rows % sentences == 0:
        stay = torch.arange(sentences, device=new_order.device)
        if torch.equal(sentence.view(sentences, -1), stay[:, None].expand(-1, rows // sentences)):
            return None, rows // sentences
    if rows % beam == 0:
        groups = sentence.view(-1, beam)
        if torch.equal(groups, groups[:, :1].expand(-1, beam)):
            return groups[:, 0].contiguous(), beam
    return sentence, 1
