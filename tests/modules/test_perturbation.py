"""Word dropout and word replacement: their rates, what they spare, gone at inference."""

import math

import pytest
import torch
import toy
from fairseq.data import Dictionary

from residual_fairseq.errors import UsageError
from residual_fairseq.modules import WordPerturbation

NO_WORDS = ("__de__", "madeupword0000")


def perturbation(**rates):
    dictionary = toy.dictionary(100)
    for symbol in NO_WORDS:
        dictionary.add_symbol(symbol)
    rates = {"dropout": 0.0, "replacement": 0.0, "decay": 1000.0, **rates}
    return WordPerturbation(dictionary, **rates), dictionary


def tokens(dictionary):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(len(dictionary), (200, 300), generator=generator)


def spared(dictionary, tokens):
    no_words = torch.tensor([dictionary.index(symbol) for symbol in NO_WORDS])
    return (tokens < Dictionary().nspecial) | torch.isin(tokens, no_words)


def test_drops_the_embeddings_of_words():
    module, dictionary = perturbation(dropout=0.3)
    ids = tokens(dictionary)
    dropped = (module.drop(torch.ones(*ids.shape, 2), ids) == 0).all(dim=-1)
    kept = spared(dictionary, ids)
    assert not dropped[kept].any()
    assert dropped[~kept].float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert torch.equal(module.replace(ids), ids)


@pytest.mark.parametrize("updates", [0, 3000, 7000, 10**9])
def test_replaces_words_more_and_more_often(updates):
    module, dictionary = perturbation(replacement=0.4, decay=1000.0)
    module.set_num_updates(updates)
    ids = tokens(dictionary)
    replaced = module.replace(ids)
    kept = spared(dictionary, ids)
    assert torch.equal(replaced[kept], ids[kept])
    assert not spared(dictionary, replaced[~kept]).any()
    right = 1000 / (1000 + math.exp(min(updates / 1000, 700)))
    rate = min(0.4, 1 - right)
    # One of a hundred is replaced by itself.
    changed = (replaced != ids)[~kept].float().mean().item()
    assert changed == pytest.approx(rate * 0.99, abs=0.01)


def test_gone_at_inference():
    module, dictionary = perturbation(dropout=0.5, replacement=0.5)
    module.set_num_updates(10**6)
    module.eval()
    ids = tokens(dictionary)
    assert torch.equal(module.replace(ids), ids)
    embedded = torch.ones(*ids.shape, 2)
    assert torch.equal(module.drop(embedded, ids), embedded)


@pytest.mark.parametrize("flags", [{"word_dropout": 0.5}, {"word_replacement": 0.5}], ids=str)
@torch.no_grad()
def test_reaches_the_encoder_and_the_decoder(flags):
    model, plain = toy.model(**flags), toy.model()
    batch = toy.batch()
    assert torch.equal(model(**batch)[0], plain(**batch)[0])
    model.train()
    model.set_num_updates(10**6)
    source = plain.encoder(batch["src_tokens"])
    perturbed = model.encoder(batch["src_tokens"])
    assert not torch.allclose(perturbed["encoder_out"][0], source["encoder_out"][0])
    assert torch.equal(perturbed["encoder_padding_mask"][0], source["encoder_padding_mask"][0])
    prefix = batch["prev_output_tokens"]
    expected = plain.decoder(prefix, encoder_out=source)[0]
    assert not torch.allclose(model.decoder(prefix, encoder_out=source)[0], expected)


@pytest.mark.parametrize(
    "flags",
    [
        {"word_dropout": 1.0},
        {"word_replacement": -0.1},
        {"word_replacement_decay": 10.0},
        {"word_replacement": 0.1, "word_replacement_decay": 0.0},
    ],
    ids=str,
)
def test_wrong_rates_are_refused(flags):
    with pytest.raises(UsageError, match="--word-"):
        toy.model(**flags)
