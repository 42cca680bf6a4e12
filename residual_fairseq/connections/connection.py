"""What a residual connection is: four verbs on the stream that a stack carries."""

from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Optional, Type

from torch import Tensor, nn


@dataclass(frozen=True)
class Place:
    """Where a connection sits in an encoder-decoder Transformer.

    A stack asks for one connection at each of its sublayers, which reads and writes the stream,
    and one more at its ends, which opens and closes the stream.

    Attributes:
        stack: ``"encoder"`` or ``"decoder"``.
        sublayer: ``"self_attn"``, ``"encoder_attn"`` or ``"ffn"``; None at the ends of the stack.
        index: of the sublayer within its layer, from 0 (0 at the ends).
        layer: of the layer within its stack, from 0 (0 at the ends).
        sublayers: how many a layer of this stack has (2 in an encoder, 3 in a decoder, 2 without
            cross-attention).
        encoder_layers: N, the depth of the encoder.
        decoder_layers: M, the depth of the decoder.
        embed_dim: C, the width of the stack.
    """

    stack: str
    sublayer: Optional[str]
    index: int
    layer: int
    sublayers: int
    encoder_layers: int
    decoder_layers: int
    embed_dim: int

    @property
    def at_ends(self) -> bool:
        """Whether this is the pair of ends of the stack rather than a sublayer."""
        return self.sublayer is None

    @property
    def layers(self) -> int:
        """The depth of this stack: N in the encoder, M in the decoder."""
        return self.encoder_layers if self.stack == "encoder" else self.decoder_layers


@dataclass(frozen=True)
class Inside:
    """What a scheme wants inside the sublayer at its place; the layer builds it.

    Attributes:
        head_scale: a learned scalar for each head, initially 1, on the ``"context"``, before the
            output projection, or on slices of C / H features of the ``"output"``; None: without.
        context_norm: LayerNorm of width C on the attention's context, before the projection.
        output_norm: LayerNorm of width C after the output projection.
        hidden_norm: LayerNorm within the feed-forward sublayer, after its activation.
        adds_scores: the attention adds the scores that the connection hands it to its own, before
            the mask and the softmax, and hands the sum back.
        score_divisor: what the sum of scores is divided by for the softmax.
    """

    head_scale: Optional[str] = None
    context_norm: bool = False
    output_norm: bool = False
    hidden_norm: bool = False
    adds_scores: bool = False
    score_divisor: float = 1.0


#: The matrices that a sublayer's output passes through, and those that only weigh it.
OUTPUT_PATH = ("v_proj", "out_proj", "fc1", "fc2")
QUERY_AND_KEY = ("q_proj", "k_proj")


def redraw(
    weights: Dict[str, Tensor], names: Iterable[str], xavier_: Callable, gain: float = 1.0
) -> None:
    """Draws initial weights anew, those of the names that a sublayer has.

    Args:
        weights: as of `Connection.initialise`.
        xavier_: ``nn.init.xavier_normal_`` or ``nn.init.xavier_uniform_``.
    """
    for name in names:
        if name in weights:
            xavier_(weights[name], gain=gain)


def refuse_layer_drop(place: Place, options, why: str) -> None:
    """Refuses to leave out layers of the stack at a place, in training or after it.

    Args:
        why: what the chosen connection does, so that none can be left out.

    Raises:
        ValueError: the options ask for it.
    """
    side = getattr(options, place.stack)
    if side.layerdrop or side.layers_to_keep:
        flag = "layerdrop" if side.layerdrop else "layers-to-keep"
        raise ValueError(
            f"--{place.stack}-{flag}: --residual-connection {options.residual_connection} {why}, "
            "so none can be left out"
        )


