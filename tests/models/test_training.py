"""What training needs: gradients through checkpointed layers, layer drop, quantisation noise."""

from types import SimpleNamespace

import pytest
import torch
import toy
from torch import nn

from residual_fairseq import ResidualTransformerModel
from residual_fairseq.errors import UsageError


def gradients(model, batch, seed=4):
    torch.manual_seed(seed)
    model.zero_grad()
    model(**batch)[0].float().logsumexp(-1).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("variant", [{}, {"cross_self_attention": True}], ids=str)
@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_checkpointed_gradients_are_the_same(connection, variant):
    batch = toy.batch()
    flags = {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1, **variant}
    plain = gradients(toy.model(connection, **flags).train(), batch)
    model = toy.model(connection, checkpoint_activations=True, **flags).train()
    checkpointed = gradients(model, batch)
    largest = max(gradient.abs().max() for gradient in plain.values())
    for name, gradient in plain.items():
        assert (gradient - checkpointed[name]).abs().max() <= 1e-6 * largest, name


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_checkpointing_saves_one_stream_a_layer(connection):
    """Bytes kept for the backward pass, by the layers' inputs alone where checkpointed."""

    def saved_bytes(layers, **flags):
        model = toy.model(connection, encoder_layers=layers, decoder_layers=1, **flags).train()
        tensors = {}

        def pack(tensor):
            tensors[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(**toy.batch())
        return sum(tensors.values())

    def cost_of_a_layer(**flags):
        return (saved_bytes(6, **flags) - saved_bytes(2, **flags)) / 4

    assert cost_of_a_layer(checkpoint_activations=True) < 0.2 * cost_of_a_layer()


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_every_parameter_gets_a_gradient(connection):
    # Some weights start where others have no gradient, as zeros.
    model = toy.randomize(toy.model(connection), std=0.1).train()
    found = gradients(model, toy.batch())
    # The bias of k_proj moves every score of a query alike, so its true gradient is zero.
    still = [name for name, grad in found.items() if not grad.any() and "k_proj.bias" not in name]
    assert still == []


@pytest.mark.parametrize("connection", toy.able("encoder_layerdrop"))
def test_layer_drop(connection):
    model = toy.model(connection, encoder_layerdrop=0.5, decoder_layerdrop=0.5, encoder_layers=4)
    whole = toy.randomize(toy.model(connection, encoder_layers=4))
    model.load_state_dict(whole.state_dict())
    with torch.no_grad():
        assert torch.equal(model(**toy.batch())[0], whole(**toy.batch())[0])
        model.train()
        torch.manual_seed(1)
        outputs = [model(**toy.batch())[0] for _ in range(8)]
    assert all(output.isfinite().all() for output in outputs)
    assert any(not torch.equal(outputs[0], output) for output in outputs[1:])


def test_quantisation_noise_reaches_every_projection():
    """fairseq's fused attention reads the weights past the noise; ours must not."""
    flags = {"quant_noise_pq": 0.5, "quant_noise_pq_block_size": 4}
    model = toy.model(**flags).train()
    noisy = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear) and module._forward_pre_hooks
    ]
    before = [module.weight.clone() for module in noisy]
    model(**toy.batch())
    assert len(noisy) == 2 * (4 + 2) + 2 * (8 + 2) + 2
    # The noise of fairseq drops blocks of the weight itself, when its module is called.
    assert all(not torch.equal(m.weight, w) for m, w in zip(noisy, before))


class Halved(nn.Linear):
    """What fairseq's scalar quantisation noise puts in the place of a projection."""

    def forward(self, x):
        return super().forward(x) / 2


def test_projections_that_were_replaced_are_called():
    model = toy.model()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear and name.endswith("_proj"):
                halved = Halved(child.in_features, child.out_features)
                halved.load_state_dict(child.state_dict())
                setattr(module, name, halved)
    evaluated = model(**toy.batch())[0]
    assert torch.allclose(model.train()(**toy.batch())[0], evaluated, atol=1e-6)


def test_cross_attention_weights_for_a_criterion_that_trains_alignments():
    task = SimpleNamespace(**vars(toy.TASK), cfg=SimpleNamespace(load_alignments=True))
    model = ResidualTransformerModel.build_model(toy.arguments(), task).train()
    (attn,) = model(**toy.batch())[1]["attn"]
    sources = toy.batch()["src_tokens"]
    assert attn.shape == (*toy.batch()["prev_output_tokens"].shape, sources.size(1))
    assert attn.requires_grad and torch.allclose(attn.sum(-1), torch.ones(()))
    assert toy.model().train()(**toy.batch())[1]["attn"] == [None]


def test_adaptive_softmax_with_a_criterion_that_cannot_train_it():
    flags = {"adaptive_softmax_cutoff": "10,20", "share_all_embeddings": False}
    model = toy.model(**flags)
    sample = {"target": toy.batch()["prev_output_tokens"]}
    # In evaluation, or without gradients, all words have probabilities.
    words = model.get_normalized_probs(model(**toy.batch()), log_probs=False)
    assert torch.allclose(words.sum(-1), torch.ones(()), atol=1e-5)
    output = model.train()(**toy.batch())
    with torch.no_grad():
        model.get_normalized_probs(output, log_probs=True, sample=sample)
    with pytest.raises(UsageError, match="--criterion adaptive_loss"):
        model.get_normalized_probs(output, log_probs=True, sample=sample)


@pytest.mark.parametrize(
    ("flags", "least"),
    [({"min_params_to_wrap": 7}, 7), ({"checkpoint_activations": True}, 0)],
    ids=str,
)
def test_layers_are_wrapped_for_sharding(monkeypatch, flags, least):
    asked = []

    def fsdp_wrap(layer, min_num_params):
        asked.append((type(layer).__name__, min_num_params))
        return layer

    monkeypatch.setattr("residual_fairseq.models.encoder.fsdp_wrap", fsdp_wrap)
    toy.model(**flags)
    assert asked == [("EncoderLayer", least)] * 2 + [("DecoderLayer", least)] * 2


@pytest.mark.parametrize("layer", ["Encoder", "Decoder"])
def test_dropout_is_retained_by_fairseqs_names(layer):
    model = toy.model(dropout=0.1)
    names = [f"Transformer{layer}", f"Transformer{layer}LayerBase", "MultiheadAttention"]
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=names)
    kept = {
        name
        for name, module in model.named_modules()
        if getattr(module, "apply_during_inference", False)
    }
    stack = layer.lower()
    assert f"{stack}.dropout_module" in kept
    assert f"{stack}.layers.1.activation_dropout_module" in kept
    assert f"{stack}.layers.0.self_attn.dropout_module" in kept
    other = {"encoder": "decoder", "decoder": "encoder"}[stack]
    assert f"{other}.dropout_module" not in kept


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_torchscript(connection):
    model = toy.randomize(toy.model(connection), std=0.1)
    scripted = torch.jit.script(model)
    with torch.no_grad():
        assert torch.allclose(scripted(**toy.batch())[0], model(**toy.batch())[0], atol=1e-6)


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_same_seed_same_model_and_dropout(connection):
    first, second = (toy.model(connection, dropout=0.3).train() for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    outputs = []
    for model in (first, second):
        torch.manual_seed(7)
        outputs.append(model(**toy.batch())[0])
    assert torch.equal(*outputs)
