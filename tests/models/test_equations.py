"""The models compute what the papers' equations say, and what fairseq computes."""

import pytest
import torch
import toy
from oracle import Transformer

SHAPES = [
    {},
    {"encoder_layers": 3, "decoder_layers": 1},
    {"share_all_embeddings": False},
    {"share_all_embeddings": False, "share_decoder_input_output_embed": True},
]
VARIANTS = [
    *SHAPES,
    {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True},
    {"activation_fn": "gelu"},
    {"no_token_positional_embeddings": True, "no_scale_embedding": True},
    {"cross_self_attention": True},
    {"cross_self_attention": True, "no_cross_attention": True},
    {"scale_attn": True, "scale_heads": True, "scale_fc": True, "scale_resids": True},
    {"encoder_embed_dim": 32, "decoder_embed_dim": 48, "share_all_embeddings": False},
    {"decoder_output_dim": 16, "share_all_embeddings": False},
    {"adaptive_softmax_cutoff": "10,20", "share_all_embeddings": False},
]


#: Options of connections, and what the oracle calls them.
OPTIONS = [
    ("realformer", {"realformer_mean": True}, {"mean": True}),
    ("normformer", {"normformer_scale_after_projection": True}, {"after": True}),
]


@pytest.mark.parametrize(
    ("connection", "shape", "options"),
    [(connection, shape, {}) for shape in SHAPES for connection in toy.CONNECTIONS] + OPTIONS,
    ids=str,
)
def test_equals_its_equations(connection, shape, options):
    # Not far from the initial weights: without LayerNorm large ones would saturate the softmax.
    model = toy.randomize(toy.model(connection, **shape), std=0.1)
    batch = toy.batch()
    with torch.no_grad():
        logits, _ = model(**batch)
    layers = len(model.encoder.layers), len(model.decoder.layers)
    oracle = Transformer(toy.reference_names(model.state_dict()), 4, layers)
    pad = toy.DICTIONARY.pad()
    for row in range(len(logits)):
        source, target = (batch[side][row] for side in ("src_tokens", "prev_output_tokens"))
        source, target = source[source != pad], target[target != pad]
        expected = oracle.logits(connection, source, target, **options)
        difference = (logits[row, : len(target)] - expected).abs().max()
        assert difference < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_loads_weights_under_reference_names(connection):
    model = toy.randomize(toy.model(connection))
    other = toy.model(connection, seed=5)
    batch = toy.batch()
    with torch.no_grad():
        assert not torch.allclose(other(**batch)[0], model(**batch)[0])
        other.load_state_dict(toy.reference_names(model.state_dict()))
        assert torch.equal(other(**batch)[0], model(**batch)[0])


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(("connection", "before"), [("post", False), ("pre", True)])
def test_equals_fairseq(connection, before, variant):
    theirs = toy.fairseq_model(
        encoder_normalize_before=before, decoder_normalize_before=before, **variant
    )
    ours = toy.model(connection, seed=9, **variant)
    ours.load_state_dict(toy.randomize(theirs, std=0.1).state_dict())
    batch = toy.batch()
    with torch.no_grad():
        expected, extra = theirs(**batch)
        logits, our_extra = ours(**batch)
    assert (logits - expected).abs().max() < 1e-6 * expected.abs().max()
    assert len(our_extra["inner_states"]) == len(extra["inner_states"])
    for our_state, state in zip(our_extra["inner_states"], extra["inner_states"]):
        assert torch.allclose(our_state, state, atol=1e-5)


def test_no_decoder_final_norm_equals_fairseq():
    flags = {"no_decoder_final_norm": True}
    theirs = toy.fairseq_model(
        encoder_normalize_before=True, decoder_normalize_before=True, **flags
    )
    ours = toy.model("pre", seed=9, **flags)
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        expected = theirs(**toy.batch())[0]
        assert torch.allclose(ours(**toy.batch())[0], expected, atol=1e-6)


@pytest.mark.parametrize(("connection", "before"), [("post", False), ("pre", True)])
def test_gradients_equal_fairseqs(connection, before):
    theirs = toy.fairseq_model(encoder_normalize_before=before, decoder_normalize_before=before)
    ours = toy.model(connection)
    ours.load_state_dict(theirs.state_dict())
    batch = toy.batch()
    tokens = batch["prev_output_tokens"] != toy.DICTIONARY.pad()
    for model in (theirs, ours):
        model.train()
        model(**batch)[0][tokens].logsumexp(-1).sum().backward()
    expected = toy.reference_names(
        {name: parameter.grad for name, parameter in ours.named_parameters()}
        | {"residual_connection": torch.empty(0)}
    )
    largest = max(gradient.abs().max() for gradient in expected.values())
    compared = 0
    for name, parameter in theirs.named_parameters():
        if parameter.grad is not None:
            assert (parameter.grad - expected[name]).abs().max() < 1e-5 * largest, name
            compared += 1
    assert compared == len(expected)
