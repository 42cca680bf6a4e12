"""Gradient norms, layer by layer: does the gradient vanish on its way down?"""

from __future__ import annotations

import argparse
from itertools import chain, repeat
from typing import Iterable

import torch
from torch import Tensor

from ..formats import Table
from ..models import ResidualTransformerModel
from ..plots import Panel
from .data import DataBin
from .output import Analysis, Picture, by_layer
from .probe import STACKS, inputs_of, layers_of, loss_of, untouched
from .subjects import add_batches, add_subjects, batches_of, settings_of, state_of, subjects_of

#: The parts of a layer, and what they are called.
PARTS = {
    "attention": "parameters of attention",
    "ffn": "parameters of feed-forward",
    "stream": "input stream",
    "streams": "all input streams",
}


def gradient_norms(model: ResidualTransformerModel, batch: dict) -> dict[str, dict[str, Tensor]]:
    """Norms of the gradient of a batch's loss, by stack and by part of each layer.

    The loss is the mean negative log-likelihood of the target units, in nats. Nothing of the model
    changes; it is looked at in the mode that it is in.

    Args:
        batch: fairseq's sample.

    Returns:
        by ``"encoder"`` and ``"decoder"``, then by part, the norm for each layer from below,
        ``(layers,)``: ``"attention"`` and ``"ffn"`` with respect to the parameters of the
        attentions and of the feed-forward sublayer; ``"stream"`` to the main stream that enters
        the layer, ``(T, B, C)``; ``"streams"`` to all tensors that enter it (those of a scheme
        with several are as it scales them).
    """
    names, wanted = [], []
    streams: dict[str, list[Tensor]] = {}
    layers = {
        f"{stack}.{i}": layer for stack in STACKS for i, layer in enumerate(layers_of(model, stack))
    }

    def keep(name, stream):
        # Otherwise what a scheme derives from its first tensor would count as that tensor.
        streams[name] = [tensor.view_as(tensor) for tensor in stream]
        return streams[name]

    with untouched(model), inputs_of(layers, keep), torch.enable_grad():
        loss = loss_of(model, batch)
    for name, layer in layers.items():
        for key, parameter in layer.named_parameters():
            part = part_of(key)
            if part and parameter.requires_grad:
                names.append((name, part))
                wanted.append(parameter)
        for part, tensor in zip(chain(["stream"], repeat("others")), streams[name]):
            names.append((name, part))
            wanted.append(tensor)
    zero = torch.zeros(())
    squares: dict[tuple[str, str], Tensor] = {}
    for name, gradient in zip(names, torch.autograd.grad(loss, wanted, allow_unused=True)):
        square = zero if gradient is None else gradient.float().square().sum().cpu()
        squares[name] = squares.get(name, zero) + square
    for name in layers:
        squares[name, "streams"] = squares[name, "stream"] + squares.get((name, "others"), zero)
    return {
        stack: {
            part: torch.stack([squares[n, part] for n in layers if n.startswith(stack)]).sqrt()
            for part in PARTS
        }
        for stack in STACKS
    }


def part_of(parameter: str) -> str | None:
    """Of a layer's parameter, ``"attention"`` or ``"ffn"`` by its name; None: a connection's."""
    head = parameter.partition(".")[0]
    if head in ("self_attn", "encoder_attn"):
        return "attention"
    return "ffn" if head in ("fc1", "fc2", "ffn_layernorm") else None


def measure(
    model: ResidualTransformerModel, batches: Iterable[dict]
) -> dict[str, dict[str, Tensor]]:
    """``gradient_norms`` of several batches, ``(batches, layers)`` by stack and part."""
    found = [gradient_norms(model, batch) for batch in batches]
    return {
        stack: {part: torch.stack([f[stack][part] for f in found]) for part in found[0][stack]}
        for stack in STACKS
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subjects(parser)
    add_batches(parser, "valid", max_tokens=1024, batches=8)


def run(args: argparse.Namespace) -> Analysis:
    """Gradient norms of the models that the options ask for."""
    data = DataBin(args.data)
    batches = batches_of(args, data)
    numbers = {}
    for subject in subjects_of(args, data):
        numbers[subject.label] = {
            stack: {part: summary(norms) for part, norms in parts.items()}
            for stack, parts in measure(subject.model, batches).items()
        }
    state = state_of(args)
    return Analysis(
        name="gradients",
        title=f"Gradients {state}",
        settings=settings_of(args, data),
        tables=[table(numbers, state)],
        pictures=[picture(stack, numbers, state) for stack in STACKS],
        numbers=numbers,
    )


def summary(norms: Tensor) -> dict[str, list[float] | float | None]:
    """Mean and deviation over batches of ``(batches, layers)``, and the last layer by the first."""
    mean = norms.mean(dim=0)
    deviation = norms.std(dim=0) if len(norms) > 1 else torch.zeros_like(mean)
    return {
        "mean": mean.tolist(),
        "deviation": deviation.tolist(),
        # Below a branch that starts at 0 there is no gradient.
        "last_by_first": (mean[-1] / mean[0]).item() if mean[0] else None,
    }


def table(numbers: dict, state: str) -> Table:
    columns = ["model", "stack", *(f"{part}: last / first" for part in PARTS), "first", "last"]
    rows = []
    for label, stacks in numbers.items():
        for stack, parts in stacks.items():
            mean = parts["attention"]["mean"]
            rows.append(
                [
                    label,
                    stack,
                    *(ratio(parts[part]["mean"]) for part in PARTS),
                    f"{mean[0]:.3g}",
                    f"{mean[-1]:.3g}",
                ]
            )
    return Table(
        f"Gradient norms {state}",
        columns,
        rows,
        [
            "last / first: norm of the gradient in the last layer by that in the first",
            "first, last: norm with respect to the parameters of attention, in nats",
            "all input streams: of a scheme with several, such as residual's second one",
        ],
    )


def ratio(values: list[float]) -> str:
    """The last layer's by the first's."""
    return f"{values[-1] / values[0]:.3g}" if values[0] else "–"


def picture(stack: str, numbers: dict, state: str) -> Picture:
    def curves(part, what):
        return {label: by_layer(stacks[stack][part][what]) for label, stacks in numbers.items()}

    return Picture(
        f"gradients-{stack}",
        f"Gradient of the loss in the {stack}, {state}",
        f"The norm of the gradient by layer of the {stack}, one line for each of "
        f"{', '.join(numbers)}; panels: {', '.join(PARTS.values())}.",
        [
            Panel(
                f"layer of the {stack}",
                "norm of the gradient of the loss (nats)",
                curves(part, "mean"),
                title=what,
                spreads=curves(part, "deviation"),
                log=True,
            )
            for part, what in PARTS.items()
        ],
    )
