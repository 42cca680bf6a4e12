"""How long does a train step take, relative to fairseq's own Post-LN transformer?

Builds the models side by side, feeds all of them the same batches in turn, and prints the ratio
of the medians of their step times: forward, label-smoothed loss, backward; no optimizer.

    python benchmarks/train_step.py --connections residual post pre --layers 6 --rounds 20
"""

import argparse
import statistics
import time
from types import SimpleNamespace

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel

from residual_fairseq import REGISTRY, ResidualTransformerModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--connections", nargs="+", default=sorted(REGISTRY))
    parser.add_argument("--arch", default="residual_transformer")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--sentences", type=int, default=40, help="in a batch")
    parser.add_argument("--length", type=int, default=16, help="of the longest sentence")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    models = {"fairseq post": build(args, TransformerModel, "transformer")}
    for name in args.connections:
        models[name] = build(args, ResidualTransformerModel, args.arch, residual_connection=name)
    times = {name: [] for name in models}
    for round_ in range(args.rounds + 2):
        batch = random_batch(args, seed=round_)
        for name, model in models.items():
            seconds = step(model, batch, args.device)
            # The first two rounds warm up allocators and kernels.
            if round_ >= 2:
                times[name].append(seconds)

    base = statistics.median(times["fairseq post"])
    print(
        f"{args.arch} {args.layers}+{args.layers}, {args.device} {args.dtype}, "
        f"{args.threads} threads, torch {torch.__version__}, {args.rounds} alternating rounds"
    )
    for name, seconds in times.items():
        ratios = sorted(a / b for a, b in zip(seconds, times["fairseq post"]))
        low, high = ratios[len(ratios) // 4], ratios[-len(ratios) // 4]
        print(
            f"{name:>14}: {statistics.median(seconds) / base:.3f} of fairseq's Post-LN "
            f"(ratio in a round, middle half: {low:.3f} to {high:.3f})"
        )


def build(args, model, arch, **flags):
    """A model in training mode, of the architecture's size and the asked depth."""
    dictionary = Dictionary()
    for i in range(args.vocabulary):
        dictionary.add_symbol(str(i))
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    namespace = argparse.Namespace(
        arch=arch,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        dropout=args.dropout,
        attention_dropout=args.attention_dropout,
        share_all_embeddings=True,
        **flags,
    )
    ARCH_CONFIG_REGISTRY[arch](namespace)
    torch.manual_seed(1)
    built = model.build_model(namespace, task)
    return built.to(device=args.device, dtype=getattr(torch, args.dtype)).train()


def random_batch(args, seed):
    """Token ids with padding, the source's left and the target's right, as fairseq pads them."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(args.length // 2, args.length + 1, (args.sentences,))
    lengths[0] = args.length
    shape = (args.sentences, args.length)
    source, target = (
        torch.randint(4, args.vocabulary, shape, generator=generator) for _ in range(2)
    )
    outside = torch.arange(args.length)[None] >= lengths[:, None]
    source[outside.flip(1)] = 1
    target[outside] = 1
    return [tensor.to(args.device) for tensor in (source, lengths, target)]


def step(model, batch, device) -> float:
    """Seconds of a forward and a backward pass."""
    synchronize(device)
    start = time.perf_counter()
    logits = model(*batch)[0]
    loss, _ = label_smoothed_nll_loss(
        logits.float().log_softmax(-1), batch[2].unsqueeze(-1), 0.1, ignore_index=1
    )
    loss.backward()
    synchronize(device)
    seconds = time.perf_counter() - start
    model.zero_grad()
    return seconds


def synchronize(device) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
