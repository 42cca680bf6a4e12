"""What does a train step cost, relative to fairseq's own Post-LN transformer or to a connection?

Builds the models side by side, feeds all of them the same batches in turn, and prints the ratios
of the medians of their step times (forward, label-smoothed loss, backward; no optimizer) and of
the memory that the forward pass keeps for the backward pass.

    python benchmarks/train_step.py --connections residual post pre --layers 6 --rounds 20
"""

import argparse
import json
import statistics
import time
from pathlib import Path
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
    parser.add_argument("--baseline", default="fairseq post", help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="write the ratios there, as JSON")
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

    memory = {name: saved_bytes(model, batch) for name, model in models.items()}
    settings = (
        f"{args.arch} {args.layers}+{args.layers}, {args.sentences} sentences of up to "
        f"{args.length} tokens, {args.device} {args.dtype}, {args.threads} threads, "
        f"torch {torch.__version__}, {args.rounds} alternating rounds"
    )
    print(settings)
    found = {}
    for name, seconds in times.items():
        ratios = sorted(a / b for a, b in zip(seconds, times[args.baseline]))
        found[name] = {
            "time": statistics.median(seconds) / statistics.median(times[args.baseline]),
            "time_low": ratios[len(ratios) // 4],
            "time_high": ratios[-len(ratios) // 4],
            "memory": memory[name] / memory[args.baseline],
        }
        print(
            "{:>14}: time {time:.3f} (in a round, middle half: {time_low:.3f} to {time_high:.3f}), "
            "memory {memory:.3f} of {}".format(name, args.baseline, **found[name])
        )
    if args.out:
        record = {"settings": settings, "baseline": args.baseline, "ratios": found}
        args.out.write_text(f"{json.dumps(record, indent=1)}\n")


def saved_bytes(model, batch) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(*batch)
    del output
    return sum(kept.values())


def build(args, model, arch, **flags):
    """A model in training mode, of the architecture's size and the asked depth."""
    built = new_model(
        model,
        arch,
        symbols(args.vocabulary),
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        dropout=args.dropout,
        attention_dropout=args.attention_dropout,
        **flags,
    )
    return built.to(device=args.device, dtype=getattr(torch, args.dtype)).train()


def new_model(model, arch, dictionary, **flags):
    """A model with one embedding for both languages, the same at every call."""
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    namespace = argparse.Namespace(arch=arch, share_all_embeddings=True, **flags)
    ARCH_CONFIG_REGISTRY[arch](namespace)
    torch.manual_seed(1)
    return model.build_model(namespace, task)


def symbols(size: int) -> Dictionary:
    """A dictionary of so many symbols besides fairseq's own."""
    dictionary = Dictionary()
    for i in range(size):
        dictionary.add_symbol(str(i))
    return dictionary


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
