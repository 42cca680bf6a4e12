"""Attention and the two layers, written once over a residual connection."""

from .attention import Attention
from .layers import DecoderLayer, EncoderLayer

__all__ = ["Attention", "DecoderLayer", "EncoderLayer"]
