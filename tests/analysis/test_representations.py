"""Similarities of crafted stacks are known by hand."""

import pytest
import torch
import toy

from residual_fairseq.analysis import representations
from residual_fairseq.analysis.representations import MEASURES, Moments, similarities


def test_layers_that_do_nothing_have_the_same_input():
    """Pre-LN whose sublayers give 0: no layer changes the stream."""
    model = toy.model("pre", encoder_layers=3, decoder_layers=3)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for name, parameter in layer.named_parameters():
            if "out_proj" in name or "fc2" in name:
                torch.nn.init.zeros_(parameter)
    found = similarities(model, [toy.sample()])
    for stack, sublayers in (("encoder", 2), ("decoder", 3)):
        curves = {name: c for name, c in found[stack].items() if name != "stream"}
        assert len(curves) == sublayers
        for curve in curves.values():
            for measure in ("cosine_next", "cosine_last", "cka_next", "cka_last"):
                assert curve[measure] == pytest.approx([1.0, 1.0], abs=1e-5)
        assert found[stack]["stream"]["update"] == pytest.approx([0.0] * 3, abs=1e-6)


def crafted(inputs, streams):
    """Stands for `read_batch`: the same in both stacks."""
    return lambda model, batch: (
        {stack: {"self_attn": inputs} for stack in ("encoder", "decoder")},
        {stack: streams for stack in ("encoder", "decoder")},
    )


def test_by_hand(monkeypatch):
    """Three layers: the second's input is orthogonal to the first's, the third's at 45 degrees."""
    tokens = 5
    x = torch.tensor([[1.0, 0.0]]).expand(tokens, 2)
    y = torch.tensor([[0.0, 3.0]]).expand(tokens, 2)
    z = torch.tensor([[2.0, 2.0]]).expand(tokens, 2)
    noise = [torch.randn(tokens, 2, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    monkeypatch.setattr(representations, "read_batch", crafted([x, y, z], [x, 2 * x, y, y + x]))
    found = similarities(None, [None, None])["decoder"]
    assert found["self_attn"]["cosine_next"] == pytest.approx([0.0, 0.5**0.5], abs=1e-6)
    assert found["self_attn"]["cosine_last"] == pytest.approx([0.5**0.5, 0.5**0.5])
    expected = [1.0, 13**0.5 / 2, 1 / 3]
    assert found["stream"]["update"] == pytest.approx(expected)
    monkeypatch.setattr(representations, "read_batch", crafted(noise, [x, y]))
    found = similarities(None, [None])["encoder"]["self_attn"]
    assert found["cka_next"] == pytest.approx([cka(*noise[:2]), cka(*noise[1:])])
    assert found["cka_last"] == pytest.approx([cka(noise[0], noise[2]), cka(*noise[1:])])


def cka(x, y):
    """By centred Gram matrices, tokens by tokens: HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y))."""
    H = torch.eye(len(x), dtype=torch.double) - 1 / len(x)
    K, L = (H @ a.double() @ a.double().T @ H for a in (x, y))
    return ((K * L).sum() / ((K * K).sum() * (L * L).sum()).sqrt()).item()


def test_cka_in_parts_of_different_width():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, 4, generator=generator) + 3
    y = torch.cat([x[:, :2] ** 2, torch.randn(50, 4, generator=generator)], dim=1)
    moments = Moments()
    for part in (slice(0, 20), slice(20, 50)):
        moments.add(x[part], y[part])
    assert moments.cka() == pytest.approx(cka(x, y))
    assert 0.01 < moments.cka() < 0.99


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_padding_is_left_out(connection):
    """A batch gives the mean over its sentences, each weighed by its tokens."""
    model = toy.randomize(toy.model(connection), std=0.05)
    lengths = [(7, 5), (4, 6), (2, 3)]
    batch = toy.sample()
    batch["net_input"] = toy.batch(lengths)
    together = similarities(model, [batch])
    alone, pad = [], toy.DICTIONARY.pad()
    for row in range(3):
        tokens = {}
        for key in ("src_tokens", "prev_output_tokens"):
            line = batch["net_input"][key][row]
            tokens[key] = line[line != pad][None]
        tokens["src_lengths"] = torch.tensor([tokens["src_tokens"].size(1)])
        alone.append({"net_input": tokens})
    apart = similarities(model, alone)
    for stack in ("encoder", "decoder"):
        for name, measures in together[stack].items():
            for measure, curve in measures.items():
                assert apart[stack][name][measure] == pytest.approx(curve, abs=1e-4), measure


def test_one_layer_has_no_next():
    found = similarities(toy.model("post", encoder_layers=1), [toy.sample()])
    assert set(found["encoder"]) == {"stream"}
    assert set(found["decoder"]["self_attn"]) == set(MEASURES) - {"update"}
