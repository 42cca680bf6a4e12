"""The model that ``--arch residual_transformer`` builds."""

import logging
from contextlib import contextmanager
from typing import Iterator, Optional

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase

from ..connections import Connection
from ..errors import UsageError
from .config import config_class, read
from .decoder import ResidualTransformerDecoder
from .encoder import ResidualTransformerEncoder

NAME = "residual_transformer"
logger = logging.getLogger(__name__)


# Registered without its dataclass, as fairseq's own transformer is: so one class serves both
# front ends in both distributions, and named architectures apply to flags and to YAML alike.
@register_model(NAME)
class ResidualTransformerModel(TransformerModelBase):
    """Transformer (Vaswani et al. 2017) over a residual connection of choice.

    Its checkpoints carry the connection's name, so that weights of another connection, whose
    names and shapes may be the same, are never taken for this one's.

    Args:
        cfg: the configuration.
        encoder: a `ResidualTransformerEncoder`.
        decoder: a `ResidualTransformerDecoder`.

    Attributes:
        profiled: nothing is left to be measured; kept so that not every update asks all modules.
    """

    def __init__(self, cfg, encoder, decoder):
        super().__init__(cfg, encoder, decoder)
        self.register_buffer("residual_connection", encode_name(cfg.residual_connection))
        self.initialise_embeddings()
        self.profiled = False

    def too_short(self, updates: int) -> Optional[str]:
        """A remark on a training that ends before training computes what evaluation does."""
        parts = self.modules()
        settled = max(part.settled_after for part in parts if isinstance(part, Connection))
        if updates >= settled:
            return None
        return (
            f"{updates:,} updates are few: what training computes is what the evaluation does only "
            f"after {settled:,}, see docs/connections.md"
        )

    @torch.no_grad()
    def initialise_embeddings(self) -> None:
        """Lets the connections change the initial embeddings, a shared one once."""
        source, target = self.encoder.embed_tokens, self.decoder.embed_tokens
        self.encoder.connection.initialise({"embed_tokens": source.weight})
        if target is not source:
            self.decoder.connection.initialise({"embed_tokens": target.weight})

    def forward(
        self,
        src_tokens,
        src_lengths,
        prev_output_tokens,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ):
        """Runs the encoder and the decoder, as fairseq's transformer does."""
        # What follows is fairseq's forward, which TorchScript could not reach through super().
        if not torch.jit.is_scripting():
            if self.training and not self.profiled:
                self.profile(src_tokens, src_lengths, prev_output_tokens)
        encoder_out = self.encoder(
            src_tokens, src_lengths=src_lengths, return_all_hiddens=return_all_hiddens
        )
        return self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
        )

    @torch.jit.unused
    @torch.no_grad()
    def profile(self, src_tokens, src_lengths, prev_output_tokens) -> None:
        """Lets the connections measure, in a pass over the first batch, if they have not before.

        No layer is dropped in it.
        """
        connections = [module for module in self.modules() if isinstance(module, Connection)]
        if any(connection.unprofiled() for connection in connections):
            for connection in connections:
                connection.profiling = True
            try:
                with without_layer_drop(self):
                    encoder_out = self.encoder(src_tokens, src_lengths)
                    self.decoder(prev_output_tokens, encoder_out=encoder_out)
            finally:
                # fairseq goes on after a batch that did not fit into memory.
                for connection in connections:
                    connection.profiling = False
        self.profiled = True

    @classmethod
    def add_args(cls, parser):
        """Adds the flags of this model and of every registered connection."""
        gen_parser_from_dataclass(parser, config_class()(), delete_default=True, with_prefix="")

    @classmethod
    def build_model(cls, args, task):
        """Builds the model from the flags of a command, or the ``model`` part of a YAML.

        Raises:
            UsageError: the flags contradict each other, or mean nothing here.
        """
        cfg = read(args)
        for side in ("encoder", "decoder"):
            keep = getattr(cfg, side).layers_to_keep
            if keep and hasattr(args, f"{side}_layers"):
                # What is saved of a pruned model is to have the depth that it has.
                setattr(args, f"{side}_layers", len(keep.split(",")))
        try:
            model = super().build_model(cfg, task)
        except ValueError as error:
            if not str(error).startswith("--"):
                raise
            raise UsageError(str(error)) from error
        options = getattr(task, "cfg", getattr(task, "args", None))
        model.decoder.trains_alignment = bool(getattr(options, "load_alignments", False))
        return model

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return ResidualTransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return ResidualTransformerDecoder(
            cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention
        )

    def upgrade_state_dict_named(self, state_dict, name):
        """Upgrades weights saved under fairseq's names, and checks whose weights they are.

        Weights without the name of a connection, those of fairseq's own transformer or of the
        ResiDual reference code, are taken to be of this model's connection.
        """
        if "residual_connection" not in state_dict:
            logger.info(
                "the checkpoint names no connection: its weights are taken for those of "
                f"--residual-connection {decode_name(self.residual_connection)}"
            )
        buffer = state_dict.setdefault("residual_connection", self.residual_connection)
        saved, own = decode_name(buffer), decode_name(self.residual_connection)
        if saved != own:
            raise UsageError(
                f"the checkpoint is of --residual-connection {saved}, this model of {own}"
            )
        super().upgrade_state_dict_named(state_dict, name)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """Loads weights; names the first few that do not fit in one line."""
        try:
            return super().load_state_dict(state_dict, strict, model_cfg, args)
        except RuntimeError as error:
            lines = [line.strip() for line in str(error).split("\n")[1:]]
            shown = " ".join(lines)
            shown = shown if len(shown) <= 300 else shown[:300] + " ..."
            raise UsageError(f"the checkpoint does not fit this model: {shown}") from error


@contextmanager
def without_layer_drop(model: ResidualTransformerModel) -> Iterator[None]:
    """No layer is left out until leaving, in training mode neither."""
    stacks = [s.layers for s in (model.encoder, model.decoder) if hasattr(s.layers, "p")]
    rates = [layers.p for layers in stacks]
    for layers in stacks:
        layers.p = 0
    try:
        yield
    finally:
        for layers, rate in zip(stacks, rates):
            layers.p = rate


def encode_name(name: str) -> torch.Tensor:
    """A name as a buffer: what a state dict holds is tensors.

    Floats, since whatever averages weights (fairseq's EMA, scripts for checkpoints) takes every
    tensor for weights; the average of equal letters is the letter, but for rounding.
    """
    return torch.tensor(list(name.encode("ascii")), dtype=torch.float32)


def decode_name(buffer: torch.Tensor) -> str:
    return bytes(round(letter) for letter in buffer.tolist()).decode("ascii")
