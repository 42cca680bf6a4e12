"""Gradient norms are those that autograd gives another way; probing leaves no trace."""

import copy

import pytest
import torch
import toy

from residual_fairseq.analysis.adam import adam_updates
from residual_fairseq.analysis.gradients import gradient_norms, measure, summary
from residual_fairseq.analysis.probe import prepare
from residual_fairseq.analysis.representations import similarities

BATCH = toy.sample()


def loss_by_hand(model, batch):
    """In nats per target unit, from the logits."""
    logits, _ = model(**batch["net_input"])
    target = batch["target"]
    words = target.ne(toy.DICTIONARY.pad())
    return -logits.log_softmax(-1)[words].gather(1, target[words][:, None]).mean()


def shifted_loss(model, layer, *shifts):
    """The loss where streams that enter a layer, the main one first, are shifted."""

    def add(module, arguments):
        streams = list(arguments[0])
        for i, shift in enumerate(shifts):
            streams[i] = streams[i] + shift
        return (streams, *arguments[1:])

    handle = layer.register_forward_pre_hook(add)
    try:
        return loss_by_hand(model, BATCH)
    finally:
        handle.remove()


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_norms_of_parameters(connection):
    model = toy.randomize(toy.model(connection, encoder_layers=2, decoder_layers=3), std=0.05)
    found = gradient_norms(model, BATCH)
    loss_by_hand(model, BATCH).backward()
    for stack, layers in (("encoder", 2), ("decoder", 3)):
        for part, names in (
            ("attention", ("self_attn.", "encoder_attn.")),
            ("ffn", ("fc1.", "fc2.", "ffn_layernorm.")),
        ):
            assert len(found[stack][part]) == layers
            for i, layer in enumerate(getattr(model, stack).layers):
                gradients = [
                    p.grad.flatten() for n, p in layer.named_parameters() if n.startswith(names)
                ]
                expected = torch.cat(gradients).norm()
                assert found[stack][part][i] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("connection", ["post", "pre", "residual", "dlcl", "hc"])
def test_norms_of_streams(connection):
    """Against finite differences: along the gradient's direction the loss rises by its norm."""
    model = toy.model(connection).double()
    found = gradient_norms(model, BATCH)
    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, stack).layers):
            tokens = "src_tokens" if stack == "encoder" else "prev_output_tokens"
            B, T = BATCH["net_input"][tokens].shape
            shift = torch.zeros(T, B, 32, dtype=torch.double, requires_grad=True)
            (direction,) = torch.autograd.grad(shifted_loss(model, layer, shift), shift)
            step = 1e-4 * direction / direction.norm()
            with torch.no_grad():
                above, below = (shifted_loss(model, layer, sign * step) for sign in (1, -1))
            expected = ((above - below) / 2e-4).item()
            assert found[stack]["stream"][i].item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("connection", "streams"), [("post", 1), ("residual", 2)])
def test_norm_of_all_streams(connection, streams):
    model = toy.model(connection).double()
    found = gradient_norms(model, BATCH)
    for stack, tokens in (("encoder", "src_tokens"), ("decoder", "prev_output_tokens")):
        B, T = BATCH["net_input"][tokens].shape
        for i, layer in enumerate(getattr(model, stack).layers):
            shifts = [torch.zeros(T, B, 32).double().requires_grad_() for _ in range(streams)]
            gradients = torch.autograd.grad(shifted_loss(model, layer, *shifts), shifts)
            expected = torch.stack(gradients).norm().item()
            assert found[stack]["streams"][i].item() == pytest.approx(expected, rel=1e-5)


def test_mean_over_batches():
    model = toy.model("post")
    batches = [toy.sample(seed=seed) for seed in range(3)]
    norms = measure(model, batches)["decoder"]["ffn"]
    assert norms.shape == (3, 2)
    assert torch.equal(norms[1], gradient_norms(model, batches[1])["decoder"]["ffn"])
    found = summary(torch.tensor([[1.0, 2.0], [3.0, 10.0]]))
    assert found["mean"] == [2.0, 6.0] and found["last_by_first"] == 3.0
    assert found["deviation"] == pytest.approx([2**0.5, 32**0.5])
    assert summary(torch.ones(1, 2))["deviation"] == [0.0, 0.0]


PROBES = {
    "gradients": lambda model: measure(model, [BATCH]),
    "adam": lambda model: adam_updates(model, [BATCH]),
    "representations": lambda model: similarities(model, [BATCH]),
}


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("connection", ["residual", "admin", "branchnorm", "realformer", "hc"])
@pytest.mark.parametrize("checkpointed", [False, True])
def test_probing_changes_nothing(connection, probe, checkpointed):
    model = toy.model(connection, dropout=0.1, checkpoint_activations=checkpointed)
    model.train()(**BATCH["net_input"])
    model.encoder.eval()
    for parameter in model.parameters():
        parameter.grad = torch.rand_like(parameter)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    before = copy.deepcopy(model)
    modes = [module.training for module in model.modules()]
    torch.manual_seed(7)
    state = torch.get_rng_state()
    PROBES[probe](model)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    for name, value in before.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    for parameter, gradient in zip(model.parameters(), gradients):
        assert torch.equal(parameter.grad, gradient)
    with torch.no_grad():
        expected = before.eval()(**BATCH["net_input"])[0]
        assert torch.equal(model.eval()(**BATCH["net_input"])[0], expected)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("probe", PROBES)
def test_no_layer_is_dropped_while_probing(probe):
    flags = {"encoder_layers": 4, "encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}
    model = toy.model("post", **flags).train()
    plain = toy.model("post", encoder_layers=4).train()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    assert str(PROBES[probe](model)) == str(PROBES[probe](plain))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.encoder.layers.p == model.decoder.layers.p == 0.5


def test_no_gradient_in_the_first_layer():
    assert summary(torch.tensor([[0.0, 2.0]]))["last_by_first"] is None


@pytest.mark.parametrize("probe", PROBES)
def test_looking_at_a_new_model_does_not_measure_by_itself(probe):
    model = toy.model("admin").train()
    PROBES[probe](model)
    assert not model.profiled
    prepare(model, BATCH)
    assert model.profiled and model.decoder.layers[1].ffn_connection.is_profiled
