"""What the forward pass keeps for the backward pass."""

import gc

import pytest
import torch
import toy

SIZE = {"encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128, "decoder_embed_dim": 64}
T, B, C = 12, 16, 64


def kept_bytes(model):
    """Bytes of all tensors that are alive because of the pass, each storage once."""
    batch = toy.batch(lengths=((T, T),) * B)
    model.train()(**batch)
    known = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    gc.collect()
    known |= storages(t for t in gc.get_objects() if torch.is_tensor(t)).keys()
    seen = {}

    def note(tensor):
        seen.update(storages([tensor]))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(**batch)
    gc.collect()
    # A checkpointed layer holds its arguments by itself.
    seen.update(storages(t for t in gc.get_objects() if torch.is_tensor(t)))
    del output
    return sum(size for pointer, size in seen.items() if pointer not in known)


def storages(tensors):
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def of_depth(connection, layers, **flags):
    return toy.model(connection, encoder_layers=layers, decoder_layers=layers, **SIZE, **flags)


def test_the_second_stream_costs_next_to_nothing():
    post, residual = (kept_bytes(of_depth(name, 6)) for name in ("post", "residual"))
    assert post < residual <= 1.02 * post


@pytest.mark.parametrize(("connection", "streams"), [("post", 1), ("pre", 1), ("residual", 2)])
def test_a_checkpointed_layer_costs_its_stream(connection, streams):
    few, many = (
        kept_bytes(of_depth(connection, layers, checkpoint_activations=True)) for layers in (4, 8)
    )
    # Four layers more in each stack: float32, and the random state to draw dropout again from.
    assert many - few == 4 * 2 * (streams * T * B * C * 4 + len(torch.get_rng_state()))
    assert many < kept_bytes(of_depth(connection, 8)) / 4
