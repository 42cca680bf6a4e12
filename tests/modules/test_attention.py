"""Attention on joined projections and fused kernels is the plain computation."""

import pytest
import torch
import toy
from fairseq.modules import MultiheadAttention

from residual_fairseq.modules.attention import Attention, JoinedLinear

KINDS = {"self": {"self_attention": True}, "cross": {"encoder_decoder_attention": True}}


def plain_and_ours(kind, dtype):
    """fairseq's own attention, computed in float32, and ours with the same weights."""
    torch.manual_seed(3)
    options = KINDS[kind] | ({"kdim": 12, "vdim": 12} if kind == "cross" else {})
    theirs, ours = MultiheadAttention(16, 4, **options), Attention(16, 4, **options)
    weights = {name: torch.randn_like(value) / 4 for name, value in theirs.state_dict().items()}
    weights = {name: value.to(dtype).float() for name, value in weights.items()}
    theirs.load_state_dict(weights)
    ours.load_state_dict(weights)
    return theirs.train(), ours.to(dtype).train()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 0.03)])
def test_output_and_gradients_are_those_of_plain_attention(kind, dtype, bound):
    """Relative to the size of each; with padding in the memory."""
    theirs, ours = plain_and_ours(kind, dtype)
    width = 12 if kind == "cross" else 16
    query = torch.randn(5, 3, 16).to(dtype)
    memory = torch.randn(7, 3, width).to(dtype) if kind == "cross" else query
    padding = torch.zeros(3, memory.size(0), dtype=torch.bool)
    padding[1, :2] = padding[2, -1:] = True
    direction = torch.randn(5, 3, 16)

    def gradients(module, query, memory, call):
        query = query.detach().requires_grad_()
        memory = memory.detach().requires_grad_() if kind == "cross" else query
        y = call(query, memory)
        inputs = [query, memory] if kind == "cross" else [query]
        wanted = [*inputs, *module.parameters()]
        return y, torch.autograd.grad((y.float() * direction).sum(), wanted)

    expected = gradients(
        theirs,
        query.float(),
        memory.float(),
        lambda q, m: theirs(q, m, m, key_padding_mask=padding, need_weights=False)[0],
    )
    mask = ~padding[:, None, None]
    found = gradients(ours, query, memory, lambda q, m: ours(q, m, mask)[0])
    assert dict(ours.named_parameters()).keys() == dict(theirs.named_parameters()).keys()
    for a, b in zip((expected[0], *expected[1]), (found[0], *found[1])):
        # The bias of the keys has no gradient but that of rounding.
        assert (a - b.float()).norm() <= bound * (a.norm() + 1)


def test_frozen_weights_and_inputs_have_no_gradient():
    x, w, b = torch.randn(4, 3), torch.randn(2, 3), torch.randn(2)
    other = torch.randn(2, 3, requires_grad=True)
    y = JoinedLinear.apply(x, w, other, b, b)
    assert torch.equal(y, torch.cat([x @ w.t() + b, x @ other.t() + b], dim=1))
    y.sum().backward()
    assert torch.allclose(other.grad, x.sum(0).expand(2, -1))
    assert x.grad is w.grad is b.grad is None


def test_autocast_reaches_the_projections():
    attention = Attention(8, 2, self_attention=True).train()
    x = torch.randn(3, 2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _, _ = attention(x, x)
        assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert attention.q_proj.weight.grad.dtype == torch.float32


def test_weights_are_not_copied_for_the_backward_pass():
    model = toy.model("post").train()
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes = []

    def note(tensor):
        if tensor.untyped_storage().data_ptr() not in parameters:
            sizes.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(**toy.batch())
    assert sizes and not {(96, 32), (64, 32), (32, 96), (32, 64)} & set(sizes)
