"""Flags and YAML give the same model; what means nothing is refused in one line."""

from dataclasses import dataclass, field
from typing import List

import pytest
import torch
import toy
from fairseq import options
from fairseq.models import build_model
from omegaconf import OmegaConf

from residual_fairseq import REGISTRY, ResidualTransformerModel
from residual_fairseq.errors import UsageError
from residual_fairseq.models.architectures import SIZES
from residual_fairseq.models.config import config_class


def from_flags(*flags):
    """The model that fairseq-train builds for these flags."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, ["data", *flags])
    return build_model(args, toy.TASK)


def from_yaml(text):
    """The model that fairseq-hydra-train builds for this ``model`` part of a YAML."""
    return build_model(OmegaConf.create(text), toy.TASK)


def shapes(model):
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def test_half_precision_is_for_the_machine_at_hand(monkeypatch):
    """fairseq would look for a TPU, and for a GPU."""

    def parse(*flags):
        command = ["data", "--arch", "residual_transformer_tiny", *flags]
        return options.parse_args_and_arch(options.get_training_parser(), command)

    assert not parse("--bf16").tpu
    for gpu in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert parse("--fp16").fp16_no_flatten_grads is not gpu
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert parse("--bf16").tpu


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--arch residual_transformer_tiny", "_name: residual_transformer_tiny"),
        (
            "--arch residual_transformer_tiny --encoder-layers 3 --residual-connection pre",
            "{_name: residual_transformer_tiny, encoder: {layers: 3}, residual_connection: pre}",
        ),
        (
            "--arch residual_transformer_tiny --decoder-layers 2 --dropout 0.25"
            " --encoder-layerdrop 0.1 --share-all-embeddings --residual-stream-scale 0.5"
            " --scale-fc",
            "{_name: residual_transformer_tiny, decoder: {layers: 2}, dropout: 0.25,"
            " encoder_layerdrop: 0.1, share_all_embeddings: true, residual_stream_scale: 0.5,"
            " scale_fc: true}",
        ),
    ],
    ids=["size", "depth", "more"],
)
def test_flags_and_yaml_build_the_same_model(flags, text):
    by_flags, by_yaml = from_flags(*flags.split()), from_yaml(text)
    assert shapes(by_flags) == shapes(by_yaml)
    assert by_flags.encoder.dropout_module.p == by_yaml.encoder.dropout_module.p
    scales = [getattr(model.encoder.connection, "s", None) for model in (by_flags, by_yaml)]
    assert scales[0] == scales[1]
    assert type(by_flags.encoder.layers) is type(by_yaml.encoder.layers)


@pytest.mark.parametrize("arch", SIZES)
def test_architectures(arch):
    width, ffn, heads, layers, others = SIZES[arch]
    cfg = toy.ARCH_CONFIG_REGISTRY[arch]
    args = toy.Namespace()
    cfg(args)
    assert (args.encoder_embed_dim, args.decoder_embed_dim) == (width, width)
    assert (args.encoder_ffn_embed_dim, args.decoder_ffn_embed_dim) == (ffn, ffn)
    assert (args.encoder_attention_heads, args.decoder_attention_heads) == (heads, heads)
    assert (args.encoder_layers, args.decoder_layers) == (layers, layers)
    assert args.dropout == others.get("dropout", 0.1)


def test_a_width_for_the_encoder_is_one_for_the_decoder():
    model = from_flags("--arch", "residual_transformer", "--encoder-embed-dim", "64")
    assert model.decoder.embed_dim == 64


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"connection": "nosuch"}, "unknown.*'nosuch'; known: .*post, pre, realformer, residual"),
        ({"encoder_attention_heads": 5}, "--encoder-embed-dim 32 is not divisible by"),
        ({"decoder_attention_heads": 3}, "--decoder-embed-dim 32 is not divisible by"),
        ({"decoder_layers": 0}, "--decoder-layers must be at least 1"),
        ({"encoder_normalize_before": True}, "--encoder-normalize-before.*connection pre"),
        ({"decoder_normalize_before": True}, "--decoder-normalize-before.*connection pre"),
        ({"decoder_xformers_att_config": "{}"}, "--decoder-xformers-att-config"),
        ({"offload_activations": True}, "--checkpoint-activations"),
        ({"base_layers": 1}, "--base-layers"),
        ({"base_sublayers": 2}, "--base-sublayers"),
        ({"base_shuffle": 0}, "--base-shuffle"),
        ({"char_inputs": True}, "--char-inputs"),
        ({"scale_resids": True}, "--scale-resids .* only for: normformer, post, pre"),
        ({"no_decoder_final_norm": True}, "--no-decoder-final-norm .* only for: normformer, pre"),
        ({"decoder_embed_dim": 48}, "--share-all-embeddings"),
        (
            {"connection": "post", "residual_stream_scale": 0.5},
            "--residual-stream-scale .*connection post, only for: residual",
        ),
        ({"adaptive_input": True}, "--adaptive-input"),
        ({"tie_adaptive_weights": True, "adaptive_softmax_cutoff": "10"}, "--tie-adaptive-weights"),
        (
            {
                "connection": "normformer",
                "normformer_scale_after_projection": True,
                "scale_heads": True,
            },
            "--scale-heads: --residual-connection normformer has this already",
        ),
        (
            {"connection": "realformer", "realformer_mean": True, "decoder_layerdrop": 0.1},
            "--decoder-layerdrop: .*realformer divides by the number of layers",
        ),
        ({"tie_adaptive_proj": True}, "--tie-adaptive-proj needs --adaptive-softmax-cutoff"),
        ({"decoder_output_dim": 16}, "--decoder-output-dim 16 does not fit the shared embedding"),
        (
            {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 5},
            "--quant-noise-pq-block-size 5 does not divide --encoder-embed-dim 32",
        ),
        (
            {
                "decoder_embed_dim": 48,
                "share_all_embeddings": False,
                "cross_self_attention": True,
            },
            "--cross-self-attention",
        ),
    ],
    ids=str,
)
def test_refused_in_one_line(overrides, said):
    with pytest.raises(UsageError, match=said) as refused:
        toy.model(**overrides)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("connection", "option"), sorted(toy.REFUSED))
def test_what_a_connection_lacks_it_says_in_one_line(connection, option):
    value = {
        "encoder_layerdrop": 0.1,
        "decoder_layers_to_keep": "0",
        "encoder_layers_to_keep": "0",
    }.get(option, True)
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')}.*{connection}") as refused:
        toy.model(connection, **{option: value})
    assert "\n" not in str(refused.value)


def test_unknown_key_of_a_yaml_is_refused():
    with pytest.raises(UsageError, match="did you mean model.residual_connection"):
        from_yaml("{_name: residual_transformer_tiny, residual_conection: pre}")
    with pytest.raises(UsageError, match="model.encoder_layer in"):
        from_yaml("{_name: residual_transformer_tiny, encoder: {layer: 3}}")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("dropout: abc", "model.dropout has to be a number, not 'abc'"),
        ("dropout: null", "model.dropout has to be a number, not None"),
        ("dropout: true", "model.dropout has to be a number, not True"),
        ("encoder: {embed_dim: 64.5}", "model.encoder_embed_dim has to be a whole number"),
        ("decoder: {layers: [2]}", r"model.decoder_layers has to be a whole number, not \[2\]"),
        ("share_all_embeddings: 'yes'", "model.share_all_embeddings has to be true or false"),
    ],
)
def test_value_of_a_yaml_that_is_of_another_kind(values, said):
    with pytest.raises(UsageError, match=said):
        from_yaml(f"{{_name: residual_transformer_tiny, {values}}}")


def test_numbers_of_a_yaml():
    values = "dropout: 0, adaptive_softmax_cutoff: null, encoder: {embed_dim: 64, layers: 2}"
    assert from_yaml(f"{{_name: residual_transformer_tiny, {values}}}").cfg.encoder.layers == 2


def test_connections_bring_their_flags(monkeypatch):
    assert "residual_stream_scale" in config_class().__dataclass_fields__

    @dataclass
    class Options:
        stream_width: int = 3

    class Wide(REGISTRY["pre"]):
        pass

    Wide.Options = Options
    monkeypatch.setitem(REGISTRY, "wide", Wide)
    assert config_class()().stream_width == 3
    with pytest.raises(UsageError, match="--stream-width .*only for: wide"):
        toy.model("pre", stream_width=4)
    assert toy.model("wide", stream_width=4).cfg.stream_width == 4


def test_a_flag_belongs_to_one_owner(monkeypatch):
    @dataclass
    class Options:
        dropout: float = 0.9

    class Greedy(REGISTRY["pre"]):
        pass

    Greedy.Options = Options
    monkeypatch.setitem(REGISTRY, "greedy", Greedy)
    with pytest.raises(UsageError, match="Options.dropout is the name of another option"):
        config_class()


def test_options_may_extend_others_and_have_mutable_defaults(monkeypatch):
    @dataclass
    class Options(REGISTRY["residual"].Options):
        stream_widths: List[int] = field(default_factory=lambda: [1])

    class Extended(REGISTRY["residual"]):
        pass

    Extended.Options = Options
    monkeypatch.setitem(REGISTRY, "extended", Extended)
    assert toy.model("extended", residual_stream_scale=0.5).encoder.connection.s == 0.5
    assert toy.model("residual").cfg.stream_widths == [1]
    with pytest.raises(UsageError, match="--stream-widths .*only for: extended"):
        toy.model("residual", stream_widths=[2])
    with pytest.raises(UsageError, match="--residual-stream-scale .*only for: extended, residual"):
        toy.model("post", residual_stream_scale=0.5)


def test_errors_of_a_connection_are_not_taken_for_wrong_use(monkeypatch):
    class Faulty(REGISTRY["pre"]):
        def __init__(self, place, options):
            raise ValueError("not enough values to unpack")

    monkeypatch.setitem(REGISTRY, "faulty", Faulty)
    with pytest.raises(ValueError, match="not enough values"):
        toy.model("faulty")


def test_layers_to_keep_as_a_flag():
    model = from_flags("--arch", "residual_transformer_tiny", "--encoder-layers-to-keep", "0,2")
    assert len(model.encoder.layers) == 2


@pytest.mark.parametrize("connection", toy.able("encoder_layers_to_keep"))
def test_a_pruned_model_is_the_whole_one_without_some_layers(connection):
    """With the constants of the depth that it was trained at; and it loads when saved again."""
    whole = toy.randomize(toy.model(connection, encoder_layers=4, decoder_layers=3), std=0.1)
    args = toy.arguments(
        residual_connection=connection,
        encoder_layers=4,
        decoder_layers=3,
        encoder_layers_to_keep="1,3",
        decoder_layers_to_keep="0,2",
    )
    pruned = ResidualTransformerModel.build_model(args, toy.TASK).eval()
    pruned.load_state_dict(whole.state_dict(), model_cfg=args)
    again = ResidualTransformerModel.build_model(args, toy.TASK).eval()
    again.load_state_dict(pruned.state_dict(), model_cfg=args)
    whole.encoder.layers = torch.nn.ModuleList(whole.encoder.layers[i] for i in (1, 3))
    whole.decoder.layers = torch.nn.ModuleList(whole.decoder.layers[i] for i in (0, 2))
    batch = toy.batch()
    with torch.no_grad():
        expected = whole(**batch)[0]
        for model in (pruned, again):
            assert (model(**batch)[0] - expected).abs().max() < 1e-5 * expected.abs().max()


def test_weights_without_a_name_are_said_to_be_taken_for_this_ones(caplog):
    saved = toy.model("pre").state_dict()
    del saved["residual_connection"]
    with caplog.at_level("INFO"):
        toy.model("pre").load_state_dict(saved)
    assert "taken for those of --residual-connection pre" in caplog.text


def test_weights_of_another_connection_are_refused():
    for there, here in (("post", "pre"), ("pre", "post"), ("residual", "pre")):
        saved = toy.model(there).state_dict()
        with pytest.raises(UsageError, match=f"is of --residual-connection {there}"):
            toy.model(here).load_state_dict(saved)
    with pytest.raises(UsageError, match="does not fit.*encoder.layers.2"):
        toy.model(encoder_layers=3).load_state_dict(toy.model().state_dict())
    with pytest.raises(UsageError, match="size mismatch"):
        toy.model(encoder_ffn_embed_dim=32).load_state_dict(toy.model().state_dict())
