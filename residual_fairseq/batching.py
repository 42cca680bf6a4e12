"""Keeps the last batch of a data set, which fairseq's main branch drops without a word."""

import functools

from fairseq.data import data_utils


def keep_last_batch() -> None:
    """Makes fairseq batch every sentence; calling it again changes nothing.

    fairseq's main branch, and so fairseq-fixed, throws the last batch of a data set away when its
    size is no multiple of ``--required-batch-size-multiple`` (default 8): in training, in
    validation, and in ``fairseq-generate``, where a whole batch of test sentences then gets no
    hypothesis. fairseq 0.12.2 keeps it.
    """
    batch_by_size = data_utils.batch_by_size
    if getattr(batch_by_size, "keeps_last_batch", False):
        return

    @functools.wraps(batch_by_size)
    def batches_of_all(indices, *args, **kwargs):
        batches = batch_by_size(indices, *args, **kwargs)
        batched = sum(len(batch) for batch in batches)
        if batched < len(indices):
            batches = [*batches, indices[batched:]]
        return batches

    batches_of_all.keeps_last_batch = True
    data_utils.batch_by_size = batches_of_all
