"""What schemes are before they have learned anything."""

import pytest
import torch
import toy


@torch.no_grad()
def test_rezero_is_the_identity():
    model = toy.model("rezero", dropout=0.5).train()
    batch = toy.batch()
    torch.manual_seed(3)
    encoder_out = model.encoder(batch["src_tokens"])
    torch.manual_seed(3)
    embedded, _ = model.encoder.forward_embedding(batch["src_tokens"])
    padding = batch["src_tokens"].eq(toy.DICTIONARY.pad())
    embedded[padding] = 0
    assert torch.equal(encoder_out["encoder_out"][0], embedded.transpose(0, 1))
    features, extra = model.decoder(
        batch["prev_output_tokens"], encoder_out=encoder_out, features_only=True
    )
    assert torch.equal(features.transpose(0, 1), extra["inner_states"][0])


def test_rezero_has_one_scalar_a_layer():
    model = toy.model("rezero", encoder_layers=3)
    scalars = {id(p): name for name, p in model.named_parameters() if name.endswith("alpha")}
    assert len(scalars) == 3 + 2
    assert not [name for name, _ in model.named_parameters() if "norm" in name]


@pytest.mark.parametrize("connection", ["hc", "hc-static"])
@pytest.mark.parametrize("streams", [1, 4])
@torch.no_grad()
def test_hyper_connections_are_pre_ln(connection, streams):
    """With n = 1 exactly; otherwise all but for the eps of the last LayerNorm, of a sum of n."""
    pre = toy.model("pre", encoder_layers=3)
    model = toy.model(connection, encoder_layers=3, hc_streams=streams)
    model.load_state_dict({**model.state_dict(), **own_names(pre, model)})
    batch = toy.batch()
    for train in (False, True):
        pre.train(train)
        model.train(train)
        expected, logits = pre(**batch)[0], model(**batch)[0]
        assert (logits - expected).abs().max() < 1e-5 * expected.abs().max()


def own_names(pre, model):
    weights = pre.state_dict()
    del weights["residual_connection"]
    assert set(weights) <= set(model.state_dict())
    return weights


@torch.no_grad()
def test_dlcl_starts_with_the_mean_of_layers():
    for name, row in toy.model("dlcl", encoder_layers=4).named_parameters():
        if name.endswith(".W"):
            assert torch.allclose(row, torch.full_like(row, 1 / len(row)))


def test_parameters_beyond_the_backbone():
    """What the schemes add to Post-LN or Pre-LN, by their papers."""
    N, M, d, f, heads = 3, 2, 32, 64, 4

    def count(connection):
        model = toy.model(connection, encoder_layers=N, decoder_layers=M)
        return sum(p.numel() for p in model.parameters())

    post, pre = count("post"), count("pre")
    norms = (2 * N + 3 * M) * 2 * d
    assert pre - post == 4 * d
    added = {
        "residual": 4 * d,
        "deepnorm": 0,
        "b2t": 0,
        "dlcl-post": (N + 1) * (N + 2) // 2 + (M + 1) * (M + 2) // 2 + (N + M) * 2 * d,
        "admin": (2 * N + 3 * M) * d,
        "admin-closed": 0,
        "rezero": N + M - norms,
        "tfixup": -norms,
        "realformer": 0,
        "branchnorm": 0,
    }
    for connection, extra in added.items():
        assert count(connection) - post == extra, connection
    n = 4
    static = (2 * N + 3 * M) * n * (n + 2)
    added = {
        "dlcl": (N + 1) * (N + 2) // 2 + (M + 1) * (M + 2) // 2 + (N + M) * 2 * d,
        "tau": 0,
        "normformer": (N + M) * (heads + 2 * d + 2 * f),
        "subln": (N + M) * (2 * d + 2 * f),
        "hc-static": static,
        "hc": static + (2 * N + 3 * M) * (d * (n + 2) + 2 + 2 * d),
    }
    for connection, extra in added.items():
        assert count(connection) - pre == extra, connection
