"""What the README shows is true."""

import re

import pytest
from conftest import ROOT, fairseq
from test_commands import MODEL, TRAINING, bleu

from residual_fairseq import REGISTRY
from residual_fairseq.models.architectures import SIZES
from residual_fairseq.models.config import BaseConfig, config_class

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_connection_that_the_readme_adds(toy_run, tmp_path):
    example = re.search(r"## Add a connection.*?```python\n(.*?)```", README, re.S).group(1)
    plugin = tmp_path / "mine"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(example)
    flags = [flag for flag in MODEL]
    process = fairseq(
        "train", toy_run.data, "--user-dir", plugin, *flags, *TRAINING,
        "--residual-connection", "sandwich", "--save-dir", tmp_path / "save", "--max-update", 2,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    process = fairseq(
        "generate", toy_run.data, "--user-dir", plugin, "--gen-subset", "train", "--cpu",
        "--path", tmp_path / "save" / "checkpoint_last.pt",
    )  # fmt: skip
    bleu(process)


def test_names_everything_that_there_is():
    for name in [*REGISTRY, *SIZES]:
        assert f"`{name}`" in README
    ours = set(config_class().__dataclass_fields__) - set(
        BaseConfig.__mro__[1].__dataclass_fields__
    )
    for field in ours:
        assert f"--{field.replace('_', '-')}" in README
