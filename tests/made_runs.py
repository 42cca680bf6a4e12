"""Result files of trainings that never were, with translations as bad as one likes."""

import json
import random
from pathlib import Path

from residual_fairseq.scoring import scores

WORDS = (
    "a the small old green house tree dog cat bird runs sleeps sings eats sees and or but".split()
)


def sentences(count, seed=0):
    """Sentences of words drawn at random."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(5, 15))) for _ in range(count)]


def translations(references, errors, seed):
    """The references, with a share of the words replaced."""
    generator = random.Random(seed)
    return [
        " ".join("x" if generator.random() < errors else word for word in line.split())
        for line in references
    ]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_run(folder, connection, depth=(6, 6), seed=1, status="ok", **others):
    """Write ``result.json``; what is not given is missing, or as good as anything."""
    folder = Path(folder) / f"{connection}-{depth[0]}x{depth[1]}-{seed}"
    folder.mkdir(parents=True)
    result = {
        "benchmark": "made",
        "connection": connection,
        "encoder_layers": depth[0],
        "decoder_layers": depth[1],
        "seed": seed,
        "status": status,
        "parameters": 1234567,
        "effective_batch_tokens": 4096,
        "averaged": 10,
        "recipe": {
            "common": {"seed": seed},
            "model": {
                "residual_connection": connection,
                "encoder": {"layers": depth[0]},
                "decoder": {"layers": depth[1]},
            },
            "optimization": {"lr": [0.001], "update_freq": [2]},
        },
        "corpus": {"options": {"lowercase": False}, "inputs": {"train.en": "abc"}},
        **others,
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder / "result.json"


def scored(tests, signature="tok:13a", metric="bleu"):
    """``scores`` of a result: by test set a number."""
    return {test: {metric: {"score": n, "signature": signature}} for test, n in tests.items()}


def write_translated_run(folder, connection, errors, tests=("one",), seed=1, **others):
    """Write a result with translations and references that really have its scores."""
    files, found = {}, {}
    for place, test in enumerate(tests):
        references = sentences(60, seed=place)
        hypotheses = translations(references, errors, seed=100 * seed + place)
        files[test] = hypotheses, references
        found[test] = scores(hypotheses, references, "en")
    path = write_run(
        folder,
        connection,
        seed=seed,
        scores=found,
        hypotheses={test: f"{test}.en" for test in tests},
        references={test: f"{test}.reference" for test in tests},
        **others,
    )
    for test, (hypotheses, references) in files.items():
        write_lines(path.parent / f"{test}.en", hypotheses)
        write_lines(path.parent / f"{test}.reference", references)
    return path
