"""Looks into a model at work, and leaves it as it was."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

import torch
from torch import Tensor, nn

from ..models import ResidualTransformerModel
from ..models.residual_transformer import without_layer_drop

STACKS = ("encoder", "decoder")


@contextmanager
def untouched(model: ResidualTransformerModel) -> Iterator[None]:
    """Restores the random state, and the mode of every module, on leaving.

    Until then nothing is measured, and no layer left out.

    Gradients are left alone by who computes them: ``torch.autograd.grad`` does.
    """
    modes = [(module, module.training) for module in model.modules()]
    profiled, model.profiled = model.profiled, True
    with torch.random.fork_rng(), without_layer_drop(model):
        try:
            yield
        finally:
            model.profiled = profiled
            for module, mode in modes:
                module.training = mode


@contextmanager
def inputs_of(modules: dict[str, nn.Module], keep: Callable[[str, Any], Any]) -> Iterator[None]:
    """Hands the first argument of modules over whenever they are called, until leaving.

    Args:
        modules: by name.
        keep: takes the name and the argument; what it returns, unless that is None, takes the
            argument's place.
    """

    def hook_for(name):
        def hook(module, arguments):
            first = keep(name, arguments[0])
            return None if first is None else (first, *arguments[1:])

        return hook

    handles = [module.register_forward_pre_hook(hook_for(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def layers_of(model: ResidualTransformerModel, stack: str) -> list[nn.Module]:
    """The layers of ``"encoder"`` or ``"decoder"``, from below."""
    # Iterating over the list itself would leave some out at random under layer drop.
    return list(getattr(model, stack).layers.children())


def loss_of(model: ResidualTransformerModel, batch: dict) -> Tensor:
    """Mean negative log-likelihood of a batch's target units, in nats.

    Args:
        batch: fairseq's sample, with ``net_input`` and ``target`` ``(B, T)``.
    """
    output = model(**batch["net_input"])
    log_probs = model.get_normalized_probs(output, log_probs=True)
    return torch.nn.functional.nll_loss(
        log_probs.flatten(0, 1).float(),
        batch["target"].flatten(),
        ignore_index=model.decoder.padding_idx,
    )


def prepare(model: ResidualTransformerModel, batch: dict) -> None:
    """Lets connections measure on the first batch what they measure before the first update."""
    if not model.profiled:
        net_input = batch["net_input"]
        model.profile(
            net_input["src_tokens"], net_input["src_lengths"], net_input["prev_output_tokens"]
        )
