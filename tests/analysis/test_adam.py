"""Adam's updates are those of PyTorch's Adam on the same gradients."""

import pytest
import torch
import toy

from residual_fairseq.analysis.adam import adam_updates
from residual_fairseq.analysis.gradients import part_of
from residual_fairseq.analysis.probe import loss_of

BATCHES = [toy.sample(seed=seed) for seed in range(4)]


@pytest.mark.parametrize("scale", [1.0, 1e-7])
@pytest.mark.parametrize("connection", ["post", "residual"])
def test_updates_are_those_of_pytorch(connection, scale):
    model = toy.model(connection).double()
    found = adam_updates(model, BATCHES, [scale])[scale]
    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, stack).layers):
            parameters = [p for n, p in layer.named_parameters() if part_of(n)]
            # Others that take the steps, so that the gradients stay those of the model.
            others = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
            optimizer = torch.optim.Adam(others, lr=1.0, betas=(0.9, 0.98), eps=1e-8)
            for batch in BATCHES:
                before = torch.cat([p.detach().flatten() for p in others])
                gradients = torch.autograd.grad(
                    scale * loss_of(model, batch), parameters, allow_unused=True
                )
                for other, p, gradient in zip(others, parameters, gradients):
                    other.grad = torch.zeros_like(p) if gradient is None else gradient
                optimizer.step()
            update = torch.cat([p.detach().flatten() for p in others]) - before
            square = torch.cat([optimizer.state[p]["exp_avg_sq"].flatten() for p in others])
            square = square / (1 - 0.98 ** len(BATCHES))
            expected = {
                "update": update.square().mean().sqrt(),
                "gradient": square.mean().sqrt(),
                "share_below": (square < 1e-16).double().mean(),
            }
            for measure, value in expected.items():
                assert found[stack][measure][i] == pytest.approx(value.item(), rel=1e-3), measure


def test_a_uniform_scale_is_hidden_until_eps_bites():
    found = adam_updates(toy.model("post"), BATCHES, [1.0, 1e-2, 1e-9])
    large, small, lost = (found[scale]["encoder"] for scale in (1.0, 1e-2, 1e-9))
    assert small["update"] == pytest.approx(large["update"], rel=1e-2)
    assert max(lost["update"]) < 0.2 * min(large["update"])
    assert min(lost["share_below"]) > 0.9 > 0.2 > max(large["share_below"])
