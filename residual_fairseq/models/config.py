"""The configuration of ``residual_transformer``: fairseq's, our flags, each scheme's flags."""

import argparse
import difflib
from dataclasses import dataclass, field, fields

from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from ..connections import REGISTRY
from ..errors import UsageError

NESTED = ("encoder", "decoder", "quant_noise")


@dataclass
class BaseConfig(TransformerConfig):
    """fairseq's `TransformerConfig` and the flags that no single scheme owns."""

    residual_connection: str = field(
        default="residual",
        metadata={"help": f"how a stack carries its residual stream: {', '.join(REGISTRY)}"},
    )
    scale_attn: bool = field(
        default=False,
        metadata={"help": "decoder layers: LayerNorm after self-attention (NormFormer)"},
    )
    scale_heads: bool = field(
        default=False,
        metadata={"help": "decoder layers: a learned scale for each self-attention head"},
    )
    scale_fc: bool = field(
        default=False,
        metadata={"help": "decoder layers: LayerNorm inside the feed-forward sublayer"},
    )
    scale_resids: bool = field(
        default=False,
        metadata={"help": "decoder layers: a learned scale on the residual of feed-forward"},
    )


def config_class():
    """The configuration's dataclass: `BaseConfig` and the options of every registered scheme.

    Made anew at each call, since a plugin may register a scheme at any time.
    """
    options = dict.fromkeys(connection.Options for connection in REGISTRY.values())
    return dataclass(type("ResidualTransformerConfig", (*options, BaseConfig), {}))


def flatten(cfg) -> dict:
    """The values of the ``model`` part of a YAML, nested keys as flat ones: encoder_layers.

    fairseq's named architectures set flat keys and read either the flat or the nested ones, so
    that a YAML which names one nested key would lose the architecture's values of all others.
    """
    values = OmegaConf.to_container(cfg, resolve=True)
    for prefix in NESTED:
        nested = values.pop(prefix, None) or {}
        values.update({f"{prefix}_{key}": value for key, value in nested.items()})
    return values


def read(args):
    """The checked configuration, from the flags of a command or the ``model`` part of a YAML.

    Raises:
        UsageError: a key or a combination of values that means nothing here.
    """
    if OmegaConf.is_config(args):
        args = argparse.Namespace(**flatten(args))
        check_keys(vars(args))
    cfg = config_class().from_namespace(args)
    check(cfg)
    return cfg


def check_keys(keys) -> None:
    """Refuses a key of a YAML that no part of the configuration has."""
    known = {"_name", "arch"}
    for entry in fields(config_class()):
        nested = getattr(entry.type, "__dataclass_fields__", {}) if entry.name in NESTED else {}
        known.update(f"{entry.name}_{name}" for name in nested)
        known.add(entry.name)
    for key in keys:
        if key not in known:
            guess = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean model.{guess[0]}?" if guess else ""
            raise UsageError(f"unknown key model.{key} in the configuration{hint}")


def check(cfg) -> None:
    """Refuses, in one line that names the flag, what would be ignored or fail later on."""
    if cfg.residual_connection not in REGISTRY:
        raise UsageError(
            f"unknown --residual-connection {cfg.residual_connection!r}; "
            f"known: {', '.join(sorted(REGISTRY))}"
        )
    connection = REGISTRY[cfg.residual_connection]
    for side in ("encoder", "decoder"):
        part = getattr(cfg, side)
        if part.embed_dim % part.attention_heads:
            raise UsageError(
                f"--{side}-embed-dim {part.embed_dim} is not divisible by "
                f"--{side}-attention-heads {part.attention_heads}"
            )
        if part.layers < 1:
            raise UsageError(f"--{side}-layers must be at least 1, not {part.layers}")
        if part.normalize_before:
            raise UsageError(
                f"--{side}-normalize-before has no meaning here: "
                "say --residual-connection pre for Pre-LN"
            )
        if part.xformers_att_config:
            raise UsageError(
                f"--{side}-xformers-att-config is not supported: "
                "attention takes PyTorch's own fused kernels"
            )
    if cfg.cross_self_attention and cfg.encoder.embed_dim != cfg.decoder.embed_dim:
        raise UsageError("--cross-self-attention needs one width for the encoder and the decoder")
    if cfg.offload_activations:
        raise UsageError("--offload-activations is not supported: use --checkpoint-activations")
    if cfg.base_layers:
        raise UsageError("--base-layers is not supported: a BASE layer carries no stream")
    if cfg.char_inputs:
        raise UsageError("--char-inputs is not supported")
    for flag in ("scale_resids", "no_decoder_final_norm"):
        if getattr(cfg, flag) and flag not in connection.supported_flags:
            able = [name for name, known in REGISTRY.items() if flag in known.supported_flags]
            raise UsageError(
                f"--{flag.replace('_', '-')} has no meaning for --residual-connection "
                f"{cfg.residual_connection}, only for: {', '.join(sorted(able))}"
            )