class Connection(nn.Module):
    """How a stack carries its residual stream: open, read, write, close.

    The stream is a list of tensors of shape ``(T, B, C)``; its first is the main stream, which
    analyses look at (what is handed from attention to attention comes after these tensors). For a
    sublayer f at this place a layer computes
    ``stream = write(stream, f(read(stream)))``, dropout counted as part of f. The four verbs
    return new lists and never change a tensor of the stream in place: a checkpointed layer runs
    again over the same stream in the backward pass.

    A subclass is one published scheme. It is constructed once for each sublayer and once for the
    ends of each stack, and may have other parameters at the ends than at a sublayer. A parameter
    of a LayerNorm that fairseq's transformer also has is named ``layer_norm``, so that weights
    saved under fairseq's names load. A constant of the equations that depends on the depth is a
    buffer: what is left of a model after ``--encoder-layers-to-keep`` goes on with that of the
    depth it was trained at.

    Besides the four verbs a scheme may say how its weights start (`initialise`), what stands
    within a sublayer (`inside`), what the sublayers of a layer share (`share`), what an attention
    hands to the next (`scores`, `hand_on`) and what it measures before training (`unprofiled`,
    `profiling`). One that depends on the number of updates has a method
    ``set_num_updates(num_updates)``, which fairseq calls before each update; it is to have no
    effect in evaluation mode.

    Args:
        place: where this connection sits.
        options: the model's configuration, which has the fields of `Options`.
    """

    @dataclass
    class Options:
        """Flags of this scheme: each field becomes a flag of ``--arch residual_transformer``."""

    #: fairseq's flags that touch the residual stream itself and that this scheme gives a meaning.
    supported_flags = frozenset()

    #: Updates until which training and evaluation compute different functions.
    settled_after = 0

    #: Set while the model measures, in a pass before its first update.
    profiling = False

    def __init__(self, place: Place, options) -> None:
        super().__init__()
        self.inside = Inside()

    def initialise(self, weights: Dict[str, Tensor]) -> None:
        """Changes initial weights in place; called once, without gradient, when they are built.

        Args:
            weights: of the sublayer at this place, initialised as fairseq does: ``q_proj``,
                ``k_proj``, ``v_proj`` and ``out_proj`` of an attention, ``fc1`` and ``fc2`` of
                feed-forward. At the ends of a stack ``embed_tokens``, its embedding; a shared one
                is given to the encoder alone.
        """

    @classmethod
    def share(cls, layer: List["Connection"]) -> None:
        """Lets the connections of a layer's sublayers share parameters."""

    def unprofiled(self) -> bool:
        """Whether something is to be measured before the first update.

        If so, the model makes one more pass over the first batch: in training mode, without
        gradient, with `profiling` set.
        """
        return False

    def scores(self, stream: List[Tensor]) -> Optional[Tensor]:
        """What the attention at this place adds to its own scores, ``(B, H, T, S)``."""
        return None

    def hand_on(self, stream: List[Tensor], scores: Tensor) -> List[Tensor]:
        """The stream with what the attention at this place hands to the next of its kind."""
        return stream

    def open(self, x: Tensor) -> List[Tensor]:
        """The stream at the bottom of a stack, from the embeddings x ``(T, B, C)``."""
        return [x]

    def read(self, stream: List[Tensor]) -> Tensor:
        """The input ``(T, B, C)`` of the sublayer at this place."""
        raise NotImplementedError

    def write(self, stream: List[Tensor], y: Tensor) -> List[Tensor]:
        """The stream after the sublayer at this place, whose output is y ``(T, B, C)``."""
        raise NotImplementedError

    def scale_residual(self, stream: List[Tensor], w: Tensor) -> List[Tensor]:
        """The stream with what y is added to scaled by w ``(C,)``: ``--scale-resids``."""
        raise NotImplementedError

    def close(self, stream: List[Tensor]) -> Tensor:
        """The output ``(T, B, C)`` of the stack."""
        return stream[0]


#: Every known scheme, by the name that ``--residual-connection`` takes.
REGISTRY: Dict[str, Type[Connection]] = {}


def register_connection(name: str):
    """Class decorator: makes a `Connection` known as ``--residual-connection NAME``.

    Raises:
        ValueError: the name belongs to another class.
    """

    def register(cls: Type[Connection]) -> Type[Connection]:
        if REGISTRY.setdefault(name, cls) is not cls:
            raise ValueError(f"residual connection {name!r} is already {REGISTRY[name]}")
        return cls

    return register
