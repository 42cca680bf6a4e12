"""BranchNorm depends on the number of updates, in training only."""

import pytest
import torch
import toy
from oracle import Transformer

from residual_fairseq.errors import UsageError


def test_fades_in_with_updates():
    model = toy.randomize(toy.model("branchnorm", branchnorm_updates=10), std=0.1)
    batch = toy.batch(lengths=((5, 4),))
    oracle = Transformer(toy.reference_names(model.state_dict()), 4, (2, 2))
    source, target = batch["src_tokens"][0], batch["prev_output_tokens"][0]
    whole = oracle.logits("branchnorm", source, target)
    for updates, alpha in ((0, 0.1), (4, 0.5), (9, 1.0), (500, 1.0)):
        model.set_num_updates(updates)
        with torch.no_grad():
            training = model.train()(**batch)[0][0]
            evaluation = model.eval()(**batch)[0][0]
        expected = oracle.logits("branchnorm", source, target, alpha=alpha)
        assert (training - expected).abs().max() < 1e-5 * expected.abs().max()
        assert (evaluation - whole).abs().max() < 1e-5 * whole.abs().max()


def test_is_post_ln_after_t_updates():
    post = toy.model("post").train()
    model = toy.model("branchnorm").train()
    weights = post.state_dict()
    weights["residual_connection"] = model.residual_connection
    model.load_state_dict(weights)
    model.set_num_updates(4000)
    assert torch.equal(model(**toy.batch())[0], post(**toy.batch())[0])


def test_updates_must_be_positive():
    with pytest.raises(UsageError, match="--branchnorm-updates must be at least 1, not 0"):
        toy.model("branchnorm", branchnorm_updates=0)
