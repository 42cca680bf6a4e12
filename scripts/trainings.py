"""Trainings: from a recipe and a data-bin to a score, several at once; each can be resumed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from omegaconf import OmegaConf

import residual_fairseq
from residual_fairseq.averaging import main as residual_average
from residual_fairseq.divergence import diverged
from residual_fairseq.errors import UsageError
from residual_fairseq.language_id import LanguageIdentifier
from residual_fairseq.logs import TrainingLog, read_log
from residual_fairseq.recipe import read_recipe, section_flags, train_flags
from residual_fairseq.results import (
    WITHOUT_EFFECT,
    read_json,
    settings_of,
    versions,
    write_json,
)
from residual_fairseq.scoring import (
    check_comet,
    comet_score,
    comet_signature,
    compound_split_bleu,
    detokenize,
    has_spaces,
    join_units,
    off_target,
    read_hypotheses,
    read_lines,
    scores,
    tokenised_bleu,
)
from scripts.commands import CommandFailed, Commands

USER_DIR = str(Path(residual_fairseq.__file__).resolve().parent)

#: The values of a recipe that are paths: they decide about nothing.
PATHS = (
    ("common", "user_dir"),
    ("task", "data"),
    ("task", "extra_data"),
    ("checkpoint", "save_dir"),
)

#: What the machine decides, with the number of devices: a GPU computes in half precision, a CPU
#: does not.
PRECISION = {f"recipe.common.{name}" for name in ("fp16", "bf16", "amp")}

#: Seconds between two lines of progress.
PROGRESS_INTERVAL = 30.0


@dataclass(frozen=True)
class Training:
    """One model, from its recipe to its scores.

    What comes of it in its folder:

        settings.json       everything that decides about the outcome
        training.json       how and on what machine it was trained
        train.log           what fairseq-train said
        checkpoints/        those that the recipe keeps, and their mean
        generate/           what fairseq-generate said and wrote, a folder for each test set
        TEST.LANG           its translations of a test set, plain text
        result.json         the scores and all that belongs to them

    Args:
        connection: name of the residual connection.
        encoder_layers, decoder_layers: the depth.
        folder: as above; made if it is missing.
        corpus: folder of a prepared corpus.
        corpus_record: its corpus.json.
        recipe: path of the YAML.
        overrides: values of the recipe by dotted key; besides connection, depth and paths.
        benchmark: what its results are called.
        decoding: values of the recipe's ``generation`` for single test sets.
        compound_split: score with compounds split, too.
        numbered: say the seed in the name.
        comet: a model of COMET on this machine to score with, too.
        unigram_bits: a training whose validation loss is no lower counts as failed; None: none
            does for its loss.
    """

    connection: str
    encoder_layers: int
    decoder_layers: int
    folder: Path
    corpus: Path
    corpus_record: Mapping[str, Any]
    recipe: Path
    overrides: Mapping[str, Any]
    benchmark: str = "quickstart"
    decoding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compound_split: bool = False
    numbered: bool = False
    comet: Path | None = None
    unigram_bits: float | None = None

    @property
    def name(self) -> str:
        name = f"{self.connection} {self.encoder_layers}+{self.decoder_layers}"
        return f"{name} seed {self.seed}" if self.numbered else name

    @property
    def seed(self) -> int:
        return self.values_of("common")["seed"]

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of ``result.json``, None if there is none yet."""
        return read_json(self.folder / "result.json")

    @property
    def metrics(self) -> set[str]:
        """The metrics that are asked for, by their key in ``result.json``."""
        options = self.corpus_record["options"]
        asked = {
            "cased_bleu": options["lowercase"],
            "tokenised_bleu": self.compound_split
            or (options["tokenizer"] == "moses" and has_spaces(options["target"])),
            "compound_split_bleu": self.compound_split,
            "off_target": bool(self.language_samples()),
            "comet": self.comet is not None,
        }
        return {"bleu", "chrf", "ter", *(name for name, wanted in asked.items() if wanted)}

    @property
    def complete(self) -> bool:
        """Whether there is a result, with every metric that is asked for; or of a failure."""
        result = self.result
        if not result or result["status"] == "failed":
            return bool(result)
        scores_of_tests = result["scores"].values()
        return all(self.metrics <= found.keys() for found in scores_of_tests) and (
            self.comet is None
            or all(f["comet"]["signature"] == comet_signature(self.comet) for f in scores_of_tests)
        )

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to train."""
        return self.result is not None or self.log.finished

    @property
    def log(self) -> TrainingLog:
        """What fairseq-train has logged so far."""
        path = self.folder / "train.log"
        return read_log(path) if path.exists() else TrainingLog()

    def values(self) -> dict[str, Any]:
        """The overrides of the recipe that make it this training."""
        values = {f"task.{key}": value for key, value in self.corpus_record.get("task", {}).items()}
        extra = self.corpus_record.get("extra_lang_pairs")
        if extra:
            # Pairs without a validation set, in fairseq's way: data of another name.
            langtok = self.encoder_langtok()
            values |= {
                "task.extra_data": str({name: str(self.corpus / "bin") for name in extra}),
                "task.extra_lang_pairs": str(extra),
                "task.langtoks": str({name: (langtok, None) for name in ("main", *extra)}),
            }
        return {
            **values,
            "model.encoder.layers": self.encoder_layers,
            "model.decoder.layers": self.decoder_layers,
            "model.residual_connection": self.connection,
            **self.overrides,
            "common.user_dir": USER_DIR,
            "task.data": str(self.corpus / "bin"),
            "checkpoint.save_dir": str(self.folder / "checkpoints"),
        }

    def encoder_langtok(self) -> str | None:
        """The language that fairseq puts a token for before the source."""
        open_values = {"task.data": "", "task.langs": "", "task.lang_pairs": ""}
        return read_recipe(self.recipe, open_values)["task"].get("encoder_langtok")

    @cached_property
    def whole_recipe(self) -> Mapping[str, Mapping[str, Any]]:
        """All values of the recipe; read once, since a test set in 200 directions asks for them."""
        return read_recipe(self.recipe, self.values())

    def values_of(self, section: str) -> Mapping[str, Any]:
        """The values of a section of the recipe."""
        return self.whole_recipe.get(section, {})

    def settings(self) -> dict[str, Any]:
        """Everything that decides about the outcome: the recipe without its paths, the corpus."""
        recipe = {section: dict(values) for section, values in self.whole_recipe.items()}
        for section, key in PATHS:
            recipe[section].pop(key, None)
        corpus = {key: self.corpus_record[key] for key in ("options", "inputs")}
        return {"recipe": recipe, "corpus": corpus}

    def train_command(self) -> list[str]:
        return [sys.executable, "-m", "fairseq_cli.train", *train_flags(self.recipe, self.values())]

    def checkpoints_to_average(self) -> int:
        """How many there are to be; 0: the best one is taken as it is."""
        checkpoint = self.values_of("checkpoint")
        if checkpoint.get("no_epoch_checkpoints"):
            return 0
        return max(checkpoint.get("keep_last_epochs", 0), 0)

    def average_command(self, number: int) -> list[str]:
        """The mean of the last ``number`` checkpoints."""
        folder = self.folder / "checkpoints"
        return [
            *("residual-average", "--inputs", str(folder), "--last", str(number)),
            *("--output", str(folder / "average.pt")),
        ]

    def generate_command(self, test: str, checkpoint: str) -> list[str]:
        """Translate a test set.

        Args:
            test: one of the corpus.
            checkpoint: name of a file in ``checkpoints``.
        """
        facts = self.corpus_record["tests"][test]
        recipe = self.whole_recipe
        # How to sample is of no use here, and fairseq-generate reads the languages from this.
        task = {
            key: value
            for key, value in recipe["task"].items()
            if key != "data" and not key.startswith(("sampling", "extra"))
        }
        generation = {**recipe.get("generation", {}), **self.decoding.get(test, {})}
        flags = [
            *section_flags("task", task),
            *("--source-lang", facts["source"], "--target-lang", facts["target"]),
            *section_flags("generation", generation),
            *("--max-tokens", "4096", "--num-workers", "0"),
        ]
        if recipe["dataset"].get("skip_invalid_size_inputs_valid_test"):
            flags.append("--skip-invalid-size-inputs-valid-test")
        return [
            *(sys.executable, "-m", "fairseq_cli.generate", str(self.corpus / "bin")),
            *("--user-dir", USER_DIR, "--path", str(self.folder / "checkpoints" / checkpoint)),
            *("--gen-subset", facts["subset"], "--results-path", str(self.generated(test).parent)),
            *flags,
        ]

    def generated(self, test: str) -> Path:
        """The file that fairseq-generate writes for a test set."""
        subset = self.corpus_record["tests"][test]["subset"]
        return self.folder / "generate" / test / f"generate-{subset}.txt"

    def check_model(self) -> None:
        """Check that there is such a model, without its memory and before anything is done for it.

        Says so where it is evaluated as what it is only after a longer training.

        Raises:
            UsageError: the values of the recipe contradict each other, or mean nothing for its
                connection.
        """
        symbols = Dictionary()
        task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
        with torch.device("meta"):
            model = build_model(OmegaConf.create(dict(self.values_of("model"))), task)
        updates = self.values_of("optimization").get("max_update", 0)
        remark = model.too_short(updates) if updates > 0 else None
        if remark:
            print(f"{self.name}: {remark}", flush=True)

    def claim_folder(self) -> None:
        """Make the folder, or take up what an earlier call has left there.

        Of a training that has ended only what decides about the outcome has to be as it is now,
        so it is taken up on a machine with another number of devices, or with none. One that has
        not goes on from the middle of an epoch, which is counted in batches of one device.

        Raises:
            UsageError: that was a training with other settings.
        """
        settings = self.settings()
        earlier = read_json(self.folder / "settings.json")
        if earlier is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "settings.json", settings)
            return
        ended = self.ended
        before, now = (
            dict(settings_of(with_batch(values) if ended else values, WITHOUT_EFFECT))
            for values in (earlier, settings)
        )
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if ended:
            for key in PRECISION.intersection(changed):
                changed.remove(key)
                print(f"{self.name}: was trained with {key} {before.get(key)}", flush=True)
        if changed:
            # What was asked for says more than what the recipe derives from it.
            asked = [f"recipe.{key}" for key in self.overrides]
            key = next((key for key in asked if key in changed), changed[0])
            raise UsageError(
                f"{self.folder} holds a training with {key} {before.get(key)}, not "
                f"{now.get(key)}: choose another --out or remove that folder"
            )

    def train(self, commands: Commands, machine: Mapping[str, Any]) -> str | None:
        """Train, unless that is done.

        Args:
            machine: facts about it, for the record.

        Returns:
            why it has not learned anything, if so: that is a result too. None if it has.

        Raises:
            CommandFailed: fairseq-train failed for another reason.
        """
        if self.result:
            return self.result.get("reason")
        if not self.log.finished:
            try:
                memory = commands.call(self.train_command(), self.folder / "train.log")
            except CommandFailed:
                reason = diverged(self.log, None) or stopped_by_fairseq(self.log)
                if reason is None:
                    raise
                return reason
            log = self.log
            if log.device_memory is not None:
                memory = log.device_memory
            facts = {"machine": machine, "peak_memory_bytes": memory, **self.how_it_trains()}
            write_json(self.folder / "training.json", facts)
        return diverged(self.log, self.unigram_bits)

    def how_it_trains(self) -> dict[str, Any]:
        """What another call of the same command may do otherwise, on another machine."""
        return {"train_command": shlex.join(self.train_command()), "versions": versions()}

    def average(self) -> tuple[str, int]:
        """Average the checkpoints that the recipe keeps for it, unless that is done.

        Returns:
            the name of the checkpoint to translate with, and of how many it is the mean.

        Raises:
            UsageError: the checkpoints do not fit together.
        """
        folder, result = self.folder / "checkpoints", self.result
        epochs = sum(
            re.fullmatch(r"checkpoint\d+\.pt", path.name) is not None
            for path in folder.glob("checkpoint*.pt")
        )
        if not epochs and result:
            # Whoever has the translations may have removed what made them.
            command = shlex.split(result["generate_command"])
            return Path(command[command.index("--path") + 1]).name, result["averaged"]
        number = min(self.checkpoints_to_average(), epochs)
        if not number:
            best = folder / "checkpoint_best.pt"
            return (best if best.exists() else folder / "checkpoint_last.pt").name, 1
        average, last = folder / "average.pt", folder / "checkpoint_last.pt"
        if not average.exists() or average.stat().st_mtime < last.stat().st_mtime:
            # Not in a process of its own: importing fairseq would take longer than averaging.
            residual_average(self.average_command(number)[1:])
        return "average.pt", number

    def translate(self, commands: Commands, checkpoint: str) -> None:
        """Translate the test sets that have not been translated yet.

        Raises:
            CommandFailed: fairseq-generate failed.
        """
        todo = []
        for test in self.corpus_record["tests"]:
            done = self.generated(test).with_name("done.json")
            command = self.generate_command(test, checkpoint)[3:]
            model = self.folder / "checkpoints" / checkpoint
            both = done.exists() and model.exists()
            stale = both and done.stat().st_mtime < model.stat().st_mtime
            if stale or read_json(done) != command:
                done.parent.mkdir(parents=True, exist_ok=True)
                todo.append({"command": command, "done": str(done)})
        if todo:
            list_of_them = self.folder / "generate" / "todo.json"
            write_json(list_of_them, todo)
            commands.call(
                [sys.executable, "-m", "scripts.translate", str(list_of_them)],
                list_of_them.with_name("generate.log"),
            )

    def evaluate(self, commands: Commands, checkpoint: str) -> dict[str, dict[str, Any]]:
        """Translate all test sets, unless that is done, and score them.

        Args:
            checkpoint: name of a file in ``checkpoints``.

        Returns:
            the scores by test set and metric. Of translations that have not changed those stay
            that are not asked for now.

        Raises:
            CommandFailed: fairseq-generate failed.
            UsageError: its output cannot be scored.
        """
        options = self.corpus_record["options"]
        post_process = self.corpus_record.get("post_process", "subword_nmt")
        self.translate(commands, checkpoint)
        metrics = self.metrics
        samples = {lang: read_lines(path) for lang, path in self.language_samples().items()}
        identifier = LanguageIdentifier(samples) if samples else None
        earlier = (self.result or {}).get("scores", {})
        found = {}
        for test, facts in self.corpus_record["tests"].items():
            output = self.generated(test)
            lang = facts["target"]
            text = self.corpus / facts["text"]
            references = read_lines(f"{text}.{lang}")
            tokens = join_units(read_hypotheses(output, len(references)), post_process)
            translations = detokenize(tokens, lang, options["tokenizer"])
            lowercase = options["lowercase"]
            plain = self.folder / f"{test}.{lang}"
            unchanged = plain.exists() and read_lines(plain) == translations
            found[test] = {
                **(earlier.get(test, {}) if unchanged else {}),
                **scores(translations, references, lang, lowercase),
            }
            if identifier:
                found[test]["off_target"] = off_target(translations, references, lang, identifier)
            if "tokenised_bleu" in metrics:
                tokenised = read_lines(f"{text}.tok.{lang}")
                found[test]["tokenised_bleu"] = tokenised_bleu(tokens, tokenised, lowercase)
            if "compound_split_bleu" in metrics:
                found[test]["compound_split_bleu"] = compound_split_bleu(tokens, tokenised)
            if self.comet:
                sources = read_lines(f"{text}.{facts['source']}")
                found[test]["comet"] = comet_score(sources, translations, references, self.comet)
            write_text(plain, "".join(f"{line}\n" for line in translations))
        return found

    def language_samples(self) -> dict[str, Path]:
        """Text to tell the languages of a multilingual corpus apart by; none of a single pair."""
        samples = sorted((self.corpus / "text").glob("sample.*"))
        return {path.suffix[1:]: path for path in samples}

    def perform(self, commands: Commands, machine: Mapping[str, Any]) -> dict[str, Any]:
        """Do what has not been done yet.

        Args:
            commands: for fairseq's.
            machine: facts about it, for the record.

        Returns:
            the content of ``result.json``, which ``residual_fairseq.results`` describes.

        Raises:
            CommandFailed: one of fairseq's commands failed.
            UsageError: its output cannot be scored.
        """
        return self.record(commands, machine, self.train(commands, machine))

    def record(
        self, commands: Commands, machine: Mapping[str, Any], failure: str | None
    ) -> dict[str, Any]:
        """Evaluate a training that has ended, and write its ``result.json``.

        Args:
            failure: why it has not learned anything, as ``train`` returns it.

        Returns, raises:
            as ``perform``.
        """
        tests = self.corpus_record["tests"]
        result: dict[str, Any] = {
            "benchmark": self.benchmark,
            "connection": self.connection,
            "encoder_layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "seed": self.seed,
            "status": "failed" if failure else "ok",
        }
        if failure:
            result["reason"] = failure
        else:
            checkpoint, averaged = self.average()
            found = self.evaluate(commands, checkpoint)
            first = next(iter(found.values()))["bleu"]
            result |= {
                "bleu": first["score"],
                "signature": first["signature"],
                "scores": found,
                "averaged": averaged,
                "hypotheses": {test: f"{test}.{facts['target']}" for test, facts in tests.items()},
                "references": {
                    test: os.path.relpath(
                        self.corpus / f"{facts['text']}.{facts['target']}", self.folder
                    )
                    for test, facts in tests.items()
                },
                "generate_command": shlex.join(
                    self.generate_command(next(iter(tests)), checkpoint)
                ),
            }
        log = self.log
        result |= {
            "parameters": log.parameters,
            "updates": log.updates,
            "words_per_second": log.words_per_second,
            "train_loss_bits": log.train,
            "valid_loss_bits": log.valid,
            **self.how_it_trains(),
            **(read_json(self.folder / "training.json") or {"machine": machine}),
            **with_batch(read_json(self.folder / "settings.json") or self.settings()),
        }
        write_json(self.folder / "result.json", result)
        return result


def unigram_bits(record: Mapping[str, Any]) -> float | None:
    """The loss of a model that knows the frequencies of the target units and nothing else.

    Args:
        record: of the corpus. Of a multilingual one it is the mean over the validation sets of all
            directions, as a validation loss is, each language with its own frequencies.

    Returns:
        bits per unit; None if the corpus says nothing.
    """
    if "counts" not in record:
        return None
    counts = record["counts"]["binarise"]
    target = record["options"].get("target")
    if target:
        return counts["train"][target].get("unigram_bits")
    sides = [
        (splits["valid"][lang]["units"], splits["train"][lang]["unigram_bits"])
        for pair, splits in counts.items()
        if "valid" in splits
        for lang in pair.split("-")
    ]
    return sum(units * bits for units, bits in sides) / sum(units for units, _ in sides)


def effective_batch(recipe: Mapping[str, Any]) -> int:
    """Tokens per update at most, over all devices: what has to be equal for runs to compare."""
    devices = recipe.get("distributed_training", {}).get("distributed_world_size", 1)
    update_freq = recipe["optimization"].get("update_freq", [1])[0]
    return recipe["dataset"]["max_tokens"] * devices * update_freq


def with_batch(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a training, with the batch as one number."""
    return {**settings, "effective_batch_tokens": effective_batch(settings["recipe"])}


