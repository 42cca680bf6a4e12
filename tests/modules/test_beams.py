"""Which rows move in beam search, and what is held once a sentence."""

import pytest
import torch
import toy
from hypothesis import given
from hypothesis import strategies as st

from residual_fairseq.modules.attention import Attention
from residual_fairseq.modules.beams import moved_rows, regroup


def test_moved_rows():
    assert moved_rows(torch.tensor([0, 0, 2, 1]), 4).tolist() == [1, 3]
    assert moved_rows(torch.tensor([0, 1]), 2).tolist() == []
    assert moved_rows(torch.tensor([0, 1]), 3) is None


@pytest.mark.parametrize(
    ("new_order", "sentences", "beam", "expected"),
    [
        ([0, 0, 0, 1, 1, 1], 2, 1, (None, 3)),  # beams begin
        ([1, 1, 2, 3, 5, 3], 2, 3, (None, 3)),  # beams stay in their sentence
        ([3, 4, 3], 2, 3, ([1], 3)),  # the first sentence is finished
        ([3, 4, 3, 0, 0, 1], 2, 3, ([1, 0], 3)),
        ([1, 0, 2], 3, 1, ([1, 0, 2], 1)),
        ([0, 3, 1, 4, 5, 2], 2, 3, ([0, 1, 0, 1, 1, 0], 1)),  # beams leave their sentence
        ([0, 5], 2, 3, (None, 1)),
        ([5, 0], 2, 3, ([1, 0], 1)),
        ([], 2, 3, ([], 3)),
    ],
)
def test_regroup(new_order, sentences, beam, expected):
    selected, rows = regroup(torch.tensor(new_order, dtype=torch.long), sentences, beam)
    assert (None if selected is None else selected.tolist(), rows) == expected


@given(st.data())
def test_rows_keep_their_sentence(data):
    """Whatever the order, the sentence of a row is what the sentence of the old row was."""
    held, beam = list(range(data.draw(st.integers(1, 4)))), data.draw(st.integers(1, 3))
    rows = [sentence for sentence in held for _ in range(beam)]
    for _ in range(4):
        order = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12))
        selected, beam = regroup(torch.tensor(order), len(held), beam)
        if selected is not None:
            held = [held[i] for i in selected]
        rows = [rows[i] for i in order]
        assert [sentence for sentence in held for _ in range(beam)] == rows


@torch.no_grad()
def test_a_cache_grows_without_moving():
    attention = Attention(8, 2, self_attention=True).eval()
    x = torch.randn(100, 2, 8)
    state: dict = {}
    places = set()
    for t, step in enumerate(x.split(1)):
        y, _, _ = attention(step, step, incremental_state=state)
        places.add(attention._get_input_buffer(state)["keys"].data_ptr())
        if t % 20 == 7:
            whole, _, _ = attention(x[: t + 1], x[: t + 1], causal=True)
            assert torch.allclose(y[0], whole[-1], atol=1e-6)
    assert len(places) == 3


def test_step_by_step_with_gradients():
    """A cache that is written in place would leave a wrong gradient, or none."""
    attention = Attention(8, 2, self_attention=True)
    x = torch.randn(5, 2, 8)
    whole, _, _ = attention(x, x, causal=True)
    expected = torch.autograd.grad(whole.square().sum(), attention.k_proj.weight)[0]
    state: dict = {}
    steps = torch.cat([attention(s, s, incremental_state=state)[0] for s in x.split(1)])
    found = torch.autograd.grad(steps.square().sum(), attention.k_proj.weight)[0]
    assert torch.allclose(found, expected, atol=1e-5)


@torch.no_grad()
def test_keys_of_the_source_are_held_once_a_sentence():
    model = toy.randomize(toy.model(), std=0.1).eval()
    batch = toy.batch()
    encoder_out = model.encoder(batch["src_tokens"], src_lengths=batch["src_lengths"])
    order = torch.arange(3).repeat_interleave(4)
    beams = model.encoder.reorder_encoder_out(encoder_out, order)
    assert beams["encoder_out"][0] is encoder_out["encoder_out"][0]
    assert beams["rows"][0].tolist() == order.tolist()
    tokens = batch["prev_output_tokens"][order][:, :1]
    state: dict = {}
    model.decoder(tokens, encoder_out=beams, incremental_state=state)
    attention = model.decoder.layers[0].encoder_attn
    assert attention._get_input_buffer(state)["keys"].size(1) == 3
    finished = torch.tensor([5, 5, 4, 4, 8, 9, 10, 11])
    model.decoder.reorder_incremental_state_scripting(state, finished)
    beams = model.encoder.reorder_encoder_out(beams, finished)
    assert attention._get_input_buffer(state)["keys"].size(1) == 2
    assert beams["encoder_out"][0].size(1) == 2 and len(beams["rows"][0]) == 8


@pytest.mark.parametrize("variant", [{}, {"cross_self_attention": True}], ids=str)
@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@torch.no_grad()
def test_rows_of_a_beam_are_those_of_a_repeated_sentence(connection, variant):
    """In one pass and step by step, with attention weights."""
    model = toy.randomize(toy.model(connection, **variant), std=0.1).eval()
    batch = toy.batch()
    order = torch.arange(3).repeat_interleave(2)
    tokens = torch.randint(5, 30, (6, 4), generator=torch.Generator().manual_seed(1))

    def encode(src_tokens):
        return model.encoder(src_tokens, src_lengths=(src_tokens != 1).sum(1))

    repeated = encode(batch["src_tokens"][order])
    beams = model.encoder.reorder_encoder_out(encode(batch["src_tokens"]), order)
    expected, extra = model.decoder(tokens, encoder_out=repeated, alignment_layer=1)
    found, same = model.decoder(tokens, encoder_out=beams, alignment_layer=1)
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(same["attn"][0], extra["attn"][0], atol=1e-5)
    state: dict = {}
    for t in range(1, 5):
        step, weights = model.decoder(
            tokens[:, :t], encoder_out=beams, incremental_state=state, alignment_layer=1
        )
        assert torch.allclose(step[:, -1], expected[:, t - 1], atol=1e-5)
        assert torch.allclose(weights["attn"][0][:, -1], extra["attn"][0][:, t - 1], atol=1e-5)
