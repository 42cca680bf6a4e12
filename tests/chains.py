"""Runs of `scripts.reproduce` from an archive to a table, with models that train in seconds."""

import json
import os
import re
import subprocess
import sys

from conftest import ROOT

from residual_fairseq.scoring import read_lines, score
from residual_fairseq.significance import metric_of

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
}

#: A model and a schedule small enough to learn something in seconds.
SMALL = [
    "model.encoder.embed_dim=32",
    "model.encoder.ffn_embed_dim=64",
    "model.encoder.attention_heads=2",
    "model.decoder.attention_heads=2",
    "model.dropout=0",
    "dataset.max_tokens=1000",
    "dataset.num_workers=0",
    "optimization.update_freq=[1]",
    "optimization.lr=[0.005]",
    "lr_scheduler.warmup_updates=30",
    "common.log_interval=10",
]


def run(benchmark, *arguments):
    settings = [flag for value in SMALL for flag in ("--set", value)]
    return subprocess.run(
        [sys.executable, "-m", "scripts.reproduce", benchmark, *settings, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


def check_chain(benchmark, archive, out, *arguments):
    """Two connections at two depths, to a table; then all of it again, which does nothing.

    Returns:
        the contents of ``result.json``, and of those of trainings that learned something.
    """
    arguments = (
        *("--archive", archive, "--out", out, "--connections", "post residual"),
        *("--depths", "1 1x2", "--updates", "150", "--average", "2", *arguments),
    )
    first = run(benchmark, *arguments)
    assert first.returncode == 0, first.stderr[-3000:]
    results = [json.loads(path.read_text()) for path in sorted(out.glob("runs/*/result.json"))]
    assert [(r["connection"], r["encoder_layers"], r["decoder_layers"]) for r in results] == [
        ("post", 1, 1),
        ("post", 1, 2),
        ("residual", 1, 1),
        ("residual", 1, 2),
    ]
    for result in results:
        row = rf"^{result['connection']} +{result['encoder_layers']}\+{result['decoder_layers']} "
        table = first.stdout[first.stdout.index("\nconnection ") :]
        cells = re.search(row + "(.*)$", table, re.M).group(1)
        assert f"{result['parameters']:,}" in cells
        if result["status"] == "ok":
            assert all(f"{s['bleu']['score']:.2f}" in cells for s in result["scores"].values())
            assert result["scores"][next(iter(result["scores"]))]["chrf"]["score"] > 0
            assert result["signature"] in first.stdout
        else:
            assert "failed" in cells
    trained = [result for result in results if result["status"] == "ok"]
    assert trained, [result["reason"] for result in results]
    assert (out / "results.md").read_text().count("|") > 20
    assert (out / "results.tex").exists() and (out / "results.csv").exists()
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/**/*") if path.is_file()}
    second = run(benchmark, *arguments)
    assert second.returncode == 0, second.stderr[-3000:]
    assert second.stdout.count("reused") >= 5
    assert {p: p.stat().st_mtime_ns for p in out.glob("runs/**/*") if p.is_file()} == before
    assert first.stdout[first.stdout.index("\nconnection ") :] in second.stdout
    return results, trained


def check_order(out, results, test):
    """The best of some trainings translates each sentence, and not another one's neighbour.

    What a model this small writes resembles every sentence of its corpus. So translations that
    are one line off set the mark, and not a fixed number.
    """
    best = max(results, key=lambda result: result["scores"][test]["bleu"]["score"])
    folder = out / "runs" / folder_of(best)
    hypotheses = read_lines(folder / best["hypotheses"][test])
    references = read_lines(folder / best["references"][test])
    shifted = hypotheses[1:] + hypotheses[:1]
    tool = metric_of("bleu", best["scores"][test]["bleu"]["signature"])
    assert score(tool, hypotheses, references) == best["scores"][test]["bleu"]
    off = score(tool, shifted, references)["score"]
    assert best["scores"][test]["bleu"]["score"] > off + 10, (best["scores"][test]["bleu"], off)


def folder_of(result):
    depth = f"{result['encoder_layers']}x{result['decoder_layers']}"
    return f"{result['connection']}-{depth}-seed{result['seed']}"
