"""Trainings: from a recipe and a data-bin to a score, several at once; each can be resumed."""

from __future__ import annotations

import os
import platform
import shlex
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Mapping, Sequence

import fairseq
import torch

import residual_fairseq
from residual_fairseq.errors import UsageError
from residual_fairseq.logs import TrainingLog, read_log
from residual_fairseq.recipe import flatten, read_recipe, train_flags
from residual_fairseq.results import read_json, write_json
from residual_fairseq.scoring import score_output
from scripts.commands import CommandFailed, Commands

USER_DIR = str(Path(residual_fairseq.__file__).resolve().parent)

#: Seconds between two lines of progress.
PROGRESS_INTERVAL = 30.0


@dataclass(frozen=True)
class Training:
    """One model, from its recipe to its score.

    What comes of it in its folder:

        settings.json       everything that decides about the outcome
        train.log           what fairseq-train said
        checkpoints/        the best and the last
        generate.log        what fairseq-generate said
        generate-test.txt   its translations
        test.LANG           the same as plain text
        result.json         the score and all that belongs to it

    Args:
        connection: name of the residual connection.
        encoder_layers, decoder_layers: the depth.
        folder: as above; made if it is missing.
        corpus: folder of data_prep.bilingual.
        corpus_record: its corpus.json.
        recipe: path of the YAML.
        overrides: values of the recipe by dotted key; besides connection, depth and paths.
    """

    connection: str
    encoder_layers: int
    decoder_layers: int
    folder: Path
    corpus: Path
    corpus_record: Mapping[str, Any]
    recipe: Path
    overrides: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.connection} {self.encoder_layers}+{self.decoder_layers}"

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of ``result.json``, None if there is none yet."""
        return read_json(self.folder / "result.json")

    @property
    def log(self) -> TrainingLog:
        """What fairseq-train has logged so far."""
        path = self.folder / "train.log"
        return read_log(path) if path.exists() else TrainingLog()

    def values(self) -> dict[str, Any]:
        """The overrides of the recipe that make it this training."""
        return {
            **self.overrides,
            "common.user_dir": USER_DIR,
            "task.data": str(self.corpus / "bin"),
            "checkpoint.save_dir": str(self.folder / "checkpoints"),
            "model.residual_connection": self.connection,
            "model.encoder.layers": self.encoder_layers,
            "model.decoder.layers": self.decoder_layers,
        }

    def settings(self) -> dict[str, Any]:
        """Everything that decides about the outcome: the recipe without its paths, the corpus."""
        recipe = read_recipe(self.recipe, self.values())
        for section, key in (("common", "user_dir"), ("task", "data"), ("checkpoint", "save_dir")):
            del recipe[section][key]
        corpus = {key: self.corpus_record[key] for key in ("options", "inputs")}
        return {"recipe": recipe, "corpus": corpus}

    def train_command(self) -> list[str]:
        return [sys.executable, "-m", "fairseq_cli.train", *train_flags(self.recipe, self.values())]

    def generate_command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "fairseq_cli.generate", str(self.corpus / "bin")),
            *("--user-dir", USER_DIR),
            *("--path", str(self.folder / "checkpoints" / "checkpoint_best.pt")),
            *("--gen-subset", "test", "--results-path", str(self.folder)),
            # Vaswani et al. 2017, section 6.1: at most 50 units more than the source has.
            *("--beam", "5", "--max-len-a", "1", "--max-len-b", "50"),
            *("--max-tokens", "4096", "--num-workers", "0"),
        ]

    def claim_folder(self) -> None:
        """Make the folder, or take up what an earlier call has left there.

        Raises:
            UsageError: that was a training with other settings.
        """
        settings = self.settings()
        earlier = read_json(self.folder / "settings.json")
        if earlier is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "settings.json", settings)
        elif earlier != settings:
            before, now = (dict(flatten(values, ".")) for values in (earlier, settings))
            changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
            # What was asked for says more than what the recipe derives from it.
            asked = [f"recipe.{key}" for key in self.overrides]
            key = next((key for key in asked if key in changed), changed[0])
            raise UsageError(
                f"{self.folder} holds a training with {key} {before.get(key)}, not "
                f"{now.get(key)}: choose another --out or remove that folder"
            )

    def perform(self, commands: Commands, machine: Mapping[str, Any]) -> dict[str, Any]:
        """Do what has not been done yet.

        Args:
            commands: for fairseq's.
            machine: facts about it, for the record.

        Returns:
            the content of ``result.json``.

        Raises:
            CommandFailed: one of fairseq's commands failed.
            UsageError: its output cannot be scored.
        """
        if not self.log.finished:
            commands.call(self.train_command(), self.folder / "train.log")
        commands.call(self.generate_command(), self.folder / "generate.log")
        lang = self.corpus_record["options"]["target"]
        score, translations = score_output(
            self.folder / "generate-test.txt", self.corpus / "text" / f"test.{lang}", lang
        )
        write_text(self.folder / f"test.{lang}", "".join(f"{line}\n" for line in translations))
        log, settings = self.log, self.settings()
        result = {
            "connection": self.connection,
            "encoder_layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "parameters": log.parameters,
            "updates": log.updates,
            "words_per_second": log.words_per_second,
            "bleu": score.bleu,
            "signature": score.signature,
            "seed": settings["recipe"]["common"]["seed"],
            "train_loss_bits": log.train,
            "valid_loss_bits": log.valid,
            "train_command": shlex.join(self.train_command()),
            "generate_command": shlex.join(self.generate_command()),
            "machine": machine,
            "versions": versions(),
            **settings,
        }
        write_json(self.folder / "result.json", result)
        return result


class Progress:
    """Says how far a training is, and when it will be done at the speed since the first call."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.goal = training.settings()["recipe"]["optimization"]["max_update"]
        self.start: tuple[float, int] | None = None

    def line(self) -> str:
        """A line for a person."""
        log, now = self.training.log, time.monotonic()
        if log.finished:
            return f"{self.training.name}: trained, translating"
        text = f"{self.training.name}: {log.updates} of {self.goal} updates"
        if log.train:
            loss = list(log.train.values())[-1]
            text += f", training loss {loss:.2f} bits per unit"
        if self.start is None and log.updates:
            self.start = now, log.updates
        elif self.start is not None and log.updates > self.start[1]:
            pace = (now - self.start[0]) / (log.updates - self.start[1])
            text += f", {clock(pace * (self.goal - log.updates))} left"
        return text


