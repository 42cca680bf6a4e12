"""`residual-analyze`: what it writes, and what it refuses in one line."""

import json
import shutil

import pytest
import torch
import toy
from conftest import fairseq
from PIL import Image

from residual_fairseq import ResidualTransformerModel
from residual_fairseq.analysis.command import main
from residual_fairseq.analysis.data import DataBin
from residual_fairseq.analysis.models import WITHOUT_NOISE
from residual_fairseq.errors import UsageError

SMALL = ["--arch", "residual_transformer_tiny", "--set", "encoder.embed_dim=16"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("analysis", "pictures"),
    [
        ("gradients", ["gradients-decoder", "gradients-encoder"]),
        ("representations", ["representations-decoder", "representations-encoder"]),
        ("adam", ["adam-decoder-1", "adam-encoder-1"]),
    ],
)
def test_writes_numbers_and_pictures(toy_run, tmp_path, capsys, analysis, pictures):
    flags = [analysis, "--data", str(toy_run.data), "--out", str(tmp_path / "out")]
    flags += ["--scales", "1"] if analysis == "adam" else []
    main([*flags, "--connections", "post residual", "--depths", "1 3x2", *SMALL])
    shown = capsys.readouterr().out
    written = json.loads((tmp_path / "out" / f"{analysis}.json").read_text())
    assert [p["file"] for p in written["pictures"]] == [f"{n}.png" for n in sorted(pictures)[::-1]]
    labels = ["post 1+1", "post 3+2", "residual 1+1", "residual 3+2"]
    numbers = written["numbers"]["1"] if analysis == "adam" else written["numbers"]
    assert list(numbers) == labels
    layers = numbers["post 3+2"]["encoder"]
    curve = {
        "gradients": lambda: layers["attention"]["mean"],
        "representations": lambda: layers["stream"]["update"],
        "adam": lambda: layers["update"],
    }[analysis]()
    assert len(curve) == 3 and all(value > 0 for value in curve)
    for picture in written["pictures"]:
        image = Image.open(tmp_path / "out" / picture["file"])
        assert image.text["Command"] == written["command"]
        assert written["command"].startswith(f"residual-analyze {analysis} --data ")
        assert picture["file"] in shown
    for label in labels:
        assert label in shown


@pytest.mark.slow
def test_checkpoints_are_looked_at(toy_run, tmp_path, capsys):
    best = toy_run.save / "checkpoint_best.pt"
    last = toy_run.save / "checkpoint_last.pt"
    flags = ["--data", str(toy_run.data), "--out", str(tmp_path), "--checkpoints"]
    main(["gradients", *flags, str(best), str(last)])
    numbers = json.loads((tmp_path / "gradients.json").read_text())["numbers"]
    assert list(numbers) == [f"residual 1+1 {best}", f"residual 1+1 {last}"]
    assert "of checkpoints" in capsys.readouterr().out


@pytest.mark.slow
def test_trainability(toy_run, tmp_path, capsys):
    flags = ["trainability", "--data", str(toy_run.data), "--out", str(tmp_path), *SMALL]
    flags += ["--connections", "post pre", "--depths", "1", "--warmups", "0 5"]
    main([*flags, "--updates", "40"])
    shown = capsys.readouterr().out
    written = json.loads((tmp_path / "trainability.json").read_text())["numbers"]
    assert written["unigram_bits"] == pytest.approx(DataBin(toy_run.data).unigram_bits())
    assert len(written["trials"]) == 4
    for trial in written["trials"]:
        assert list(trial["valid"]) == [str(update) for update in range(4, 41, 4)]
        losses = list(trial["valid"].values())
        assert losses[-1] < losses[0]
        assert trial["failed"] == (losses[-1] > written["unigram_bits"] - 0.1)
    assert "4 of 4 done" in shown and "1+1, no warm-up" in shown and "1+1, warm-up 5" in shown
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "trainability").iterdir()}
    assert len(times) == 4
    main([*flags, "--updates", "40"])
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


