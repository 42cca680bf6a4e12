"""Small models and batches for the tests, without files."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel

from residual_fairseq import REGISTRY, ResidualTransformerModel

CONNECTIONS = tuple(REGISTRY)

#: What connections refuse of what a model can be asked for.
REFUSED = {
    ("dlcl", "encoder_layerdrop"),
    ("dlcl-post", "encoder_layerdrop"),
    ("dlcl", "encoder_layers_to_keep"),
    ("dlcl", "decoder_layers_to_keep"),
    ("dlcl-post", "encoder_layers_to_keep"),
    ("dlcl-post", "decoder_layers_to_keep"),
    ("normformer", "scale_attn"),
    ("normformer", "scale_heads"),
    ("normformer", "scale_fc"),
    ("subln", "scale_fc"),
}


def able(*options):
    """The connections that refuse none of these options."""
    return [name for name in CONNECTIONS if not any((name, o) in REFUSED for o in options)]


def dictionary(size=30):
    """A dictionary of `size` symbols besides fairseq's four special ones."""
    symbols = Dictionary()
    for i in range(size):
        symbols.add_symbol(f"w{i}")
    return symbols


DICTIONARY = dictionary()
TASK = SimpleNamespace(source_dictionary=DICTIONARY, target_dictionary=DICTIONARY)


def arguments(arch="residual_transformer", **overrides):
    """The flags of a small model: width 32, 4 heads, 2 + 2 layers, no dropout."""
    args = Namespace(
        arch=arch,
        encoder_embed_dim=32,
        encoder_ffn_embed_dim=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        dropout=0.0,
        share_all_embeddings=True,
    )
    vars(args).update(overrides)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def model(connection="residual", seed=1, **overrides):
    """A small model in evaluation mode."""
    torch.manual_seed(seed)
    return ResidualTransformerModel.build_model(
        arguments(residual_connection=connection, **overrides), TASK
    ).eval()


def fairseq_model(seed=1, **overrides):
    """fairseq's own transformer of the same size, in evaluation mode.

    Its encoder's fast path for evaluation fails on some versions of torch, so it is led to
    believe that it has been trained.
    """
    torch.manual_seed(seed)
    args = arguments("transformer", **overrides)
    built = TransformerModel.build_model(args, TASK).eval()
    for layer in built.encoder.layers:
        layer.ever_training = True
    return built


def batch(lengths=((7, 5), (4, 6), (2, 3)), seed=0):
    """A batch of sentence pairs: source left-padded, target right-padded, as fairseq does it.

    Args:
        lengths: of source and target of each pair.

    Returns:
        The arguments of a model's forward: src_tokens, src_lengths, prev_output_tokens.
    """
    generator = torch.Generator().manual_seed(seed)
    pad, eos = DICTIONARY.pad(), DICTIONARY.eos()
    S, T = (max(side) for side in zip(*lengths))
    source = torch.full((len(lengths), S), pad)
    target = torch.full((len(lengths), T), pad)
    for row, (s, t) in enumerate(lengths):
        words = torch.randint(4, len(DICTIONARY), (s + t,), generator=generator)
        source[row, S - s :] = words[:s]
        source[row, -1] = eos
        target[row, :t] = words[s:]
        target[row, 0] = eos
    return {
        "src_tokens": source,
        "src_lengths": torch.tensor([s for s, _ in lengths]),
        "prev_output_tokens": target,
    }


def randomize(module, seed=2, std=0.3):
    """Moves every parameter off its initial value, LayerNorm gains of one included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(std * torch.randn(parameter.shape, generator=generator))
    return module


def reference_names(state_dict):
    """Our names of weights as fairseq and the ResiDual reference code have them."""
    renamed = {}
    for name, value in state_dict.items():
        name = name.replace("self_attn_connection.layer_norm", "self_attn_layer_norm")
        name = name.replace("encoder_attn_connection.layer_norm", "encoder_attn_layer_norm")
        name = name.replace("ffn_connection.layer_norm", "final_layer_norm")
        name = name.replace("coder.connection.layer_norm", "coder.layer_norm")
        renamed[name] = value.clone()
    del renamed["residual_connection"]
    return renamed


def sample(pairs=8, seed=0):
    """A batch as fairseq's tasks make it, with its target."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 8, (pairs,), generator=generator).tolist()
    tokens = batch(list(zip(lengths, lengths)), seed=seed)
    prefix = tokens["prev_output_tokens"]
    target = torch.full_like(prefix, DICTIONARY.pad())
    target[:, :-1] = prefix[:, 1:]
    target[range(pairs), [length - 1 for length in lengths]] = DICTIONARY.eos()
    return {"net_input": tokens, "target": target, "ntokens": sum(lengths)}
