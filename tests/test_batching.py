"""No sentence is left out of the batches."""

import numpy as np
import pytest
from fairseq.data import data_utils

import residual_fairseq  # noqa: F401


@pytest.mark.parametrize("sentences", [1, 7, 8, 48, 49, 50, 300])
@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("as_vector", [True, False])
def test_every_sentence_is_in_one_batch(sentences, multiple, as_vector):
    sizes = np.sort(np.random.default_rng(1).integers(2, 40, sentences))
    indices = np.random.default_rng(2).permutation(sentences)
    batches = data_utils.batch_by_size(
        indices,
        lambda index: sizes[index],
        num_tokens_vec=sizes[indices] if as_vector else None,
        max_tokens=200,
        required_batch_size_multiple=multiple,
    )
    assert [index for batch in batches for index in batch] == indices.tolist()
    assert all(len(batch) * sizes[batch].max() <= 200 for batch in batches)