@pytest.mark.slow
def test_trainability_of_another_text_begins_anew(toy_run, tmp_path):
    shutil.copytree(toy_run.data, tmp_path / "bin")
    flags = ["trainability", "--data", str(tmp_path / "bin"), "--out", str(tmp_path), *SMALL]
    flags += ["--connections", "post", "--depths", "1", "--warmups", "0", "--updates", "2"]

    def losses():
        main(flags)
        (trial,) = json.loads((tmp_path / "trainability.json").read_text())["numbers"]["trials"]
        return trial["valid"]

    first = losses()
    for suffix in ("bin", "idx"):
        for lang in ("de", "en"):
            name = f"de-en.{lang}.{suffix}"
            shutil.copy(tmp_path / "bin" / f"valid.{name}", tmp_path / "bin" / f"train.{name}")
    assert losses() != first


@pytest.mark.slow
def test_narrow_only_by_default(toy_run, tmp_path):
    """Another architecture has its own width, and a width that is asked for is had."""
    flags = ["trainability", "--data", str(toy_run.data), "--out", str(tmp_path)]
    flags += ["--connections", "post", "--depths", "1", "--warmups", "0", "--updates", "1"]
    for more, values in (
        ([], {"encoder.embed_dim": 64, "encoder.ffn_embed_dim": 128}),
        (
            ["--set", "encoder.embed_dim=16"],
            {"encoder.embed_dim": 16, "encoder.ffn_embed_dim": 128},
        ),
        (["--arch", "residual_transformer_iwslt_de_en"], {}),
    ):
        main([*flags, *more])
        (path,) = (tmp_path / "trainability").iterdir()
        assert json.loads(path.read_text())["settings"]["values"] == values


@pytest.mark.slow
def test_a_few_batches_are_not_the_shortest(toy_run):
    data = DataBin(toy_run.data)
    whole = [batch["net_input"]["src_tokens"].size(1) for batch in data.once("train", 20)]
    few = [batch["net_input"]["src_tokens"].size(1) for batch in data.once("train", 20, 5)]
    assert len(few) == 5 < len(whole) and whole == sorted(whole) and few != whole[:5]
    assert few == [b["net_input"]["src_tokens"].size(1) for b in data.once("train", 20, 5)]
    assert len(list(data.once("train", 20, 1000))) == len(whole)


