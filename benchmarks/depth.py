"""What does a layer cost, from 6 to 100 of them, in time and in memory?

Builds a model of each depth, with and without checkpointed activations, and gives all of them the
same batches in turn. Prints the time of a step (forward, label-smoothed loss, backward) relative to
that of the first depth, and the memory that a step takes beyond the weights, each measured in a
process of its own.

    python benchmarks/depth.py --connection residual --depths 6 12 25 50 100
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
from pathlib import Path

import torch
from fairseq.models.transformer import TransformerModel
from train_step import build, random_batch, step

from residual_fairseq import REGISTRY, ResidualTransformerModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--connection", default="residual", choices=[*REGISTRY, "fairseq"])
    parser.add_argument("--arch", default="residual_transformer_tiny")
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 12, 25, 50, 100])
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--sentences", type=int, default=40, help="in a batch")
    parser.add_argument("--length", type=int, default=16, help="of the longest sentence")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--out", type=Path, help="write the numbers there, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    keys = [(layers, checkpointed) for layers in args.depths for checkpointed in (False, True)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        memory = dict(zip(keys, pool.starmap(peak_bytes, [(args, *key) for key in keys], 1)))
    models = {key: model_of(args, *key) for key in keys}
    times = {key: [] for key in models}
    for round_ in range(args.rounds + 1):
        batch = random_batch(args, seed=round_)
        for key, model in models.items():
            seconds = step(model, batch, args.device)
            # The first round warms up allocators and kernels.
            if round_:
                times[key].append(seconds)
    settings = (
        f"{args.connection}, {args.arch}, {args.sentences} sentences of up to {args.length} tokens,"
        f" {args.device} {args.dtype}, {args.threads} threads, torch {torch.__version__}, "
        f"{args.rounds} alternating rounds"
    )
    print(settings)
    first = statistics.median(times[args.depths[0], False])
    rows = []
    for (layers, checkpointed), seconds in times.items():
        median = statistics.median(seconds)
        row = {
            "layers": layers,
            "checkpointed": checkpointed,
            "time": median / first,
            "time_of_a_layer": median / first * args.depths[0] / layers,
            "step_bytes": memory[layers, checkpointed],
        }
        rows.append(row)
        print(
            f"{f'{layers}+{layers}':>9}{' checkpointed' if checkpointed else '':13}: time "
            f"{row['time']:6.2f}, of a layer {row['time_of_a_layer']:.2f}, "
            f"memory {row['step_bytes'] / 2**20:7.0f} MiB"
        )
    if args.out:
        record = {"settings": settings, "command": sys.argv, "rows": rows}
        args.out.write_text(f"{json.dumps(record, indent=1)}\n")


def peak_bytes(args, layers: int, checkpointed: bool) -> int:
    """Memory that a step takes beyond the weights; in a process that has done nothing else."""
    torch.set_num_threads(args.threads)
    model = model_of(args, layers, checkpointed)
    batch = random_batch(args, seed=0)
    if args.device == "cuda":
        before = torch.cuda.memory_allocated()
        step(model, batch, args.device)
        return torch.cuda.max_memory_allocated() - before
    before = 1024 * int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])
    step(model, batch, args.device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def model_of(args, layers: int, checkpointed: bool):
    args.layers = layers
    if args.connection == "fairseq":
        sizes = {
            f"{side}_{key}": value
            for side in ("encoder", "decoder")
            for key, value in (("embed_dim", 128), ("ffn_embed_dim", 256), ("attention_heads", 4))
        }
        return build(
            args, TransformerModel, "transformer", checkpoint_activations=checkpointed, **sizes
        )
    flags = {"residual_connection": args.connection, "checkpoint_activations": checkpointed}
    return build(args, ResidualTransformerModel, args.arch, **flags)


if __name__ == "__main__":
    main()
