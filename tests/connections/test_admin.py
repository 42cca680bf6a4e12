"""Admin measures once, before the first update, the same on all workers."""

import os

import pytest
import torch
import torch.multiprocessing
import toy
from conftest import free_port


def scales(model):
    """omega_0 of each sublayer, by the name of its connection."""
    return {n: b.clone() for n, b in model.named_buffers() if n.endswith("omega_0")}


def test_scales_add_up_the_variances_of_the_branches():
    """Each omega squared is the variance of the residual sum below it, encoder and decoder."""
    model = toy.model("admin", encoder_layers=4, dropout=0.1).train()
    seen = {}

    def record(name, profile):
        def recorded(stream, y):
            seen[name] = (stream[0].float(), y.float())
            return profile(stream, y)

        return recorded

    for name, module in model.named_modules():
        if name.endswith("_connection"):
            module.profile = record(name, module.profile)
    model(**toy.batch())
    for stack, places in (("encoder", 2), ("decoder", 3)):
        square = torch.ones(())
        names = [name for name in seen if name.startswith(stack)]
        assert len(names) == places * len(getattr(model, stack).layers)
        for name in names:
            omega = model.get_submodule(name).omega_0
            assert omega**2 == pytest.approx(square.item(), rel=1e-5)
            x, y = seen[name]
            sum_of_both = (omega * x + y).var(unbiased=False)
            square = (omega * x).var(unbiased=False) + y.var(unbiased=False)
            # The next scale brings the sum to variance 1, but for x and y going together.
            assert (sum_of_both / square).item() == pytest.approx(1, abs=0.3)
        # Branches of variance above 0 make each larger than the one below.
        assert square > 1


def test_measures_once_and_before_any_gradient():
    model = toy.model("admin")
    model(**toy.batch())
    assert all(scale == 1 for scale in scales(model).values()), "in evaluation mode"
    model.train()
    model(**toy.batch())[0].sum().backward()
    measured = scales(model)
    assert len(set(map(float, measured.values()))) > 5
    model(**toy.batch(seed=5))
    assert all(torch.equal(scale, measured[name]) for name, scale in scales(model).items())


def test_a_checkpoint_is_not_measured_again():
    model = toy.model("admin").train()
    model(**toy.batch())
    resumed = toy.model("admin", seed=9).train()
    resumed.load_state_dict(model.state_dict())
    resumed(**toy.batch(seed=5))
    assert all(torch.equal(scale, scales(model)[n]) for n, scale in scales(resumed).items())


def test_measures_under_checkpointing_and_layer_drop():
    flags = {"encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9, "checkpoint_activations": True}
    model = toy.model("admin", **flags).train()
    model(**toy.batch())
    plain = toy.model("admin").train()
    plain(**toy.batch())
    assert all(torch.equal(scale, scales(plain)[n]) for n, scale in scales(model).items())
    assert model.encoder.layers.p == 0.9


def test_a_pass_that_fails_leaves_nothing_behind(monkeypatch):
    """fairseq goes on after a batch that did not fit into memory."""
    model = toy.model("admin", encoder_layerdrop=0.5).train()
    with monkeypatch.context() as patch:
        patch.setattr(model.decoder, "forward", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(**toy.batch())
    assert not model.encoder.connection.profiling
    assert model.encoder.layers.p == 0.5
    model(**toy.batch())
    assert all(scale > 0 for scale in scales(model).values()) and model.profiled


def work(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = toy.model("admin").train()
    model(**toy.batch(seed=rank))
    torch.save(scales(model), folder / f"{rank}.pt")


@pytest.mark.slow
def test_workers_agree(tmp_path):
    torch.multiprocessing.spawn(work, (free_port(), tmp_path), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert all(torch.equal(scale, second[name]) for name, scale in first.items())
    alone = toy.model("admin").train()
    alone(**toy.batch(seed=0))
    assert all(scale == pytest.approx(first[name]) for name, scale in scales(alone).items())
