"""The encoder: fairseq's embeddings and interface around a stack of our layers."""

from typing import Dict, List, Optional

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from ..modules import EncoderLayer, WordPerturbation
from ..modules.beams import regroup
from ..modules.masks import token_mask
from .places import connection_of_ends, connections_of_layer


class ResidualTransformerEncoder(TransformerEncoderBase):
    """Transformer encoder over a residual connection.

    Embeddings, positions, layer drop and the interface to the rest of fairseq are those of
    fairseq's encoder.

    Args:
        cfg: the model's configuration.
        dictionary: the source dictionary.
        embed_tokens: the source embedding.
    """

    _layers_built = 0

    # TorchScript has no super() here.
    select_sentences = TransformerEncoderBase.reorder_encoder_out

    def __init__(self, cfg, dictionary, embed_tokens):
        super().__init__(cfg, dictionary, embed_tokens)
        # The name that --retain-dropout-modules knows it by.
        self.dropout_module.module_name = "TransformerEncoder"
        self.connection = connection_of_ends(cfg, "encoder")
        self.perturbation = perturbation(cfg, dictionary)

    def build_encoder_layer(self, cfg):
        layer = EncoderLayer(cfg, connections_of_layer(cfg, "encoder", self._layers_built))
        self._layers_built += 1
        return wrap_layer(layer, cfg)

    def forward_scriptable(
        self,
        src_tokens,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
    ):
        """Encodes a batch; called by ``forward``.

        Args:
            src_tokens: token ids ``(B, T)``.
            src_lengths: unused, as in fairseq's encoder.
            return_all_hiddens: also return the main stream after each layer.
            token_embeddings: ``(B, T, C)``, in place of the embedding of src_tokens.

        Returns:
            A dictionary of lists, as fairseq's encoder returns it: ``encoder_out``
            ``(T, B, C)``, ``encoder_padding_mask`` ``(B, T)``, ``encoder_embedding``
            ``(B, T, C)``, ``encoder_states``, ``src_lengths`` ``(B, 1)``. The first of the
            ``encoder_states`` is the embedding, the others are the main stream after each layer
            (before the stack's closing LayerNorm, if it has one), ``(T, B, C)``.
        """
        padding = src_tokens.eq(self.padding_idx)
        if token_embeddings is None:
            src_tokens = self.perturbation.replace(src_tokens)
            token_embeddings = self.perturbation.drop(self.embed_tokens(src_tokens), src_tokens)
        x, encoder_embedding = self.forward_embedding(src_tokens, token_embeddings)
        mask = token_mask(padding)
        if mask is not None:
            x = x * (1 - padding.unsqueeze(-1).type_as(x))
        x = x.transpose(0, 1)

        encoder_states: List[Tensor] = []
        if return_all_hiddens:
            encoder_states.append(x)
        stream = self.connection.open(x)
        for layer in self.layers:
            stream = layer(stream, mask)
            if return_all_hiddens:
                encoder_states.append(stream[0])
        x = self.connection.close(stream)

        lengths = (~padding).sum(dim=1, dtype=torch.int32).reshape(-1, 1)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [encoder_embedding],
            "encoder_states": encoder_states,
            "src_tokens": [],
            "src_lengths": [lengths],
        }

    @torch.jit.export
    def reorder_encoder_out(self, encoder_out: Dict[str, List[Tensor]], new_order):
        """Follows the beams: row i becomes what row ``new_order[i]`` was.

        As long as the rows of a sentence stay beside each other it is held once: ``rows`` is then
        the sentence of each row, and everything else has one row a sentence. The decoder knows
        what to make of it.

        Args:
            encoder_out: as ``forward`` returned it, or this.
            new_order: ``(rows,)``.
        """
        sentences, beam = encoder_out["encoder_padding_mask"][0].size(0), 1
        if "rows" in encoder_out:
            beam = encoder_out["rows"][0].size(0) // sentences
        selected, beam = regroup(new_order, sentences, beam)
        if selected is not None:
            encoder_out = self.select_sentences(encoder_out, selected)
            sentences = selected.size(0)
        rows = torch.arange(sentences, device=new_order.device).repeat_interleave(beam)
        found: Dict[str, List[Tensor]] = {"rows": [rows]}
        for key in encoder_out.keys():
            if key != "rows":
                found[key] = encoder_out[key]
        return found

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str):
        """Gives weights under fairseq's names their names here."""
        state_dict = super().upgrade_state_dict_named(state_dict, name)
        rename_closing_norm(state_dict, name)
        return state_dict


def perturbation(cfg, dictionary) -> WordPerturbation:
    """What ``--word-dropout`` and ``--word-replacement`` do to the words of a stack's input."""
    return WordPerturbation(
        dictionary, cfg.word_dropout, cfg.word_replacement, cfg.word_replacement_decay
    )


def wrap_layer(layer: nn.Module, cfg) -> nn.Module:
    """The layer as ``--ddp-backend fully_sharded`` wants it: a checkpointed one always wrapped."""
    least = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=least)


def rename_closing_norm(state_dict: Dict[str, Tensor], name: str) -> None:
    """Moves fairseq's (and the ResiDual reference's) LayerNorm after a stack to its connection."""
    for weight in ("weight", "bias"):
        old = f"{name}.layer_norm.{weight}"
        if old in state_dict:
            state_dict[f"{name}.connection.layer_norm.{weight}"] = state_dict.pop(old)
