"""docs/connections.md says what the code does, and what was measured."""

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
