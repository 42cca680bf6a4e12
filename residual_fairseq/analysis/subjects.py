"""What an analysis looks at: new models of some connections and depths, or checkpoints."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import yaml

from ..connections import REGISTRY
from ..errors import UsageError
from ..models import ResidualTransformerModel
from ..models.config import NESTED
from .data import DataBin
from .models import new_model, trained_model
from .probe import prepare

#: The options for new models, and what they are otherwise.
NEW_MODELS = {
    "connections": "post pre residual",
    "depths": "6 18",
    "arch": "residual_transformer_tiny",
    "set": [],
}

#: Options of their own for what ``--set`` would say, too.
HAVE_OPTIONS = {
    "residual_connection": "--connections",
    "encoder.layers": "--depths",
    "decoder.layers": "--depths",
}

#: Where the quickstart leaves its data-bin.
DATA = Path("results", "quickstart", "corpus", "bin")


class Subject(NamedTuple):
    """A model to look at.

    Attributes:
        label: what it is called in pictures and tables: ``post 6+6``.
        model: in training mode, without dropout; what is measured before a training is.
    """

    label: str
    model: ResidualTransformerModel


def add_data(parser: argparse.ArgumentParser) -> None:
    """The option for the text."""
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        metavar="DATA-BIN",
        help="of fairseq-preprocess (default: the quickstart's, %(default)s)",
    )


def add_models(parser: argparse.ArgumentParser) -> None:
    """The options for new models."""
    parser.add_argument(
        "--connections",
        metavar='"NAME ..."',
        help="residual connections, or all (default: %(default)s)",
    )
    parser.add_argument(
        "--depths",
        metavar='"N NxM ..."',
        help="layers of encoder and decoder: 6, or 12x6 (default: %(default)s)",
    )
    parser.add_argument(
        "--arch",
        metavar="NAME",
        help="named architecture (default: %(default)s)",
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="KEY=VALUE",
        help="another value of the model, as under model in a YAML: encoder.embed_dim=64; may be "
        "repeated",
    )
    parser.set_defaults(**NEW_MODELS)


def add_subjects(parser: argparse.ArgumentParser) -> None:
    """The options for text, new models and checkpoints."""
    add_data(parser)
    add_models(parser)
    parser.add_argument(
        "--checkpoints",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="look at these, not at new models",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of new models' weights and of batches"
    )


def add_batches(
    parser: argparse.ArgumentParser, split: str, max_tokens: int, batches: int | None = None
) -> None:
    """The options for batches, with their defaults.

    Args:
        batches: how many; None: the whole split, and no option for it.
    """
    parser.add_argument("--split", default=split, help="whose text (default: %(default)s)")
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=max_tokens,
        metavar="N",
        help="of a batch at most (default: %(default)s)",
    )
    if batches:
        parser.add_argument(
            "--batches",
            type=int,
            default=batches,
            metavar="N",
            help="how many (default: %(default)s)",
        )


def batches_of(args: argparse.Namespace, data: DataBin) -> list[dict]:
    """The batches that the options ask for."""
    check_positive(args, "batches", "max_tokens")
    return list(islice(data.batches(args.split, args.max_tokens, args.seed), args.batches))


def state_of(args: argparse.Namespace) -> str:
    """What titles say of the models."""
    return "of checkpoints" if args.checkpoints else "before training"


def subjects_of(args: argparse.Namespace, data: DataBin) -> Iterator[Subject]:
    """The models that the options ask for, one at a time.

    Raises:
        UsageError: an option is unusable. All are looked at before the first model is given.
    """
    if args.checkpoints:
        for name, default in NEW_MODELS.items():
            if getattr(args, name) != default:
                raise UsageError(f"--{name} is for new models; leave it, or --checkpoints, out")
        models = [trained_model(data, path) for path in args.checkpoints]
        names = [name_of(model) for model in models]
        for path, model, name in zip(args.checkpoints, models, names):
            label = name if Counter(names)[name] == 1 else f"{name} {path}"
            yield Subject(label, model)
        return
    values = values_of(args)
    for connection in connections_of(args.connections):
        for layers in depths_of(args.depths):
            model = new_model(data, connection, layers, args.seed, args.arch, values)
            prepare(model, next(data.batches(args.split, args.max_tokens, args.seed)))
            yield Subject(f"{connection} {layers[0]}+{layers[1]}", model)


def name_of(model: ResidualTransformerModel) -> str:
    """``post 6+6``."""
    layers = (len(stack.layers) for stack in (model.encoder, model.decoder))
    return f"{model.cfg.residual_connection} {'+'.join(map(str, layers))}"


def check_positive(args: argparse.Namespace, *names: str) -> None:
    """Refuses options that have to be above 0 and are not.

    Raises:
        UsageError: one is not.
    """
    for name in names:
        if not 0 < getattr(args, name) < math.inf:
            raise UsageError(f"--{name.replace('_', '-')} has to be a number above 0")


def connections_of(text: str) -> list[str]:
    """The connections of ``--connections``, each once.

    Raises:
        UsageError: there is no such connection, or none is named.
    """
    names = list(REGISTRY) if text == "all" else list(dict.fromkeys(text.split()))
    if not names or not REGISTRY.keys() >= set(names):
        raise UsageError(f"--connections {text!r}: give some of {' '.join(sorted(REGISTRY))}")
    return names


def depths_of(text: str) -> list[tuple[int, int]]:
    """``6 12x3`` or ``6 12+3`` to (6, 6) and (12, 3), each once.

    Raises:
        UsageError: that is no list of depths.
    """
    depths = []
    for word in text.split():
        encoder, x, decoder = word.replace("+", "x").partition("x")
        decoder = decoder if x else encoder
        if not (encoder.isdecimal() and decoder.isdecimal() and int(encoder) and int(decoder)):
            raise UsageError(f"--depths {text!r}: {word} is no depth; write them like 6 or 12x6")
        depths.append((int(encoder), int(decoder)))
    if not depths:
        raise UsageError("--depths is empty")
    return list(dict.fromkeys(depths))


def values_of(args: argparse.Namespace) -> dict[str, Any]:
    """The values of ``--set`` by dotted key.

    Raises:
        UsageError: one is not of that form.
    """
    values = {}
    for setting in args.set:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: write KEY=VALUE")
        if key in HAVE_OPTIONS:
            raise UsageError(f"--set {setting}: say it by {HAVE_OPTIONS[key]}")
        if key in NESTED:
            raise UsageError(f"--set {setting}: say which of its values, {key}.KEY=VALUE")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UsageError(f"--set {setting}: {value} is no value of a YAML") from None
    return values


def settings_of(args: argparse.Namespace, data: DataBin) -> dict[str, Any]:
    """What decides about the numbers of an analysis: its options, and the text."""
    left_out = {"analysis", "out", "data"}
    if getattr(args, "checkpoints", None):
        left_out |= NEW_MODELS.keys()
    options = {
        name: [str(path) for path in value] if name == "checkpoints" else value
        for name, value in vars(args).items()
        if name not in left_out
    }
    languages = [data.task.cfg.source_lang, data.task.cfg.target_lang]
    return {
        "data": str(data.path),
        "data_sha256": data.digest(),
        "languages": languages,
        **options,
    }