@pytest.mark.slow
def test_entropy_of_the_units(toy_run):
    """As the text has it: words and ends of sentences."""
    counts: dict = {}
    for line in (toy_run.data.parent / "train.en").read_text().split("\n")[:-1]:
        for word in [*line.split(), "</s>"]:
            counts[word] = counts.get(word, 0) + 1
    shares = torch.tensor(list(counts.values())).double() / sum(counts.values())
    assert DataBin(toy_run.data).unigram_bits() == pytest.approx(-(shares @ shares.log2()).item())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--connections", "post nosuch"], "--connections 'post nosuch': give some of .*residual"),
        (["--connections", ""], "--connections"),
        (["--depths", "0"], "--depths '0': 0 is no depth"),
        (["--depths", "6x"], "6x is no depth"),
        (["--depths", " "], "--depths is empty"),
        (["--split", "test"], "has no split test"),
        (["--set", "nosuch=1"], "unknown key model.nosuch"),
        (["--set", "encoder.embed_dim"], "write KEY=VALUE"),
        (["--set", "encoder.layers=3"], "--set encoder.layers=3: say it by --depths"),
        (["--set", "residual_connection=pre"], "say it by --connections"),
        (["--set", "encoder=3"], "encoder.KEY=VALUE"),
        (["--set", "dropout=abc"], "model.dropout has to be a number, not 'abc'"),
        (["--set", "dropout=[1"], "is no value of a YAML"),
        (["--arch", "nosuch"], "--arch nosuch: give one of residual_transformer "),
        (["--arch", "transformer"], "--arch transformer: give one of"),
        (["--checkpoints", "nowhere.pt"], "nowhere.pt can't be read"),
        (["--checkpoints", "nowhere.pt", "--depths", "3"], "--depths is for new models"),
        (["--batches", "0"], "--batches has to be a number above 0"),
        (["--max-tokens", "0"], "--max-tokens has to be a number above 0"),
        (["--max-tokens", "2"], "--max-tokens 2: the longest pair of .*valid, has . tokens"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_line(toy_run, tmp_path, flags, said):
    with pytest.raises(UsageError, match=said) as refused:
        main(["gradients", "--data", str(toy_run.data), "--out", str(tmp_path / "out"), *flags])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["adam", "--scales", "1 nan"], "--scales '1 nan': write numbers above 0"),
        (["adam", "--eps", "nan"], "--eps has to be a number above 0"),
        (["trainability", "--lr", "nan"], "--lr has to be a number above 0"),
        (["trainability", "--lr", "inf"], "--lr has to be a number above 0"),
    ],
    ids=" ".join,
)
def test_numbers_that_are_none(toy_run, tmp_path, flags, said):
    with pytest.raises(UsageError, match=said):
        main([*flags, "--data", str(toy_run.data), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_nowhere_to_write_to(tmp_path, place):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match=f"--out .*{place}: .*file: Not a directory"):
        main(["gradients", "--data", "nowhere", "--out", str(tmp_path / place)])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_data_that_is_none(toy_run, tmp_path):
    def refused(path, said, *flags):
        with pytest.raises(UsageError, match=said):
            main(["representations", "--data", str(path), "--out", str(tmp_path / "out"), *flags])

    refused(tmp_path / "nowhere", "nowhere: no such folder")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no data-bin of two languages")
    shutil.copytree(toy_run.data, tmp_path / "bin")
    (tmp_path / "bin" / "dict.en.txt").unlink()
    refused(tmp_path / "bin", "has no dict.en.txt")
    for lang in ("de", "en"):
        (tmp_path / "bin" / f"dict.{lang}.txt").write_text("a 1\nb 1\n")
    flags = ["--checkpoints", str(toy_run.save / "checkpoint_best.pt")]
    refused(tmp_path / "bin", "its encoder knows .* symbols, the dictionary of .* has 6", *flags)


@pytest.mark.slow
def test_split_of_no_lines(toy_run, tmp_path):
    """As fairseq-preprocess makes one of empty files."""
    for lang in ("de", "en"):
        (tmp_path / f"valid.{lang}").write_text("")
    process = fairseq(
        "preprocess", "-s", "de", "-t", "en", "--workers", 1, "--validpref", tmp_path / "valid",
        "--srcdict", toy_run.data / "dict.de.txt", "--tgtdict", toy_run.data / "dict.en.txt",
        "--destdir", tmp_path / "bin",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    with pytest.raises(UsageError, match="its split valid is empty"):
        main(["gradients", "--data", str(tmp_path / "bin"), "--out", str(tmp_path / "out")])


@pytest.mark.slow
def test_a_new_model_has_been_measured(toy_run, tmp_path):
    """Before that, Admin would be Post-LN; and ReZero has no gradient below its branches."""
    flags = ["--data", str(toy_run.data), "--out", str(tmp_path), "--depths", "2", *SMALL]
    main(["representations", *flags, "--connections", "post admin"])
    numbers = json.loads((tmp_path / "representations.json").read_text())["numbers"]
    assert numbers["post 2+2"] != numbers["admin 2+2"]
    main(["gradients", *flags, "--connections", "rezero"])
    assert "NaN" not in (tmp_path / "gradients.json").read_text()


def test_what_is_random_in_training_is_left_out():
    values = {"word_dropout": 0.2, "word_replacement": 0.1, "word_replacement_decay": 50.0}
    args = toy.arguments(dropout=0.3, encoder_layerdrop=0.2, **values)
    vars(args).update(WITHOUT_NOISE)
    assert ResidualTransformerModel.build_model(args, toy.TASK).cfg.word_replacement == 0


@pytest.mark.slow
def test_empty_split(toy_run, monkeypatch):
    data = DataBin(toy_run.data)
    data.task.datasets["test"] = []
    with pytest.raises(UsageError, match="its split test is empty"):
        next(data.batches("test", 100))


def test_a_loss_that_is_not_a_number_has_failed():
    from residual_fairseq.analysis.trainability import cell, failed

    assert failed({"4": 7.0, "8": None}, 8.0) and failed({"4": 7.95}, 8.0)
    assert not failed({"4": 9.0, "8": 7.8}, 8.0)
    assert cell([float("nan")]) == "failed" and cell([5.0, 6.0]) == "5.50"
    assert cell([5.0, float("nan"), 6.0]) == "5.50 (1 of 3 failed)"
