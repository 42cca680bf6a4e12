"""Builds the connections of a stack, telling each its place."""

from typing import Dict

from ..connections import REGISTRY, Connection, Place


def connections_of_layer(cfg, stack: str, layer: int) -> Dict[str, Connection]:
    """The connections of one layer, by the name of their sublayer, in order.

    Args:
        cfg: the model's configuration.
        stack: ``"encoder"`` or ``"decoder"``.
        layer: the layer's index within its stack, from 0.
    """
    connections = {
        sublayer: connection_at(cfg, stack, sublayer, index, layer)
        for index, sublayer in enumerate(sublayers(cfg, stack))
    }
    REGISTRY[cfg.residual_connection].share(list(connections.values()))
    return connections


def connection_of_ends(cfg, stack: str) -> Connection:
    """The connection that opens and closes a stack."""
    return connection_at(cfg, stack, None, 0, 0)


def connection_at(cfg, stack, sublayer, index, layer) -> Connection:
    place = Place(
        stack=stack,
        sublayer=sublayer,
        index=index,
        layer=layer,
        sublayers=len(sublayers(cfg, stack)),
        encoder_layers=cfg.encoder.layers,
        decoder_layers=cfg.decoder.layers,
        embed_dim=getattr(cfg, stack).embed_dim,
    )
    return REGISTRY[cfg.residual_connection](place, cfg)


def sublayers(cfg, stack: str):
    if stack == "encoder" or cfg.no_cross_attention:
        return ("self_attn", "ffn")
    return ("self_attn", "encoder_attn", "ffn")
