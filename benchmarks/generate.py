"""What does beam search cost, relative to fairseq's own Transformer with the same weights?

Both translate the same sentences in turn, batch by batch, in one process; printed are the ratio of
the sums of the batches' medians, and whether the hypotheses are the same.

    python benchmarks/generate.py --checkpoint checkpoint_best.pt --data DATA-BIN
    python benchmarks/generate.py --layers 6 --arch residual_transformer
"""

import argparse
import json
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import torch
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator
from torch.profiler import ProfilerActivity, profile
from train_step import new_model, random_batch, symbols

from residual_fairseq import ResidualTransformerModel
from residual_fairseq.analysis.data import DataBin
from residual_fairseq.analysis.models import trained_model
from residual_fairseq.modules.layers import FAIRSEQ_NAMES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", help="of post or pre; without it weights are random")
    parser.add_argument("--data", help="data-bin to translate; without it sentences are random")
    parser.add_argument("--split", default="test")
    parser.add_argument("--max-tokens", type=int, default=4096, help="of a batch")
    parser.add_argument("--batches", type=int, default=4, help="the first so many")
    parser.add_argument("--connection", default="post", choices=["post", "pre"])
    parser.add_argument("--arch", default="residual_transformer")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--sentences", type=int, default=100, help="of a random batch")
    parser.add_argument("--length", type=int, default=16, help="of the longest of them")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--profile", action="store_true", help="show where the time goes, too")
    parser.add_argument("--out", type=Path, help="write the ratio there, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    if args.checkpoint:
        data = DataBin(args.data)
        ours, dictionary = trained_model(data, args.checkpoint), data.task.target_dictionary
        batches = list(islice(data.once(args.split, args.max_tokens), args.batches))
        limits = {"max_len_a": 0, "max_len_b": 200}
    else:
        dictionary = symbols(args.vocabulary)
        ours = new_model(
            ResidualTransformerModel,
            args.arch,
            dictionary,
            encoder_layers=args.layers,
            decoder_layers=args.layers,
            residual_connection=args.connection,
        )
        batches = [
            {"net_input": dict(zip(("src_tokens", "src_lengths"), random_batch(args, seed)))}
            for seed in range(args.batches)
        ]
        # Without training there is no end of a sentence.
        limits = {"max_len_a": 1, "max_len_b": 0}
    theirs = as_fairseq(ours, dictionary)
    models = {"fairseq": theirs, "ours": ours}
    generators = {}
    for name, model in models.items():
        model.to(args.device).eval().make_generation_fast_()
        generators[name] = SequenceGenerator([model], dictionary, beam_size=args.beam, **limits)

    total = dict.fromkeys(models, 0.0)
    same = sentences = 0
    for batch in batches:
        net_input = {key: value.to(args.device) for key, value in batch["net_input"].items()}
        net_input.pop("prev_output_tokens", None)
        times = {name: [] for name in models}
        for round_ in range(args.rounds + 1):
            found = {}
            for name, model in models.items():
                start = time.perf_counter()
                with torch.no_grad():
                    found[name] = generators[name].generate([model], {"net_input": net_input})
                # The first round warms up allocators and kernels.
                if round_:
                    times[name].append(time.perf_counter() - start)
        for name, seconds in times.items():
            total[name] += statistics.median(seconds)
        for a, b in zip(found["fairseq"], found["ours"]):
            sentences += 1
            same += torch.equal(a[0]["tokens"], b[0]["tokens"])
    settings = (
        f"{args.checkpoint or args.arch} {len(ours.encoder.layers)}+{len(ours.decoder.layers)}, "
        f"{sentences} sentences in {len(batches)} batches, beam {args.beam}, {args.device}, "
        f"{args.threads} threads, torch {torch.__version__}, {args.rounds} alternating rounds"
    )
    ratio = total["ours"] / total["fairseq"]
    print(f"{settings}\ntime: {ratio:.3f} of fairseq's; same hypotheses: {same} of {sentences}")
    if args.profile:
        for name, model in models.items():
            print(f"\n{name}\n{profiled(generators[name], model, net_input)}")
    if args.out:
        record = {"settings": settings, "command": sys.argv, "time": ratio, "same": same}
        args.out.write_text(f"{json.dumps(record, indent=1)}\n")


def as_fairseq(ours, dictionary) -> TransformerModel:
    """fairseq's own model with the same weights."""
    # Of the two that fairseq has, only Pre-LN has one there.
    before = hasattr(ours.decoder.connection, "layer_norm")
    sizes = {
        f"{side}_{key}": getattr(getattr(ours.cfg, side), key)
        for side in ("encoder", "decoder")
        for key in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    }
    model = new_model(
        TransformerModel,
        "transformer",
        dictionary,
        encoder_normalize_before=before,
        decoder_normalize_before=before,
        **sizes,
    )
    theirs = model.state_dict()
    for name, value in ours.state_dict().items():
        for fairseq_name, own in FAIRSEQ_NAMES.items():
            name = name.replace(own, fairseq_name)
        name = name.replace("coder.connection.layer_norm", "coder.layer_norm")
        if name in theirs:
            theirs[name] = value
    model.load_state_dict(theirs)
    return model


def profiled(generator, model, net_input) -> str:
    """The kinds of operations that a generation spends its time on, those that take the most."""
    kinds = [ProfilerActivity.CPU]
    kinds += [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    with profile(activities=kinds) as seen, torch.no_grad():
        generator.generate([model], {"net_input": net_input})
    on = "cuda" if torch.cuda.is_available() else "cpu"
    events = seen.key_averages()
    time_of = {event.key: getattr(event, f"self_{on}_time_total", 0) for event in events}
    whole = sum(time_of.values())
    top = sorted(time_of.items(), key=lambda item: -item[1])[:14]
    return "\n".join(f"{value / whole:6.1%}  {name}" for name, value in top)


if __name__ == "__main__":
    main()
