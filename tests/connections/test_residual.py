"""ResiDual's dual stream: its scale does not matter, except that half precision overflows."""

import pytest
import torch
import toy

from residual_fairseq import REGISTRY
from residual_fairseq.connections import Place
from residual_fairseq.errors import UsageError

SCALED_UP = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")


@pytest.mark.parametrize("s", [1e-3, 0.05, 0.37, None])
@torch.no_grad()
def test_scale_does_not_change_the_output(s):
    expected = toy.randomize(toy.model(residual_stream_scale=1.0, decoder_layers=4))
    model = toy.model(residual_stream_scale=s, decoder_layers=4)
    model.load_state_dict(expected.state_dict())
    outputs, expected = model(**toy.batch())[0], expected(**toy.batch())[0]
    assert (outputs - expected).abs().max() < 1e-4


@torch.no_grad()
def test_scale_does_not_change_the_output_of_a_faint_stream():
    """Where the epsilon of the closing LayerNorm bites, it has to be scaled as well."""
    outputs = []
    for s in (1.0, 1e-3):
        torch.manual_seed(1)
        model = toy.model(residual_stream_scale=s, no_token_positional_embeddings=True)
        for module in (model.encoder, model.decoder):
            module.embed_scale = 1e-4
            for layer in module.layers:
                for name, parameter in layer.named_parameters():
                    if name.endswith(SCALED_UP):
                        parameter.mul_(1e-3)
        outputs.append(model.encoder(toy.batch()["src_tokens"])["encoder_out"][0])
    assert (outputs[0] - outputs[1]).abs().max() < 1e-4


@pytest.mark.parametrize(("layers", "s"), [(1, 2**-2), (6, 2**-4), (7, 2**-4), (100, 2**-8)])
def test_default_scale_is_a_power_of_two_below_the_mean(layers, s):
    place = Place("encoder", None, 0, 0, 2, layers, 3, 8)
    connection = REGISTRY["residual"](place, toy.arguments(residual_stream_scale=None))
    assert connection.s == s <= 1 / (2 * layers + 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_hundred_layers_in_half_precision(dtype):
    flags = {"encoder_layers": 100, "decoder_layers": 100}
    model = toy.model("residual", **flags).to(dtype)
    output = model(**toy.batch())[0]
    output.float().logsumexp(-1).mean().backward()
    assert output.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name

    def with_large_weights(connection, **more):
        large = toy.model(connection, **flags, **more).to(dtype)
        with torch.no_grad():
            for name, parameter in large.named_parameters():
                if name.endswith(SCALED_UP):
                    parameter.mul_(100)
            return large(**toy.batch())[0].isfinite().all()

    assert with_large_weights("post")
    assert with_large_weights("residual")
    if dtype == torch.float16:
        assert not with_large_weights("residual", residual_stream_scale=1.0)


@pytest.mark.parametrize("s", [0.0, -1.0, float("inf"), float("nan")])
def test_wrong_scale_is_refused(s):
    with pytest.raises(UsageError, match="--residual-stream-scale"):
        toy.model(residual_stream_scale=s)
