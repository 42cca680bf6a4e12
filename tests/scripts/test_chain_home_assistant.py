"""Home Assistant from its wheel to a table."""

import json
import zipfile

import pytest
from chains import check_chain

from data_prep.embedded import generate


def write_home_assistant(path):
    """A wheel with the texts of some components."""
    pairs = [pair for split in generate(("en", "de"), train=900, seed=4).values() for pair in split]
    with zipfile.ZipFile(path, "w") as wheel:
        for number in range(60):
            block = pairs[number * 15 : number * 15 + 15]
            for side, lang in enumerate(("en", "de")):
                texts = {f"key{i}": pair[side] for i, pair in enumerate(block)}
                name = f"homeassistant/components/made{number}/translations/{lang}.json"
                wheel.writestr(name, json.dumps({"title": f"Made {number}", "state": texts}))
    return path


@pytest.mark.slow
def test_home_assistant(tmp_path):
    results, _ = check_chain(
        "home_assistant", write_home_assistant(tmp_path / "ha.whl"), tmp_path / "out"
    )
    assert {result["benchmark"] for result in results} == {"home_assistant de-en"}
