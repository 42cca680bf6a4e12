"""The configuration of ``residual_transformer``: fairseq's, our flags, each scheme's flags."""

import argparse
import difflib
from dataclasses import dataclass, field, fields
from typing import get_args

from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from ..connections import REGISTRY
from ..errors import UsageError

NESTED = ("encoder", "decoder", "quant_noise")

#: By the type of a field, the types that a YAML may have for it, and what they are called.
KINDS = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}

#: Fields of fairseq's configuration that would be ignored or fail later on: by name, the value
#: that asks for nothing, and what to say of others.
REFUSED = {
    "offload_activations": (False, "is not supported: use --checkpoint-activations"),
    "base_layers": (0, "is not supported: a BASE layer carries no stream"),
    "base_sublayers": (1, "is not supported: a BASE layer carries no stream"),
    "base_shuffle": (1, "is not supported: a BASE layer carries no stream"),
    "char_inputs": (False, "is not supported"),
    "adaptive_input": (False, "is not supported: it is for language models"),
    "tie_adaptive_weights": (False, "is not supported: it needs --adaptive-input"),
}


@dataclass
class BaseConfig(TransformerConfig):
    """fairseq's `TransformerConfig` and the flags that no single scheme owns."""

    residual_connection: str = field(
        default="residual",
        metadata={"help": f"how a stack carries its residual stream: {', '.join(REGISTRY)}"},
    )
    word_dropout: float = field(
        default=0.0,
        metadata={
            "help": "training: probability to set a word's embedding to zero, in the source and in "
            "the target prefix"
        },
    )
    word_replacement: float = field(
        default=0.0,
        metadata={
            "help": "training: probability to replace a word by a random one, which is reached "
            "after some updates"
        },
    )
    word_replacement_decay: float = field(
        default=1000.0,
        metadata={"help": "k: the probability to keep a word decays as k / (k + exp(updates / k))"},
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
    owners_of_options()
    return dataclass(type("ResidualTransformerConfig", (*option_classes(), BaseConfig), {}))


def option_classes() -> list:
    """The `Options` of the registered schemes, each once, those that extend others first."""
    known = dict.fromkeys(connection.Options for connection in REGISTRY.values())
    return sorted(known, key=lambda scheme: -len(scheme.__mro__))


def owners_of_options() -> dict:
    """The class that defines each option of a scheme, by the option's name.

    Raises:
        UsageError: two classes define an option of that name, or `BaseConfig` has it too.
    """
    taken = {entry.name for entry in fields(BaseConfig)}
    owners: dict = {}
    for scheme in option_classes():
        for owner in scheme.__mro__:
            for name in vars(owner).get("__annotations__", {}):
                if name in taken or owners.setdefault(name, owner) is not owner:
                    raise UsageError(
                        f"{owner.__module__}: Options.{name} is the name of another option: "
                        "choose another one"
                    )
    return owners


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
        UsageError: a key, a value or a combination of values that means nothing here.
    """
    if OmegaConf.is_config(args):
        args = argparse.Namespace(**flatten(args))
        check_values(vars(args))
    cfg = config_class().from_namespace(args)
    for side in (cfg.encoder, cfg.decoder):
        # fairseq's flag gives a list, and fairseq's model wants to split a string.
        if isinstance(side.layers_to_keep, list):
            side.layers_to_keep = ",".join(map(str, side.layers_to_keep))
    check(cfg)
    return cfg


def check_values(values) -> None:
    """Refuses what a command's flags cannot be, and a YAML's keys can: unknown, or no number."""
    known = {"_name": str, "arch": str}
    for entry in fields(config_class()):
        nested = getattr(entry.type, "__dataclass_fields__", {}) if entry.name in NESTED else {}
        known.update((f"{entry.name}_{name}", field.type) for name, field in nested.items())
        known[entry.name] = entry.type
    # What the decoder is not told it takes from the encoder, and so do mistakes.
    for key, value in sorted(values.items(), key=lambda item: item[0].startswith("decoder")):
        if key not in known:
            guess = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean model.{guess[0]}?" if guess else ""
            raise UsageError(f"unknown key model.{key} in the configuration{hint}")
        optional = get_args(known[key])
        if value is None and type(None) in optional:
            continue
        kind = optional[0] if optional else known[key]
        # Not isinstance: for Python a bool is a number.
        if kind in KINDS and type(value) not in KINDS[kind][0]:
            raise UsageError(f"model.{key} has to be {KINDS[kind][1]}, not {value!r}")


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
    defaults = type(cfg)()
    for name, owner in owners_of_options().items():
        unused = not issubclass(connection.Options, owner)
        if unused and getattr(cfg, name) != getattr(defaults, name):
            refuse_for_connection(
                name, cfg, lambda known, owner=owner: issubclass(known.Options, owner)
            )
    for name, (without_effect, why) in REFUSED.items():
        if getattr(cfg, name) != without_effect:
            raise UsageError(f"--{name.replace('_', '-')} {why}")
    for name in ("word_dropout", "word_replacement"):
        if not 0 <= getattr(cfg, name) < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} {getattr(cfg, name)} is no probability below 1"
            )
    if cfg.word_replacement_decay != defaults.word_replacement_decay and not cfg.word_replacement:
        raise UsageError("--word-replacement-decay needs --word-replacement")
    if cfg.word_replacement_decay <= 0:
        raise UsageError(f"--word-replacement-decay {cfg.word_replacement_decay} is not above 0")
    if cfg.tie_adaptive_proj and cfg.adaptive_softmax_cutoff is None:
        raise UsageError("--tie-adaptive-proj needs --adaptive-softmax-cutoff")
    shared = cfg.share_all_embeddings or cfg.share_decoder_input_output_embed
    if shared and cfg.decoder.output_dim != cfg.decoder.embed_dim:
        raise UsageError(
            f"--decoder-output-dim {cfg.decoder.output_dim} does not fit the shared embedding: "
            f"leave it at --decoder-embed-dim {cfg.decoder.embed_dim}"
        )
    if cfg.quant_noise.pq > 0:
        block = cfg.quant_noise.pq_block_size
        for side in ("encoder", "decoder"):
            for name in ("embed_dim", "ffn_embed_dim"):
                width = getattr(getattr(cfg, side), name)
                if width % block:
                    raise UsageError(
                        f"--quant-noise-pq-block-size {block} does not divide "
                        f"--{side}-{name.replace('_', '-')} {width}"
                    )
    if cfg.cross_self_attention and cfg.encoder.embed_dim != cfg.decoder.embed_dim:
        raise UsageError("--cross-self-attention needs one width for the encoder and the decoder")
    for flag in ("scale_resids", "no_decoder_final_norm"):
        if getattr(cfg, flag) and flag not in connection.supported_flags:
            refuse_for_connection(flag, cfg, lambda known, flag=flag: flag in known.supported_flags)


def refuse_for_connection(name, cfg, has_it) -> None:
    """Refuses an option that means nothing for the connection that was chosen.

    Args:
        name: of the option.
        cfg: the configuration.
        has_it: whether it means something for a class of connections.
    """
    able = sorted(name for name, known in REGISTRY.items() if has_it(known))
    raise UsageError(
        f"--{name.replace('_', '-')} has no meaning for --residual-connection "
        f"{cfg.residual_connection}, only for: {', '.join(able)}"
    )
