"""Recipes: what their YAML says, as flags and through Hydra."""

import pytest
import torch
from conftest import PLUGIN, ROOT, fairseq

from residual_fairseq.errors import UsageError
from residual_fairseq.recipe import read_recipe, train_flags

QUICKSTART = ROOT / "configs" / "quickstart.yaml"
RECIPE = """\
common: {seed: 3, fp16: true, amp: false, log_file: null}
task:
  _name: translation
  data: ???
  left_pad_source: true
  left_pad_target: true
model:
  _name: residual_transformer_tiny
  encoder: {layers: 12, learned_pos: true}
  quant_noise: {pq: 0.1}
optimization:
  max_update: 40
  lr: [0.5, 1.0e-03]
  update_freq: [2]
optimizer: {_name: adam, adam_betas: "(0.9, 0.98)"}
lr_scheduler:
  _name: polynomial_decay
  total_num_update: ${optimization.max_update}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_flags(recipe):
    assert train_flags(recipe, {"task.data": "my bin", "optimization.max_update": 50}) == [
        "my bin",
        *("--seed", "3", "--fp16"),
        # On by default, and off with the flag; --left-pad-target is the other way round.
        *("--task", "translation", "--left-pad-target"),
        *("--arch", "residual_transformer_tiny"),
        *("--encoder-layers", "12", "--encoder-learned-pos", "--quant-noise-pq", "0.1"),
        *("--max-update", "50", "--lr", "0.5,0.001", "--update-freq", "2"),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"),
        *("--lr-scheduler", "polynomial_decay", "--total-num-update", "50"),
    ]


def test_boolean_that_is_on_by_default_is_switched_off(recipe):
    flags = train_flags(
        recipe, {"task.data": "bin", "task.left_pad_source": False, "task.left_pad_target": False}
    )
    assert "--left-pad-source" in flags
    assert "--left-pad-target" not in flags


def test_override_adds_what_the_recipe_leaves_out(recipe):
    values = read_recipe(recipe, {"task.data": "bin", "model.decoder.layers": 2})
    assert values["model"]["decoder"] == {"layers": 2}
    assert values["model"]["encoder"] == {"layers": 12, "learned_pos": True}


@pytest.mark.parametrize(
    "text, reason",
    [
        ("task: {data: '???'}", "task.data has to be given"),
        ("model: {encoder: {layers: '???'}}", "model.encoder.layers has to be given"),
        ("task: [", "while parsing"),
        ("- task", "not sections"),
        ("task: translation", "not sections"),
        ("a: {b: '${c.d}'}", "c.d"),
    ],
)
def test_unusable_recipe_is_named_in_one_line(tmp_path, text, reason):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_recipe(path)
    assert str(path) in str(error.value) and reason in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_recipe(tmp_path):
    with pytest.raises(UsageError, match="nothing.yaml: No such file"):
        read_recipe(tmp_path / "nothing.yaml")


@pytest.mark.slow
def test_flags_and_hydra_train_the_same_model(toy_run, tmp_path):
    values = {
        "task.data": str(toy_run.data),
        "common.user_dir": str(PLUGIN),
        "optimization.max_update": 1,
        "model.residual_connection": "pre",
        "model.encoder.layers": 3,
        "model.decoder.layers": 1,
    }
    by_flags = {**values, "checkpoint.save_dir": str(tmp_path / "flags")}
    by_hydra = {**values, "checkpoint.save_dir": str(tmp_path / "hydra")}
    runs = [
        fairseq("train", *train_flags(QUICKSTART, by_flags)),
        fairseq(
            "hydra-train",
            *("--config-dir", QUICKSTART.parent, "--config-name", QUICKSTART.stem),
            *(f"{key}={value}" for key, value in by_hydra.items()),
            f"hydra.run.dir={tmp_path}",
        ),
    ]
    for run in runs:
        assert run.returncode == 0, run.stderr[-2000:]
    flags, hydra = (
        torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("flags", "hydra")
    )
    assert list(flags["model"]) == list(hydra["model"])
    for name, parameter in flags["model"].items():
        # fairseq 0.12.2 keeps a tensor that it never gives a value, for its type and device.
        if name.endswith("_float_tensor"):
            continue
        torch.testing.assert_close(hydra["model"][name], parameter, rtol=0, atol=0, msg=name)
    for section in ("optimizer", "lr_scheduler", "criterion", "optimization", "dataset"):
        assert flags["cfg"][section] == hydra["cfg"][section]
    groups = [run["last_optimizer_state"]["param_groups"] for run in (flags, hydra)]
    assert groups[0] == groups[1]
