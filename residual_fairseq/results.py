"""Results of trainings: one ``result.json`` for each, and the quickstart's table over them.

What a ``result.json`` of a benchmark holds:

    benchmark               what was trained and tested on: "wmt_en_de"; with the direction if
                            there are several: "iwslt14 de-en"
    connection, encoder_layers, decoder_layers, seed
    status                  "ok", or "failed": it ran and did not train
    reason                  of the failure
    scores                  by test set and by metric (a key of ``scoring.METRICS``) a number at
                            "score" and its "signature"; of a failed training they may be missing.
                            Test sets of multilingual models are directions: "en-de", and
                            "zero-shot de-fr" if no such text was trained on
    hypotheses              by test set, the file of the translations as plain text, relative to
                            the folder of ``result.json``
    references              by test set, the file of the raw reference, absolute or relative to
                            that folder
    parameters              of the model
    updates, words_per_second, peak_memory_bytes, train_loss_bits, valid_loss_bits
    effective_batch_tokens  per update, over all devices
    averaged                number of checkpoints
    recipe, corpus          everything that decided about the outcome: sections of the recipe,
                            options and inputs of the corpus
    train_command, generate_command, machine, versions

The first eight are needed (of "reason" and "scores" the one that the status calls for); of the
others any may be missing or null. Without "hypotheses" and "references" nothing is said of
significance.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import fairseq

import residual_fairseq

from .errors import UsageError
from .formats import align
from .recipe import flatten

#: What has no effect on the outcome.
WITHOUT_EFFECT = {"recipe.common.log_interval", "recipe.dataset.num_workers"}

#: What may differ between trainings that are compared: what they are compared for, and the above.
FREE_SETTINGS = WITHOUT_EFFECT | {
    "recipe.common.seed",
    "recipe.model.residual_connection",
    "recipe.model.encoder.layers",
    "recipe.model.decoder.layers",
}

#: Compared as a whole: fewer devices make up for it by more of the other.
BATCH_SETTINGS = {"recipe.dataset.max_tokens", "recipe.optimization.update_freq"}


@dataclass(frozen=True)
class Run:
    """What ``result.json`` says of one training.

    Attributes:
        path: of the file.
        failure: why it did not train; None if it did.
        settings: all that should be the same in trainings that are compared, by dotted key.
        others: as in the file.
    """

    path: Path
    benchmark: str
    connection: str
    encoder_layers: int
    decoder_layers: int
    seed: int
    failure: str | None
    parameters: int | None
    scores: Mapping[str, Mapping[str, Mapping[str, Any]]]
    hypotheses: Mapping[str, str]
    references: Mapping[str, str]
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """``post 6+6``."""
        return f"{self.connection} {self.encoder_layers}+{self.decoder_layers}"

    def hypotheses_file(self, test: str) -> Path | None:
        """The translations of a test set, None if there are none."""
        return self._file(self.hypotheses, test)

    def references_file(self, test: str) -> Path | None:
        """The raw reference of a test set, None if it is not there."""
        return self._file(self.references, test)

    def _file(self, names: Mapping[str, str], test: str) -> Path | None:
        if test not in names or not (self.path.parent / names[test]).is_file():
            return None
        return self.path.parent / names[test]


def read_runs(folders: Sequence[str | os.PathLike]) -> list[Run]:
    """Read every ``result.json`` in some folders, however deep; each once.

    Returns:
        them in the order of their paths.

    Raises:
        UsageError: there is none in one of the folders, or it is not as described at the module,
            or two are of the same training.
    """
    paths: dict[Path, Path] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        found = sorted(folder.rglob("result.json"))
        if not found:
            raise UsageError(f"{folder}: no result.json in it; is it the --out of a training?")
        paths.update({path.resolve(): path for path in found})
    runs = [read_run(path) for path in sorted(paths.values())]
    same: dict[tuple, Run] = {}
    for run in runs:
        earlier = same.setdefault((run.benchmark, run.name, run.seed), run)
        if earlier is not run:
            raise UsageError(
                f"{earlier.path} and {run.path} are both {run.name} with seed {run.seed} on "
                f"{run.benchmark}: leave one out"
            )
    return runs


def read_run(path: Path) -> Run:
    """Read one ``result.json``.

    Raises:
        UsageError: it is not as described at the module.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise UsageError(f"{path}: not the result of a training")

    def value(key: str, kind: type) -> Any:
        if not isinstance(content.get(key), kind):
            found = f"{key} is {content[key]!r}" if key in content else f"there is no {key!r}"
            raise UsageError(f"{path}: {found}; made by another version? Remove it and run again")
        return content[key]

    status = value("status", str)
    if status not in ("ok", "failed"):
        raise UsageError(f"{path}: status {status!r} is neither 'ok' nor 'failed'")
    failure = value("reason", str) if status == "failed" else None
    scores = value("scores", dict) if status == "ok" else {}
    for test, by_metric in scores.items():
        for score in by_metric.values() if isinstance(by_metric, dict) else [by_metric]:
            if not isinstance(score, dict) or not {"score", "signature"} <= score.keys():
                raise UsageError(f"{path}: scores of {test}: {score!r} is no score with signature")
    return Run(
        path=path,
        benchmark=value("benchmark", str),
        connection=value("connection", str),
        encoder_layers=value("encoder_layers", int),
        decoder_layers=value("decoder_layers", int),
        seed=value("seed", int),
        failure=failure,
        parameters=content.get("parameters"),
        scores=scores,
        hypotheses=content.get("hypotheses") or {},
        references=content.get("references") or {},
        settings=dict(settings_of(content)),
    )


