"""docs/connections.md and docs/findings.md say what the code does, and what was measured."""

import inspect
import json
import re

import pytest
import toy
from conftest import ROOT

from residual_fairseq import REGISTRY

MEASURED = json.loads((ROOT / "benchmarks" / "train_step.json").read_text())


def rows():
    """The cells of each connection's row by the name of their column."""
    lines = (ROOT / "docs" / "connections.md").read_text().split("\n")
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    header, _, *body = [[cell.strip(" |") for cell in row] for row in table]
    return {row[0].strip("`"): dict(zip(header, row)) for row in body}


ROWS = rows()


def test_every_connection_has_a_row():
    assert set(ROWS) == set(REGISTRY)


@pytest.mark.parametrize("connection", REGISTRY)
def test_row(connection):
    row = ROWS[connection]
    source = inspect.getsource(inspect.getmodule(REGISTRY[connection]))
    arxiv = re.search(r"\[([\d.]+)\]\(https://arxiv.org/abs/\1\)", row["method"])
    assert (arxiv.group(1) if arxiv else "ICML") in source
    ratio = MEASURED["ratios"][connection]
    assert row["time"] == f"{ratio['time']:.2f}"
    assert row["memory"] == f"{ratio['memory']:.2f}"
    sizes = {"N": 3, "M": 2, "d": 32, "f": 64, "h": 4, "n": 4}

    def count(name):
        model = toy.model(name, encoder_layers=3, decoder_layers=2)
        return sum(parameter.numel() for parameter in model.parameters())

    formula = row["beyond Post-LN"].strip("`")
    assert eval(formula, sizes) == count(connection) - count("post")


def test_settings_of_the_measurement():
    text = " ".join((ROOT / "docs" / "connections.md").read_text().split())
    assert MEASURED["baseline"] == "post"
    assert MEASURED["settings"] in text


def findings(name):
    return json.loads((ROOT / "docs" / "findings" / f"{name}.json").read_text())


def cells(row):
    return [cell.strip(" *|") for cell in row.split(" | ")]


def test_findings_are_those_of_the_files_beside_them():
    text = (ROOT / "docs" / "findings.md").read_text()
    rows = [cells(line) for line in text.split("\n") if line.startswith("| ")]

    def same(cell, value):
        return abs(float(cell) - value) < 0.51 * 10 ** -len(cell.partition(".")[2])

    for label, stacks in findings("gradients")["numbers"].items():
        (row,) = [row for row in rows if row[0] == label and len(row) == 5]
        found = [stacks[s][p]["last_by_first"] for s in stacks for p in ("attention", "ffn")]
        assert all(map(same, row[1:], found)), row
    for label, stacks in findings("representations")["numbers"].items():
        for stack, parts in stacks.items():
            (row,) = [row for row in rows if (row[0].split(",")[0], row[1]) == (label, stack)]
            measures = {**parts["self_attn"], **parts["stream"]}
            names = ("cosine_next", "cosine_last", "cka_next", "cka_last", "update")
            found = [sum(measures[name]) / len(measures[name]) for name in names]
            assert all(map(same, row[2:], found)), row
    for scale, column in (("1", 2), ("1e-06", 3)):
        for label, stacks in findings("adam")["numbers"][scale].items():
            for row in rows:
                if row[0] == label and len(row) == 4:
                    update = stacks["decoder"]["update"]
                    assert same(row[column], update[-1] / update[0]), row
    for row in findings("trainability")["tables"][0]["rows"]:
        assert row in rows
