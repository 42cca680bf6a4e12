"""Decoding step by step, in any order of beams, is the same as decoding all at once."""

import pytest
import torch
import toy
from fairseq.sequence_generator import SequenceGenerator

PAD, EOS = toy.DICTIONARY.pad(), toy.DICTIONARY.eos()
VARIANTS = [
    {},
    {"encoder_layers": 1, "decoder_layers": 3},
    {"cross_self_attention": True},
    {"cross_self_attention": True, "no_cross_attention": True},
    {"scale_attn": True, "scale_heads": True, "scale_fc": True},
]


def encode(model, batch):
    return model.encoder(batch["src_tokens"], src_lengths=batch["src_lengths"])


def by_steps(model, encoder_out, tokens, start=1):
    """Logits of each position from the start-th on, decoded step by step."""
    state = {}
    steps = [
        model.decoder(tokens[:, :t], encoder_out=encoder_out, incremental_state=state)[0]
        for t in range(start, tokens.size(1) + 1)
    ]
    return torch.cat(steps, dim=1)


@pytest.mark.parametrize(
    ("connection", "variant"),
    [(connection, variant) for variant in VARIANTS for connection in toy.able(*variant)],
    ids=str,
)
@torch.no_grad()
def test_steps_equal_one_pass(connection, variant):
    model = toy.randomize(toy.model(connection, **variant), std=0.1)
    batch = toy.batch(lengths=((7, 6), (4, 6), (2, 6)))
    encoder_out = encode(model, batch)
    tokens = batch["prev_output_tokens"]
    whole = model.decoder(tokens, encoder_out=encoder_out)[0]
    assert (by_steps(model, encoder_out, tokens) - whole).abs().max() < 1e-5


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@torch.no_grad()
def test_steps_equal_one_pass_after_reordering(connection):
    model = toy.randomize(toy.model(connection), std=0.1)
    batch = toy.batch(lengths=((7, 6), (4, 6), (2, 6)))
    encoder_out, tokens, state = encode(model, batch), batch["prev_output_tokens"], {}
    # Swapped beams, a beam that takes over another, and a sentence that is finished.
    orders = {2: [1, 0, 2], 4: [0, 0, 2], 5: [2, 1]}
    for t in range(1, tokens.size(1) + 1):
        if t in orders:
            order = torch.tensor(orders[t])
            tokens = tokens[order]
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            model.decoder.reorder_incremental_state_scripting(state, order)
        step = model.decoder(tokens[:, :t], encoder_out=encoder_out, incremental_state=state)[0]
        whole = model.decoder(tokens[:, :t], encoder_out=encoder_out)[0]
        assert (step[:, -1] - whole[:, -1]).abs().max() < 1e-5, t


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@torch.no_grad()
def test_beam_search_scores_are_those_of_one_pass(connection):
    """With prefix tokens and without; the search itself is fairseq's."""
    model = toy.randomize(toy.model(connection), std=0.1)
    batch = toy.batch()
    prefixes = torch.tensor([[9, 7], [5, PAD], [8, 6]])
    for prefix_tokens in (None, prefixes):
        generator = SequenceGenerator(
            [model], toy.DICTIONARY, beam_size=3, max_len_b=8, normalize_scores=False
        )
        found = generator.generate([model], {"net_input": batch}, prefix_tokens=prefix_tokens)
        for row, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                tokens = hypothesis["tokens"]
                if prefix_tokens is not None:
                    prefix = prefix_tokens[row][prefix_tokens[row] != PAD]
                    assert tokens[: len(prefix)].tolist() == prefix.tolist()
                source = batch["src_tokens"][row]
                source = source[source != PAD][None]
                inputs = torch.cat([torch.tensor([EOS]), tokens[:-1]])[None]
                logits = model(source, torch.tensor([source.size(1)]), inputs)[0]
                scores = logits.log_softmax(-1)[0, range(len(tokens)), tokens]
                assert (scores - hypothesis["positional_scores"]).abs().max() < 1e-5


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@torch.no_grad()
def test_padding_changes_nothing(connection):
    model = toy.randomize(toy.model(connection), std=0.1)
    batch = toy.batch(lengths=((9, 7), (4, 6), (2, 3)))
    logits = model(**batch)[0]
    for row in range(len(logits)):
        source, target = batch["src_tokens"][row], batch["prev_output_tokens"][row]
        source, target = source[source != PAD], target[target != PAD]
        alone = model(source[None], torch.tensor([len(source)]), target[None])[0]
        assert (alone[0] - logits[row, : len(target)]).abs().max() < 1e-5


@torch.no_grad()
def test_attention_weights_only_where_asked_for():
    model = toy.model()
    batch = toy.batch()
    assert model(**batch)[1]["attn"] == [None]
    model.train()
    assert model(**batch)[1]["attn"] == [None]
    model.eval()
    asked = model(**batch, alignment_layer=0)[1]["attn"][0]
    first_head = model(**batch, alignment_layer=0, alignment_heads=1)[1]["attn"][0]
    assert asked.shape == (3, 6, 7)
    assert torch.allclose(asked.sum(-1), torch.ones(3, 6))
    assert (asked[batch["src_tokens"].eq(PAD)[:, None].expand_as(asked)] == 0).all()
    assert not torch.allclose(asked, first_head)
    model.make_generation_fast_(need_attn=True)
    assert model(**batch)[1]["attn"][0].shape == (3, 6, 7)


@torch.no_grad()
def test_asking_for_weights_does_not_change_the_output():
    model = toy.randomize(toy.model(decoder_layers=1), std=0.1)
    plain = model(**toy.batch())[0]
    asked, extra = model(**toy.batch(), alignment_layer=0)
    assert (plain - asked).abs().max() < 1e-5
    theirs = toy.fairseq_model(decoder_layers=1)
    ours = toy.model("post", decoder_layers=1)
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(**toy.batch(), alignment_layer=0)[1]["attn"][0]
    assert torch.allclose(ours(**toy.batch(), alignment_layer=0)[1]["attn"][0], expected, atol=1e-6)
