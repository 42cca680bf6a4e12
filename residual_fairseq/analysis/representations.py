"""How alike the inputs of successive layers are: do representations collapse at depth?"""

from __future__ import annotations

import argparse
from typing import Iterable

import torch
from torch import Tensor

from ..formats import Table
from ..models import ResidualTransformerModel
from ..plots import Panel
from .data import DataBin
from .output import Analysis, Picture, by_layer
from .probe import STACKS, inputs_of, layers_of, untouched
from .subjects import add_batches, add_subjects, check_positive, settings_of, state_of, subjects_of

#: What is compared, and what it is called. Each is a curve over layers.
MEASURES = {
    "cosine_next": "cosine similarity to the next layer's input",
    "cosine_last": "cosine similarity to the last layer's input",
    "update": "size of the update, relative to the stream",
    "cka_next": "linear CKA with the next layer's input",
    "cka_last": "linear CKA with the last layer's input",
}

#: The module of a layer whose first argument is the input of a sublayer.
SUBLAYERS = {"self_attn": "self_attn", "encoder_attn": "encoder_attn", "ffn": "fc1"}


def cosine(x: Tensor, y: Tensor) -> Tensor:
    """Cosine similarity of each token's vectors, ``(tokens, C)`` twice to ``(tokens,)``."""
    return torch.nn.functional.cosine_similarity(x, y, dim=-1)


class Moments:
    """Sums over tokens for the linear CKA of two representations (Kornblith et al. 2019,
    arXiv 1905.00414, section 3): ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖), Frobenius norms, columns centred."""

    def __init__(self) -> None:
        self.n = 0
        self.sums: list[Tensor] = []

    def add(self, x: Tensor, y: Tensor) -> None:
        """Count tokens in: ``(tokens, C)`` and ``(tokens, D)``."""
        x, y = x.double(), y.double()
        sums = [x.sum(0), y.sum(0), x.T @ x, y.T @ y, y.T @ x]
        self.n += len(x)
        self.sums = [a + b for a, b in zip(self.sums, sums)] if self.sums else sums

    def cka(self) -> float:
        sx, sy, xx, yy, yx = self.sums
        xx, yy = xx - torch.outer(sx, sx) / self.n, yy - torch.outer(sy, sy) / self.n
        yx = yx - torch.outer(sy, sx) / self.n
        return (yx.square().sum() / (xx.norm() * yy.norm())).item()


