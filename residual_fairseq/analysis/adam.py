"""What Adam makes of the gradient, layer by layer: is a small one hidden, or lost?"""

from __future__ import annotations

import argparse
import math
from typing import Iterable, Sequence

import torch
from torch import Tensor

from ..errors import UsageError
from ..formats import Table
from ..models import ResidualTransformerModel
from ..plots import Panel
from .data import DataBin
from .gradients import part_of, ratio
from .output import Analysis, Picture, by_layer
from .probe import STACKS, layers_of, loss_of, untouched
from .subjects import (
    add_batches,
    add_subjects,
    batches_of,
    check_positive,
    settings_of,
    state_of,
    subjects_of,
)

#: What is measured of each layer, and what it is called.
MEASURES = {
    "gradient": "root mean square of the gradient (nats)",
    "update": "root mean square of the update, by the learning rate",
    "share_below": "share of parameters with second moment below ε²",
}


def adam_updates(
    model: ResidualTransformerModel,
    batches: Iterable[dict],
    scales: Sequence[float] = (1.0,),
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-8,
) -> dict[float, dict[str, dict[str, list[float]]]]:
    """What Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1) would do to each layer.

    Its moments m and v are gathered over the batches while the weights stay as they are; then, of
    the parameters of attention and feed-forward of each layer, with m̂ and v̂ the moments without
    their bias:

    Args:
        batches: fairseq's samples; one step of Adam each.
        scales: what the loss is multiplied by, one after the other.
        betas, eps: Adam's.

    Returns:
        by scale and stack, for each layer from below:

        - ``"gradient"``: √mean(v̂), the scale included;
        - ``"update"``: √mean((m̂ / (√v̂ + ε))²), the update divided by the learning rate;
        - ``"share_below"``: the share of parameters with v̂ < ε².
    """
    owners, parameters = [], []
    for stack in STACKS:
        for i, layer in enumerate(layers_of(model, stack)):
            for key, parameter in layer.named_parameters():
                if part_of(key) and parameter.requires_grad:
                    owners.append((stack, i))
                    parameters.append(parameter)
    m = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    v = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    steps = 0
    for batch in batches:
        with untouched(model), torch.enable_grad():
            loss = loss_of(model, batch)
        steps += 1
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        for mean, square, gradient in zip(m, v, gradients):
            gradient = torch.zeros_like(mean) if gradient is None else gradient.float()
            mean.lerp_(gradient, 1 - betas[0])
            square.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    result: dict[float, dict[str, dict[str, list[float]]]] = {}
    for scale in scales:
        # m is linear in the loss, v quadratic. In double precision, since squares of small
        # gradients are below what float32 has.
        of_layer: dict[tuple[str, int], list[Tensor]] = {}
        for owner, mean, square in zip(owners, m, v):
            mean = scale * mean.double() / (1 - betas[0] ** steps)
            square = scale**2 * square.double() / (1 - betas[1] ** steps)
            update = mean / (square.sqrt() + eps)
            found = torch.stack([square, update.square(), (square < eps**2).double()])
            of_layer.setdefault(owner, []).append(found.flatten(1).cpu())
        result[scale] = {stack: {measure: [] for measure in MEASURES} for stack in STACKS}
        for (stack, _), found in of_layer.items():
            square, update, below = torch.cat(found, dim=1).mean(dim=1)
            values = {"gradient": square.sqrt(), "update": update.sqrt(), "share_below": below}
            for measure, value in values.items():
                result[scale][stack][measure].append(value.item())
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subjects(parser)
    add_batches(parser, "train", max_tokens=1024, batches=20)
    parser.add_argument(
        "--scales",
        default="1 1e-6",
        metavar='"S ..."',
        help="what the loss is multiplied by (default: %(default)s)",
    )
    parser.add_argument(
        "--eps", type=float, default=1e-8, metavar="E", help="Adam's (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> Analysis:
    """Adam's updates for the models that the options ask for."""
    try:
        scales = [float(word) for word in args.scales.split()]
    except ValueError:
        raise UsageError(f"--scales {args.scales!r}: write numbers") from None
    if not scales or not all(0 < scale < math.inf for scale in scales):
        raise UsageError(f"--scales {args.scales!r}: write numbers above 0")
    check_positive(args, "eps")
    data = DataBin(args.data)
    batches = batches_of(args, data)
    numbers: dict[str, dict[str, dict]] = {}
    for subject in subjects_of(args, data):
        for scale, found in adam_updates(subject.model, batches, scales, eps=args.eps).items():
            numbers.setdefault(f"{scale:g}", {})[subject.label] = found
    state = state_of(args)
    return Analysis(
        name="adam",
        title=f"Adam's updates {state}",
        settings=settings_of(args, data),
        tables=[table(numbers, state, args.eps)],
        pictures=[
            picture(stack, scale, found, state)
            for scale, found in numbers.items()
            for stack in STACKS
        ],
        numbers=numbers,
    )


def table(numbers: dict, state: str, eps: float) -> Table:
    columns = ["model", "stack", "loss times"]
    columns += ["gradient: last / first", "update: last / first", "update, first", "below ε², %"]
    rows = []
    for scale, models in numbers.items():
        for label, stacks in models.items():
            for stack, found in stacks.items():
                gradient, update = found["gradient"], found["update"]
                below = 100 * sum(found["share_below"]) / len(gradient)
                rows.append(
                    [
                        *(label, stack, scale),
                        ratio(gradient),
                        ratio(update),
                        f"{update[0]:.3g}",
                        f"{below:.1f}",
                    ]
                )
    return Table(
        f"Adam's updates {state}",
        columns,
        rows,
        [
            "last / first: root mean square over the parameters of attention and feed-forward of "
            "the last layer by that of the first",
            "update: by the learning rate",
            f"below ε²: share of these parameters whose second moment is below ε² = ({eps:g})²",
        ],
    )


def picture(stack: str, scale: str, models: dict, state: str) -> Picture:
    return Picture(
        f"adam-{stack}-{scale}",
        f"Adam in the {stack}, {state}, loss times {scale}",
        f"By layer of the {stack}, one line for each of {', '.join(models)}; panels: "
        f"{', '.join(MEASURES.values())}.",
        [
            Panel(
                f"layer of the {stack}",
                what,
                {label: by_layer(stacks[stack][measure]) for label, stacks in models.items()},
                title=measure.replace("share_below", "below ε²"),
                log=measure == "gradient",
                bottom=None if measure == "gradient" else 0,
            )
            for measure, what in MEASURES.items()
        ],
    )
