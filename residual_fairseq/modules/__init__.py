"""Attention and the two layers, written once over a residual connection; perturbed input."""

from .attention import Attention
from .layers import DecoderLayer, EncoderLayer
from .perturbation import WordPerturbation

__all__ = ["Attention", "DecoderLayer", "EncoderLayer", "WordPerturbation"]