def settings_of(
    content: Mapping[str, Any], free: Set[str] = FREE_SETTINGS
) -> Iterator[tuple[str, Any]]:
    """The settings that should be the same in trainings that are compared, by dotted key.

    Args:
        content: of a ``result.json``.
        free: those that may differ. So may what the batch is made up of, where its size is said.
    """
    batch = content.get("effective_batch_tokens")
    free = free | (set() if batch is None else BATCH_SETTINGS)
    for key in ("recipe", "corpus"):
        for name, setting in flatten({key: content.get(key) or {}}, "."):
            if name not in free and not name.startswith("recipe.distributed_training."):
                yield name, setting
    for key in ("effective_batch_tokens", "averaged"):
        if key in content:
            yield key, content[key]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file beside ``path`` and rename it into place."""
    path = Path(path)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write a JSON file beside ``path`` and rename it into place."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file; None if there is none.

    Raises:
        UsageError: the file holds something else.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path}: not a JSON file ({error}); delete it and run again") from error


def versions() -> dict[str, str]:
    """The versions of what a result depends on."""
    names = ("torch", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")
    return {
        "python": platform.python_version(),
        "fairseq": fairseq.__version__,
        "residual-fairseq": residual_fairseq.__version__,
        **{name: version(name) for name in names},
    }


def name_of(result: Mapping[str, Any]) -> str:
    """What a training is called in tables and pictures: ``post 6+6``."""
    return f"{result['connection']} {result['encoder_layers']}+{result['decoder_layers']}"


def speed_notes(machines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the words/s of trainings mean.

    Args:
        machines: of each, "machine" of its ``result.json``.
    """
    notes = sorted(
        {
            f"words/s: target units in training, {machine['trainings_at_once']} at once on "
            f"{machine['device']}"
            for machine in machines
        }
    )
    if len(notes) > 1:
        notes.append("words/s: not comparable between trainings of different conditions")
    return notes


def comparison(results: Sequence[Mapping[str, Any]], failures: Mapping[str, str]) -> str:
    """A table of trainings, and below it what its numbers mean.

    Args:
        results: contents of ``result.json``, with the score of the only test set at "bleu" and
            "signature", too.
        failures: why others have none, by what they are called.
    """
    failures = {
        **{name_of(result): result["reason"] for result in results if "reason" in result},
        **failures,
    }
    results = [result for result in results if "reason" not in result]
    rows = [
        [
            *name_of(result).split(),
            f"{result['parameters']:,}",
            f"{result['updates']:,}",
            f"{result['words_per_second'] or 0:,.0f}",
            f"{result['bleu']:.2f}",
        ]
        for result in results
    ]
    rows += [[*name.split(), "", "", "", "failed"] for name in failures]
    columns = ["connection", "depth", "parameters", "updates", "words/s", "sacreBLEU"]
    lines = [align(columns, rows), ""]
    lines += sorted({f"sacreBLEU: {result['signature']}" for result in results})
    lines += speed_notes([result["machine"] for result in results])
    lines += [f"{name} failed: {reason}" for name, reason in failures.items()]
    return "\n".join(lines)