def stopped_by_fairseq(log: TrainingLog) -> str | None:
    """fairseq's own verdict that a training has gone wrong, the last line of its log."""
    if "FloatingPointError" in log.last_line or "NaN" in log.last_line:
        return log.last_line
    return None


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


def perform_all(
    trainings: Sequence[Training], lock: int, at_once: int | None = None
) -> dict[str, str]:
    """Do all trainings that have no result yet, and say now and then how far they are.

    On a CPU each has one thread, since matrices this small gain little from more, and one more
    than there are cores run at once: three on two cores then share these evenly to the end, and
    their speeds compare. On a GPU one runs after the other. If one fails the others go on.

    Args:
        trainings: with different names.
        lock: as of `Commands`.
        at_once: how many, if not as above.

    Returns:
        By name, why a training failed; of those that did.

    Raises:
        UsageError: COMET is asked for, and is not there.
    """
    for model in {training.comet for training in trainings} - {None}:
        check_comet(model)
    missing = []
    for training in trainings:
        if training.complete:
            print(f"{training.name}: reused", flush=True)
        else:
            missing.append(training)
    if not missing:
        return {}
    gpu = torch.cuda.is_available()
    at_once = min(len(missing), at_once or (1 if gpu else cpu_cores() + 1))
    machine = describe_machine(at_once)
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
                        result = future.result()
                        if result["status"] == "failed":
                            print(f"{name}: did not train: {result['reason']}", flush=True)
                        else:
                            test = next(iter(result["scores"]))
                            print(f"{name}: {result['bleu']:.2f} BLEU on {test}", flush=True)
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


def cpu_cores() -> int:
    return os.cpu_count() or 1


def describe_machine(at_once: int) -> dict[str, Any]:
    """Facts about this machine that a speed depends on.

    Args:
        at_once: trainings at the same time.
    """
    gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if gpu else f"{cpu_cores()} CPU cores",
        "trainings_at_once": at_once,
    }


def clock(seconds: float) -> str:
    """``83.2`` to ``1:23``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def write_text(path: Path, text: str) -> None:
    """Write a text file beside ``path`` and rename it into place."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)
