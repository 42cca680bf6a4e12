"""The models that an analysis looks at: new ones, or those of checkpoints."""

from __future__ import annotations

import os
from typing import Any, Mapping

import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, build_model
from omegaconf import OmegaConf

from ..errors import UsageError
from ..models import ResidualTransformerModel
from ..models.residual_transformer import NAME
from .data import DataBin

#: What is random in training; an analysis looks at the model without it.
WITHOUT_NOISE = {
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "relu_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "word_dropout": 0.0,
    "word_replacement": 0.0,
    # The default: another one is refused without replacement.
    "word_replacement_decay": 1000.0,
    "quant_noise_pq": 0.0,
}


def new_model(
    data: DataBin,
    connection: str,
    layers: tuple[int, int],
    seed: int = 1,
    arch: str = "residual_transformer_tiny",
    values: Mapping[str, Any] | None = None,
) -> ResidualTransformerModel:
    """A model as it is before training, without dropout, in training mode.

    Args:
        data: whose dictionaries it has; one embedding for both languages if they share one.
        connection: name of the residual connection.
        layers: of the encoder and of the decoder.
        seed: of its weights.
        arch: named architecture.
        values: others of the ``model`` part of a YAML, by dotted key: ``encoder.embed_dim``.

    Raises:
        UsageError: there is no such model.
    """
    known = [name for name, model in ARCH_MODEL_NAME_REGISTRY.items() if model == NAME]
    if arch not in known:
        raise UsageError(f"--arch {arch}: give one of {' '.join(known)}")
    cfg = OmegaConf.create({"_name": arch, "share_all_embeddings": data.joined, "dropout": 0.0})
    chosen = {
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        **(values or {}),
        "residual_connection": connection,
        "encoder.layers": layers[0],
        "decoder.layers": layers[1],
    }
    for key, value in chosen.items():
        OmegaConf.update(cfg, key, value, merge=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_model(cfg, data.task).train()


def trained_model(data: DataBin, checkpoint: str | os.PathLike) -> ResidualTransformerModel:
    """The model of a checkpoint, without dropout, in training mode.

    Raises:
        UsageError: there is no such file, or it is not of this package's models, or of other
            dictionaries.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint), WITHOUT_NOISE)
    weights = state.get("model") or {}
    if "residual_connection" not in weights:
        raise UsageError(f"{checkpoint}: no checkpoint of a residual_transformer")
    for side, dictionary in (
        ("encoder", data.task.source_dictionary),
        ("decoder", data.task.target_dictionary),
    ):
        symbols = len(weights[f"{side}.embed_tokens.weight"])
        if symbols != len(dictionary):
            raise UsageError(
                f"{checkpoint}: its {side} knows {symbols} symbols, the dictionary of {data.path} "
                f"has {len(dictionary)}"
            )
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], task=data.task, state=state
    )
    return model.train()
