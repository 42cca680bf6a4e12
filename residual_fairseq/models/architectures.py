"""Named architectures: the sizes that ``--arch`` stands for; every flag overrides its value."""

import importlib.util
import logging
from argparse import Namespace

import torch
from fairseq.models import register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture
from omegaconf import OmegaConf

from .config import NESTED, flatten
from .residual_transformer import NAME

logger = logging.getLogger(__name__)

#: width, feed-forward width, heads, layers of each stack; and what else a name stands for.
SIZES = {
    # Vaswani et al. 2017, table 3, base.
    "residual_transformer": (512, 2048, 8, 6, {}),
    # Wu et al. 2021 on Multi30k, Transformer-Tiny.
    "residual_transformer_tiny": (128, 256, 4, 4, {}),
    # ResiDual's public IWSLT setting; fairseq's own transformer_iwslt_de_en is 512 wide.
    "residual_transformer_iwslt_de_en": (256, 1024, 4, 6, {}),
    # ResiDual's public WMT setting, and B2T's.
    "residual_transformer_wmt_en_de": (512, 2048, 8, 6, {}),
    # Vaswani et al. 2017, table 3, big, with fairseq's dropout for it.
    "residual_transformer_wmt_en_de_big": (
        1024,
        4096,
        16,
        6,
        {"dropout": 0.3, "attention_dropout": 0.1},
    ),
    # ResiDual's public OPUS-100 setting; the paper's depth is 18 + 18.
    "residual_transformer_opus100": (512, 2048, 8, 6, {}),
}


def defaults(name: str) -> dict:
    """The values that the named architecture stands for, by their names in the configuration."""
    embed_dim, ffn_embed_dim, heads, layers, others = SIZES[name]
    # The decoder's widths are left to fairseq, which takes the encoder's for them.
    return {
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": ffn_embed_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_layers": layers,
        "decoder_layers": layers,
        # fairseq's trainer compares it with a number, and omegaconf 2.0 has None for what is unset.
        "base_layers": 0,
        **others,
    }


def fit_precision(args) -> None:
    """Makes ``--bf16`` and ``--fp16`` train on the machine at hand.

    fairseq takes ``--bf16`` for a TPU, where it needs torch_xla, be there a GPU or not; and it puts
    the gradients of ``--fp16`` into one tensor on a GPU, unless told not to, on a CPU too.

    Args:
        args: the flags of a command, changed in place.
    """
    for_tpu = getattr(args, "bf16", False) and getattr(args, "tpu", False)
    if for_tpu and importlib.util.find_spec("torch_xla") is None:
        logger.info("--bf16 is not for a TPU here, since torch_xla is not installed")
        args.tpu = False
    if getattr(args, "fp16", False) and not torch.cuda.is_available():
        args.fp16_no_flatten_grads = True


def register(name: str) -> None:
    """Makes ``--arch NAME`` known to fairseq."""

    @register_model_architecture(NAME, name)
    def apply(args) -> None:
        # A missing key of a DictConfig reads as None in omegaconf 2.0, and not as the default that
        # getattr is given, so what is filled in is a plain namespace.
        filled = Namespace(**flatten(args)) if OmegaConf.is_config(args) else args
        for key, value in defaults(name).items():
            setattr(filled, key, getattr(filled, key, value))
        base_architecture(filled)
        fit_precision(filled)
        if filled is not args:
            for key in NESTED:
                args.pop(key, None)
            for key, value in vars(filled).items():
                args[key] = value


for _name in SIZES:
    register(_name)
