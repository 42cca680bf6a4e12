"""The encoder-decoder Transformer over a residual connection."""

from . import architectures
from .residual_transformer import ResidualTransformerModel

__all__ = ["ResidualTransformerModel", "architectures"]
