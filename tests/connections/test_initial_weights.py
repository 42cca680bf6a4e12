"""Initial weights have the scale that their papers state."""

import math

import pytest
import torch
import toy

from residual_fairseq.connections import REGISTRY, Place

N, M = 3, 2
C, F = 32, 64


def xavier(gain, *shape):
    """The standard deviation of Xavier's initialisation."""
    return gain * math.sqrt(2 / sum(shape))


def base(kind):
    """fairseq's own: gain 1/sqrt(2) for q, k, v, 1 for the output; PyTorch's default for linear."""
    if kind in ("q_proj", "k_proj", "v_proj"):
        return xavier(1 / math.sqrt(2), C, C)
    if kind == "out_proj":
        return xavier(1, C, C)
    return 1 / math.sqrt(3 * {"fc1": C, "fc2": F}[kind])


def scaled(gain, kind):
    """Xavier with a gain, for values, outputs and feed-forward."""
    return xavier(gain, C, F) if kind in ("fc1", "fc2") else xavier(gain, C, C)


DEEPNORM = {"encoder": 0.87 * (N**4 * M) ** (-1 / 16), "decoder": (12 * M) ** (-1 / 4)}
TFIXUP = {"encoder": 0.67 * N ** (-1 / 4), "decoder": (9 * M) ** (-1 / 4)}
SUBLN = {
    "encoder": math.sqrt(math.log(3 * M) * math.log(2 * N) / 3),
    "decoder": math.sqrt(math.log(3 * M)),
}


def expected(connection, stack, sublayer, kind):
    """The standard deviation of a weight matrix."""
    is_query_or_key = kind in ("q_proj", "k_proj")
    if connection == "deepnorm":
        return scaled(1 if is_query_or_key else DEEPNORM[stack], kind)
    if connection == "tfixup":
        return base(kind) if is_query_or_key else scaled(TFIXUP[stack], kind)
    if connection == "subln":
        plain = is_query_or_key or sublayer == "encoder_attn"
        return scaled(1 if plain else SUBLN[stack], kind)
    if connection == "b2t":
        return base(kind) / math.sqrt({"encoder": N, "decoder": M}[stack])
    return base(kind)


def parts(name):
    """encoder.layers.0.self_attn.q_proj.weight: its stack, sublayer and kind."""
    stack, _, _, *inner, kind, _ = name.split(".")
    return stack, (inner or ["ffn"])[0], kind


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_matrices(connection):
    squares, counts = {}, {}
    for seed in range(20):
        model = toy.model(connection, seed=seed, encoder_layers=N, decoder_layers=M)
        for name, value in model.named_parameters():
            if ".layers." in name and name.endswith(("proj.weight", "fc1.weight", "fc2.weight")):
                part = parts(name)
                squares[part] = squares.get(part, 0) + value.detach().pow(2).sum().item()
                counts[part] = counts.get(part, 0) + value.numel()
    assert len(counts) == (4 + 2) + (8 + 2)
    for part, square in squares.items():
        # 40,000 draws at least: three per cent are six standard errors.
        assert math.sqrt(square / counts[part]) == pytest.approx(
            expected(connection, *part), rel=0.03
        ), part


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@pytest.mark.parametrize("shared", [True, False])
def test_embeddings(connection, shared):
    model = toy.model(connection, encoder_layers=N, decoder_layers=M, share_all_embeddings=shared)
    gains = {"encoder": 1.0, "decoder": 1.0}
    if connection == "tfixup":
        gains = {"encoder": (9 * N) ** (-1 / 4), "decoder": (9 * M) ** (-1 / 4)}
    if shared:
        gains["decoder"] = gains["encoder"]
    for stack, gain in gains.items():
        table = getattr(model, stack).embed_tokens.weight.detach()
        words = table[[i for i in range(len(table)) if i != toy.DICTIONARY.pad()]]
        assert words.std().item() == pytest.approx(gain / math.sqrt(C), rel=0.1)
        assert not table[toy.DICTIONARY.pad()].any()


def test_b2t_unscaled():
    plain, unscaled = toy.model("post"), toy.model("b2t", b2t_unscaled=True)
    scaled_ = toy.model("b2t")
    name = "encoder.layers.0.self_attn.q_proj.weight"
    assert torch.equal(unscaled.state_dict()[name], plain.state_dict()[name])
    assert torch.allclose(scaled_.state_dict()[name] * math.sqrt(2), plain.state_dict()[name])


def test_biases_start_as_elsewhere():
    for connection in ("deepnorm", "tfixup", "subln", "b2t"):
        model = toy.model(connection)
        for name, value in model.named_parameters():
            if name.endswith("fc1.bias"):
                assert value.std().item() == pytest.approx(1 / math.sqrt(3 * C), rel=0.3)
            elif name.endswith("out_proj.bias"):
                assert not value.any()


@pytest.mark.parametrize("layers", [(6, 6), (12, 12), (18, 18), (100, 12)])
def test_published_constants(layers):
    """The factors of DeepNorm, Sub-LN and T-Fixup for some depths."""

    def at(name, stack):
        place = Place(
            stack=stack, sublayer="ffn", index=1, layer=0, sublayers=2, embed_dim=8,
            encoder_layers=layers[0], decoder_layers=layers[1],
        )  # fmt: skip
        return REGISTRY[name](place, toy.model().cfg)

    published = {
        (6, 6): (1.418, 0.497, 2.060, 0.343, 1.547, 1.700, 0.428, 0.369),
        (12, 12): (1.761, 0.400, 2.449, 0.289, 1.948, 1.893, 0.360, 0.310),
        (18, 18): (1.999, 0.353, 2.711, 0.261, 2.183, 1.997, 0.325, 0.280),
    }
    found = []
    for stack in ("encoder", "decoder"):
        found += [at("deepnorm", stack).alpha, at("deepnorm", stack).beta]
    found += [at("subln", stack).gain for stack in ("encoder", "decoder")]
    found += [at("tfixup", stack).gain for stack in ("encoder", "decoder")]
    if layers in published:
        assert found == pytest.approx(published[layers], abs=0.0011)
    else:
        # Unequal depths: the encoder's constants know the decoder's depth, not the other way.
        assert found[0] == pytest.approx(0.81 * (100**4 * 12) ** (1 / 16))
        assert found[2] == pytest.approx(36 ** (1 / 4))
