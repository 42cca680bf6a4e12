"""The commands that docs/reproduce.md shows are commands that there are."""

import importlib
import re
import shlex

import pytest
from conftest import ROOT

from residual_fairseq import report
from scripts import reproduce, run

TEXT = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
BLOCKS = [
    block.replace("\\\n", " ").strip().split("\n")
    for block in re.findall(r"^```bash\n(.*?)^```$", TEXT, re.M | re.S)
]

#: Commands that are not ours, and the set-up, which other tests do.
OTHERS = ("grep", "bash scripts/setup.sh && . .venv/bin/activate")


def module_of(script):
    """The module that a shell script runs, and the arguments that it gives to it itself."""
    command = re.search(r"^exec .* -m (.*) \"\$@\"$", (ROOT / script).read_text(), re.M).group(1)
    name, *arguments = command.split()
    return importlib.import_module(name), arguments


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0][:70])
def test_commands(block, monkeypatch, capsys):
    """Each is done as far as it can be without its data, on a machine with eight GPUs."""
    prepared = {}

    def read_record(corpus):
        # Prepared by a line above, or by a reproduction of the name in results/NAME/corpus.
        name = corpus.name if corpus.name in prepared else corpus.parent.name
        return prepared.get(name) or module_of(f"data_prep/{name}.sh")[0].plan([])

    for module in (reproduce, run):
        monkeypatch.setattr(module, "read_record", read_record)
    monkeypatch.setattr(reproduce.torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(report, "read_runs", lambda folders: [])
    for line in filter(None, (f" {line}".partition(" #")[0].strip() for line in block)):
        if line.startswith(OTHERS):
            continue
        first, *arguments = shlex.split(line)
        if first == "residual-results":
            report.main(arguments)
            continue
        module, given = module_of(arguments[0])
        arguments = [*given, *arguments[1:]]
        if hasattr(module, "plan"):
            record = module.plan(arguments)
            prepared[module.parse(arguments).out.name] = record
        else:
            module.main([*arguments, "--dry-run"])
            assert "fairseq_cli.train" in capsys.readouterr().out


def test_every_benchmark_is_shown():
    shown = {word for block in BLOCKS for line in block for word in line.split()}
    scripts = {f"scripts/{path.name}" for path in (ROOT / "scripts").glob("reproduce-*.sh")}
    assert scripts <= shown
