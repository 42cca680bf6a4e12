"""Trains a model for each connection as one of several data-parallel workers on the CPU, or alone.

    python workers.py RANK WORKERS PORT FOLDER [FLAG ...] -- CONNECTION ...

All in one process, since fairseq takes seconds to import. ``FOLDER/CONNECTION-RANK.pt`` becomes the
state of the model at the end, the losses of the updates and the parameters without gradient.
"""

import sys
from pathlib import Path

import torch
from fairseq import distributed_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from fairseq_cli import train


def main(rank, workers, port, folder, *words):
    split = words.index("--")
    flags, connections = list(words[:split]), words[split + 1 :]
    flags += ["--distributed-world-size", workers, "--distributed-rank", rank]
    if int(workers) > 1:
        flags += ["--distributed-init-method", f"tcp://127.0.0.1:{port}", "--distributed-no-spawn"]
        flags += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    else:
        flags += ["--update-freq", "2"]
    torch.set_num_threads(1)
    train_step = Trainer.train_step
    for connection in connections:
        seen = {"losses": [], "without_gradient": set()}
        Trainer.train_step = watched(train_step, seen)
        args = ["--residual-connection", connection, "--save-dir", f"{folder}/save-{rank}"]
        parser = options.get_training_parser()
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [*flags, *args]))
        distributed_utils.call_main(cfg, train.main)
        torch.save(seen, Path(folder, f"{connection}-{rank}.pt"))


def watched(train_step, seen):
    """The trainer's step, which also notes what it leaves behind."""

    def step(trainer, samples, *args, **kwargs):
        output = train_step(trainer, samples, *args, **kwargs)
        seen["losses"].append(output["loss"])
        seen["model"] = trainer.model.state_dict()
        for name, parameter in trainer.model.named_parameters():
            if parameter.grad is None:
                seen["without_gradient"].add(name)
        return output

    return step


if __name__ == "__main__":
    main(*sys.argv[1:])
