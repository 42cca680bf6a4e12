"""A recipe is one YAML in the layout of ``fairseq-hydra-train``; here it becomes flags.

So every hyper-parameter of a training is written down once, and both front ends read it:

    fairseq-hydra-train --config-dir configs --config-name quickstart task.data=DATABIN ...
    fairseq-train $FLAGS

where FLAGS are those of ``train_flags("configs/quickstart.yaml", {"task.data": DATABIN, ...})``.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Mapping

from fairseq.dataclass.configs import FairseqConfig
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from .errors import UsageError


def train_flags(path: str | os.PathLike, overrides: Mapping[str, Any] | None = None) -> list[str]:
    """The arguments of ``fairseq-train`` that say what a recipe says to ``fairseq-hydra-train``.

    Args:
        path: of the YAML.
        overrides: as of :func:`read_recipe`.

    Returns:
        The data-bin, if the recipe names one, and then the flags in the order of the YAML.

    Raises:
        UsageError: as :func:`read_recipe`.
    """
    recipe = read_recipe(path, overrides)
    # How to translate: for fairseq-generate.
    recipe.pop("generation", None)
    data = recipe.get("task", {}).pop("data", None)
    flags = [] if data is None else [str(data)]
    for section, values in recipe.items():
        flags += section_flags(section, values)
    return flags


def section_flags(section: str, values: Mapping[str, Any]) -> list[str]:
    """The flags of one section of a recipe, in its order.

    Args:
        section: its name.
        values: plain ones by key; nested keys stay nested.
    """
    values = dict(values)
    choice = values.pop("_name", None)
    flags = []
    if choice is not None:
        flags += [as_flag("arch" if section == "model" else section), str(choice)]
    off_switches = on_by_default(section, choice)
    for key, value in flatten(values):
        if isinstance(value, bool):
            if value != (key in off_switches):
                flags.append(as_flag(key))
        elif isinstance(value, list):
            flags += [as_flag(key), ",".join(map(str, value))]
        elif value is not None:
            flags += [as_flag(key), str(value)]
    return flags


def read_recipe(
    path: str | os.PathLike, overrides: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """The values of a recipe.

    Args:
        path: of the YAML. It is complete: Hydra's list of ``defaults`` is not followed.
        overrides: values by dotted key, e.g. ``{"model.encoder.layers": 12}``, in place of those
            of the YAML; what the YAML derives from them (``${...}``) follows.

    Returns:
        Section by section, the plain values by key; nested keys stay nested.

    Raises:
        UsageError: no such file, or not such a YAML, or a value is left open (``???``).
    """
    try:
        recipe = OmegaConf.load(os.fspath(path))
        if not OmegaConf.is_dict(recipe) or not all(map(OmegaConf.is_dict, recipe.values())):
            raise ValueError("not sections of keys and values, as fairseq-hydra-train wants them")
        for key, value in (overrides or {}).items():
            OmegaConf.update(recipe, key, value, merge=False)
        result = OmegaConf.to_container(recipe, resolve=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    for section, values in result.items():
        for key, value in flatten(values, separator="."):
            if value == MISSING:
                raise UsageError(f"{path}: {section}.{key} has to be given")
    return result


def flatten(values: Mapping[str, Any], separator: str = "_") -> Iterator[tuple[str, Any]]:
    """The keys and values of a section, nested keys as fairseq spells them: encoder_layers."""
    for key, value in values.items():
        if isinstance(value, dict):
            for inner, inner_value in flatten(value, separator):
                yield f"{key}{separator}{inner}", inner_value
        else:
            yield key, value


def on_by_default(section: str, choice: str | None) -> set[str]:
    """The booleans of a section that are true by default; fairseq's flag switches them off.

    Args:
        section: of the recipe.
        choice: what the section configures, its ``_name``.
    """
    if section == "task":
        config = TASK_DATACLASS_REGISTRY.get(choice)
    elif section in REGISTRIES:
        config = REGISTRIES[section]["dataclass_registry"].get(choice)
    else:
        config = getattr(FairseqConfig.__dataclass_fields__.get(section), "type", None)
    fields = getattr(config, "__dataclass_fields__", {})
    return {name for name, field in fields.items() if field.default is True}


def as_flag(key: str) -> str:
    """``max_tokens`` to ``--max-tokens``."""
    return "--" + key.replace("_", "-")