def similarities(
    model: ResidualTransformerModel, batches: Iterable[dict]
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """How alike what successive layers work on is, by stack, by sublayer and by measure.

    Means over all tokens of the batches; padding is left out. The model is looked at in
    evaluation mode and left in the mode that it was in.

    Args:
        batches: fairseq's samples.

    Returns:
        by stack, then by ``"self_attn"``, ``"encoder_attn"`` (decoder) and ``"ffn"``, for the
        inputs x_1 ... x_L of these sublayers (what they read from the stream, ``(T, B, C)``):

        - ``"cosine_next"``: of x_l and x_{l+1}, for l = 1 ... L - 1;
        - ``"cosine_last"``: of x_l and x_L, for l = 1 ... L - 1;
        - ``"cka_next"``, ``"cka_last"``: linear CKA of the same pairs;

        and under ``"stream"``, ``"update"``: ‖s_{l+1} - s_l‖ / ‖s_l‖ of the main stream s_l that
        enters layer l, for l = 1 ... L, s_{L+1} being what leaves the last layer.
    """
    sums: dict[tuple[str, str, str], Tensor] = {}
    moments: dict[tuple[str, str, str], list[Moments]] = {}
    tokens = dict.fromkeys(STACKS, 0)

    def add(key, values):
        total = values.double().sum(dim=1)
        sums[key] = sums.get(key, torch.zeros_like(total)) + total

    for batch in batches:
        seen, streams = read_batch(model, batch)
        for stack in STACKS:
            for sublayer, inputs in seen[stack].items():
                below, above = inputs[:-1], inputs[1:]
                if not below:
                    continue
                last = [inputs[-1]] * len(below)
                for which, others in (("next", above), ("last", last)):
                    cosines = torch.stack([cosine(x, y) for x, y in zip(below, others)])
                    add((stack, sublayer, f"cosine_{which}"), cosines)
                    new = [Moments() for _ in below]
                    sums_of = moments.setdefault((stack, sublayer, f"cka_{which}"), new)
                    for layer_sums, x, y in zip(sums_of, below, others):
                        layer_sums.add(x, y)
            sizes = [
                (above - below).norm(dim=-1) / below.norm(dim=-1)
                for below, above in zip(streams[stack], streams[stack][1:])
            ]
            add((stack, "stream", "update"), torch.stack(sizes))
            tokens[stack] += len(sizes[0])
    result: dict[str, dict[str, dict[str, list[float]]]] = {stack: {} for stack in STACKS}
    for (stack, sublayer, measure), total in sums.items():
        values = (total / tokens[stack]).tolist()
        result[stack].setdefault(sublayer, {})[measure] = values
    for (stack, sublayer, measure), pairs in moments.items():
        result[stack][sublayer][measure] = [pair.cka() for pair in pairs]
    return result


@torch.no_grad()
def read_batch(model: ResidualTransformerModel, batch: dict):
    """What a batch puts through a model, without padding.

    Returns:
        by stack and sublayer the inputs of its layers, and by stack the main stream before and
        after each layer, all ``(tokens, C)``.
    """
    seen: dict[str, object] = {}
    modules = {}
    for stack in STACKS:
        for i, layer in enumerate(layers_of(model, stack)):
            for sublayer, module in SUBLAYERS.items():
                if getattr(layer, module, None) is not None:
                    modules[f"{stack}.{sublayer}.{i}"] = getattr(layer, module)
    net_input = batch["net_input"]
    pad = model.decoder.padding_idx
    with untouched(model), inputs_of(modules, seen.__setitem__):
        model.eval()
        encoder_out = model.encoder(
            net_input["src_tokens"], net_input["src_lengths"], return_all_hiddens=True
        )
        _, extra = model.decoder(net_input["prev_output_tokens"], encoder_out=encoder_out)
    hidden = {"encoder": encoder_out["encoder_states"], "decoder": extra["inner_states"]}
    words = {
        "encoder": net_input["src_tokens"].ne(pad).T,
        "decoder": net_input["prev_output_tokens"].ne(pad).T,
    }
    inputs: dict[str, dict[str, list[Tensor]]] = {stack: {} for stack in STACKS}
    for name in modules:
        stack, sublayer, _ = name.split(".")
        inputs[stack].setdefault(sublayer, []).append(seen[name][words[stack]].float())
    streams = {stack: [x[words[stack]].float() for x in hidden[stack]] for stack in STACKS}
    return inputs, streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_subjects(parser)
    add_batches(parser, "valid", max_tokens=4096)


def run(args: argparse.Namespace) -> Analysis:
    """Similarities within the models that the options ask for."""
    check_positive(args, "max_tokens")
    data = DataBin(args.data)
    numbers = {}
    for subject in subjects_of(args, data):
        numbers[subject.label] = similarities(subject.model, data.once(args.split, args.max_tokens))
    state = state_of(args)
    return Analysis(
        name="representations",
        title=f"Representations {state}",
        settings=settings_of(args, data),
        tables=[table(numbers, state)],
        pictures=[picture(stack, numbers, state) for stack in STACKS],
        numbers=numbers,
    )


def table(numbers: dict, state: str) -> Table:
    rows = []
    for label, stacks in numbers.items():
        for stack, parts in stacks.items():
            curves = {**parts.get("self_attn", {}), **parts["stream"]}
            cells = []
            for measure in MEASURES:
                curve = curves.get(measure)
                cells.append(f"{sum(curve) / len(curve):.3f}" if curve else "–")
            last = curves.get("cosine_next")
            rows.append([label, stack, *cells, f"{last[-1]:.3f}" if last else "–"])
    columns = [
        "model",
        "stack",
        "cosine to next",
        "cosine to last",
        "update",
        "CKA with next",
        "CKA with last",
        "cosine of the last two",
    ]
    return Table(
        f"Similarity of layers {state}",
        columns,
        rows,
        [
            "means over layers, of the inputs of self-attention, over all tokens but padding",
            "update: size of what a layer changes in the main stream, relative to the stream",
        ],
    )


def picture(stack: str, numbers: dict, state: str) -> Picture:
    def curves(measure):
        sublayer = "stream" if measure == "update" else "self_attn"
        return {
            label: by_layer(stacks[stack].get(sublayer, {}).get(measure, []))
            for label, stacks in numbers.items()
        }

    return Picture(
        f"representations-{stack}",
        f"Inputs of self-attention in the {stack}, {state}",
        f"Similarity by layer of the {stack}, one line for each of {', '.join(numbers)}; panels: "
        f"{', '.join(MEASURES.values())}.",
        [
            Panel(
                f"layer of the {stack}",
                {"update": "ratio of norms"}.get(measure, "similarity (1: the same)"),
                curves(measure),
                title=what,
                bottom=0 if measure == "update" else None,
                top=None if measure == "update" else 1.02,
            )
            for measure, what in MEASURES.items()
        ],
    )