def perform_all(trainings: Sequence[Training], lock: int) -> dict[str, str]:
    """Do all trainings that have no result yet, and say now and then how far they are.

    On a CPU each has one thread, since matrices this small gain little from more, and one more
    than there are cores run at once: three on two cores then share these evenly to the end, and
    their speeds compare. On a GPU one runs after the other. If one fails the others go on.

    Args:
        trainings: with different names.
        lock: as of `Commands`.

    Returns:
        By name, why a training failed; of those that did.
    """
    missing = []
    for training in trainings:
        if training.result is None:
            missing.append(training)
        else:
            print(f"{training.name}: reused", flush=True)
    if not missing:
        return {}
    gpu = torch.cuda.is_available()
    cores = os.cpu_count() or 1
    at_once = min(len(missing), 1 if gpu else cores + 1)
    machine = {
        "device": torch.cuda.get_device_name() if gpu else f"{cores} CPU cores",
        "trainings_at_once": at_once,
    }
    commands = Commands({} if gpu else {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, lock)
    failures = {}
    with ThreadPoolExecutor(at_once) as pool:
        # `kill` is to stop the trainings just as Ctrl-C does.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        progress = {}
        for training in missing:
            print(f"{training.name}: {shlex.join(training.train_command())}", flush=True)
            progress[pool.submit(training.perform, commands, machine)] = Progress(training)
        try:
            while progress:
                done, running = wait(progress, PROGRESS_INTERVAL, FIRST_COMPLETED)
                for future in done:
                    name = progress.pop(future).training.name
                    try:
                        print(f"{name}: {future.result()['bleu']:.2f} BLEU", flush=True)
                    except (CommandFailed, UsageError) as error:
                        failures[name] = str(error)
                        print(f"{name}: failed: {error}", flush=True)
                if not done:
                    for future in running:
                        print(progress[future].line(), flush=True)
        except BaseException:
            commands.stop()
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
    return failures


def versions() -> dict[str, str]:
    """The versions of what a result depends on."""
    names = ("torch", "sacrebleu", "sacremoses", "subword-nmt")
    return {
        "python": platform.python_version(),
        "fairseq": fairseq.__version__,
        "residual-fairseq": residual_fairseq.__version__,
        **{name: version(name) for name in names},
    }


def clock(seconds: float) -> str:
    """``83.2`` to ``1:23``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def write_text(path: Path, text: str) -> None:
    """Write a text file beside ``path`` and rename it into place."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)
