"""The model in fairseq's own commands, from data-bin to BLEU."""

import errno
import re
import sys
from types import SimpleNamespace

import pytest
import torch
from conftest import ROOT, fairseq

from residual_fairseq import ResidualTransformerModel
from residual_fairseq.errors import shorten_file_errors

PLUGIN = ["--user-dir", ROOT / "residual_fairseq"]
MODEL = (
    "--arch residual_transformer --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64"
    " --encoder-ffn-embed-dim 128 --encoder-attention-heads 4 --decoder-attention-heads 4"
    " --share-all-embeddings --dropout 0"
).split()
TRAINING = (
    "--optimizer adam --lr 0.003 --lr-scheduler polynomial_decay --warmup-updates 50"
    " --total-num-update 300 --max-tokens 1000 --num-workers 0 --cpu --no-progress-bar --seed 1"
    " --no-epoch-checkpoints --disable-validation"
).split()


#: The others learn the same in tests/models, in one process each, which is far quicker.
CONNECTIONS = ("post", "pre", "residual")


def train(run, save, *flags, updates=300, model=MODEL):
    return fairseq(
        "train", run.data, *PLUGIN, *model, *TRAINING, "--save-dir", save,
        "--max-update", updates, "--save-interval", 1000, *flags,
    )  # fmt: skip


def generate(run, path, *flags):
    """Translates the training set greedily.

    fairseq's beam search ends a sentence with its fifth finished hypothesis, be there a better one
    unfinished: of a model this sure of itself those may all be worse.
    """
    return fairseq(
        "generate", run.data, *PLUGIN, "--path", path, "--gen-subset", "train", "--cpu",
        "--batch-size", 16, "--beam", 1, *flags,
    )  # fmt: skip


def said(process):
    """All output of a command; where fairseq logs to differs between its versions."""
    return process.stdout + process.stderr


def bleu(process):
    assert process.returncode == 0, process.stderr[-2000:]
    assert len(re.findall("^H-", process.stdout, re.M)) == 50
    return float(re.search(r"BLEU4 = ([\d.]+)", process.stdout).group(1))


def one_line(process):
    """The line that a refused command prints to stderr besides fairseq's log."""
    assert process.returncode != 0
    assert "Traceback" not in process.stderr
    lines = [line for line in process.stderr.split("\n") if line.startswith("residual_fairseq: ")]
    assert len(lines) == 1, process.stderr[-2000:]
    return lines[0]


@pytest.fixture(scope="session")
def overfitted(toy_run, tmp_path_factory):
    """The checkpoint of each connection, trained until it knows the 50 pairs by heart."""
    paths = {}
    for connection in CONNECTIONS:
        save = tmp_path_factory.mktemp(connection)
        process = train(toy_run, save, "--residual-connection", connection)
        assert process.returncode == 0, process.stderr[-2000:]
        paths[connection] = save / "checkpoint_last.pt"
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("connection", CONNECTIONS)
def test_overfits_fifty_pairs(toy_run, overfitted, connection):
    assert bleu(generate(toy_run, overfitted[connection])) == 100


@pytest.mark.slow
def test_ensemble_of_connections(toy_run, overfitted):
    path = ":".join(str(overfitted[connection]) for connection in CONNECTIONS)
    assert bleu(generate(toy_run, path)) == 100


@pytest.mark.slow
def test_alignments_and_prefix_tokens(toy_run, overfitted):
    process = generate(
        toy_run, overfitted["residual"], "--print-alignment", "--prefix-size", 1
    )  # fmt: skip
    assert bleu(process) == 100
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", process.stdout, re.M))
    alignments = dict(re.findall(r"^A-(\d+)\t(.*)$", process.stdout, re.M))
    assert hypotheses.keys() == alignments.keys()
    for number, words in hypotheses.items():
        # One pair of positions a word, and perhaps one for the end of the sentence.
        assert len(alignments[number].split()) - len(words.split()) in (0, 1)


@pytest.mark.slow
def test_interactive_and_validate(toy_run, overfitted, tmp_path):
    sentence = tmp_path / "input.de"
    sentence.write_text("a b c\n")
    process = fairseq(
        "interactive", toy_run.data, *PLUGIN, "--path", overfitted["pre"], "--cpu",
        "--beam", 5, "--input", sentence,
    )  # fmt: skip
    assert re.search(r"^H-0\t", process.stdout, re.M), process.stderr[-2000:]
    process = fairseq(
        "validate", toy_run.data, *PLUGIN, "--path", overfitted["post"], "--cpu",
        "--task", "translation", "--valid-subset", "train", "--max-tokens", 1000,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    assert float(re.search(r"\| loss ([\d.]+)", said(process)).group(1)) < 0.5


@pytest.mark.slow
def test_score(toy_run, overfitted, tmp_path):
    process = generate(toy_run, overfitted["residual"])
    files = []
    for kind in ("D", "T"):
        # A hypothesis has its score before its words.
        lines = re.findall(rf"^{kind}-\d+(?:\t-?[\d.]+)?\t(.*)$", process.stdout, re.M)
        files.append(tmp_path / kind)
        files[-1].write_text("".join(f"{line}\n" for line in lines))
    scored = fairseq("score", "--sys", files[0], "--ref", files[1])
    assert scored.returncode == 0, scored.stderr[-2000:]
    assert "BLEU4 = 100.00" in scored.stdout


@pytest.mark.slow
def test_from_pretrained(toy_run, overfitted):
    hub = ResidualTransformerModel.from_pretrained(
        str(overfitted["residual"].parent), "checkpoint_last.pt", str(toy_run.data)
    )
    sources, targets = (
        (toy_run.data.parent / f"train.{language}").read_text().split("\n")[:3]
        for language in ("de", "en")
    )
    assert hub.translate(sources, beam=1) == targets
    assert hub.models[0].cfg.residual_connection == "residual"


@pytest.mark.slow
@pytest.mark.parametrize(
    "precision", [[], ["--fp16"], ["--memory-efficient-fp16"]], ids=lambda flags: "".join(flags)
)
def test_what_was_measured_first_is_kept_on_resume(toy_run, tmp_path, precision):
    """fairseq's commands make Admin measure in the first update, and never again."""
    flags = ["--residual-connection", "admin", "--save-interval-updates", 1, *precision]
    found = []
    for updates in (1, 3):
        process = train(toy_run, tmp_path, *flags, updates=updates)
        assert process.returncode == 0, process.stderr[-2000:]
        checkpoint = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["model"]
        found.append({n: float(v) for n, v in checkpoint.items() if n.endswith("omega_0")})
    assert found[0] == found[1]
    assert len(set(found[0].values())) > 5
    assert any(v.any() for n, v in checkpoint.items() if n.endswith("delta"))


@pytest.mark.slow
def test_eval_bleu_and_resume(toy_run, tmp_path):
    flags = [
        "--eval-bleu", "--eval-bleu-args", '{"beam": 2}', "--best-checkpoint-metric", "bleu",
        "--maximize-best-checkpoint-metric",
    ]  # fmt: skip
    validated = [flag for flag in TRAINING if flag != "--disable-validation"]
    command = ["train", toy_run.data, *PLUGIN, *MODEL, *validated, *flags, "--save-dir", tmp_path]
    first = fairseq(*command, "--max-update", 2)
    assert first.returncode == 0, first.stderr[-2000:]
    resumed = fairseq(*command, "--max-update", 4)
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert re.search(r"Loaded checkpoint .*@ 2 updates", said(resumed))
    assert "num_updates 4" in said(resumed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ["--encoder-layerdrop", "0.2", "--decoder-layerdrop", "0.2"],
        ["--checkpoint-activations"],
        ["--quant-noise-pq", "0.1", "--quant-noise-pq-block-size", "4"],
        ["--activation-fn", "gelu", "--scale-attn", "--scale-heads", "--scale-fc"],
        ["--scale-resids", "--residual-connection", "post"],
        ["--fp16"],
        ["--memory-efficient-fp16"],
        ["--bf16"],
        ["--amp"],
        ["--store-ema", "--ema-decay", "0.9"],
    ],
    ids=lambda flags: flags[0],
)
def test_flags_train_and_generate(toy_run, tmp_path, flags):
    process = train(toy_run, tmp_path, *flags, updates=2)
    assert process.returncode == 0, process.stderr[-2000:]
    bleu(generate(toy_run, tmp_path / "checkpoint_last.pt"))


@pytest.mark.slow
def test_shared_decoder_embeddings_train_and_generate(toy_run, tmp_path):
    model = [flag for flag in MODEL if flag != "--share-all-embeddings"]
    flag = "--share-decoder-input-output-embed"
    process = train(toy_run, tmp_path, flag, updates=2, model=model)
    assert process.returncode == 0, process.stderr[-2000:]
    bleu(generate(toy_run, tmp_path / "checkpoint_last.pt"))


@pytest.mark.slow
def test_pruned_layers(toy_run, overfitted):
    overrides = "{'encoder_layers_to_keep': '0', 'decoder_layers_to_keep': '0,1'}"
    process = generate(toy_run, overfitted["residual"], "--model-overrides", overrides)
    assert bleu(process) < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--residual-connection", "nosuch"], "post, pre, realformer, residual"),
        (["--encoder-attention-heads", "5"], "--encoder-embed-dim 64 is not divisible"),
        (["--encoder-normalize-before"], "--residual-connection pre"),
        (["--no-decoder-final-norm"], "only for: normformer, pre"),
        (["--decoder-embed-dim", "32"], "--share-all-embeddings"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_flags(toy_run, tmp_path, flags, said):
    assert said in one_line(train(toy_run, tmp_path, *flags))


def test_only_files_are_reported_in_one_line(capsys, monkeypatch):
    """What else goes wrong within a command, a full disk for instance, keeps its traceback."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    shorten_file_errors()
    for number, shortened in ((errno.ENOENT, True), (errno.EACCES, True), (errno.ENOSPC, False)):
        for program, within in (("fairseq_cli/train.py", True), ("elsewhere.py", False)):
            code = compile("raise OSError(number, 'said', 'data-bin')", program, "exec")
            try:
                exec(code, {"number": number})
            except OSError as error:
                sys.excepthook(type(error), error, error.__traceback__)
            said = capsys.readouterr().err
            assert ("Traceback" not in said) is (shortened and within)
            assert "said: 'data-bin'" in said


@pytest.mark.slow
def test_missing_data(toy_run, overfitted, tmp_path):
    nowhere = SimpleNamespace(data=tmp_path / "nowhere")
    assert str(nowhere.data) in one_line(train(nowhere, tmp_path))
    assert str(nowhere.data) in one_line(generate(nowhere, overfitted["post"]))


@pytest.mark.slow
def test_wrong_checkpoints(toy_run, overfitted, tmp_path):
    other = train(
        toy_run, tmp_path / "a", "--residual-connection", "residual",
        "--finetune-from-model", overfitted["pre"],
    )  # fmt: skip
    assert "--residual-connection pre" in one_line(other)
    overrides = "{'residual_connection': 'pre'}"
    other = generate(toy_run, overfitted["residual"], "--model-overrides", overrides)
    assert "is of --residual-connection residual" in one_line(other)
    deeper = train(
        toy_run, tmp_path / "b", "--encoder-layers", 3, "--finetune-from-model",
        overfitted["residual"],
    )  # fmt: skip
    assert "encoder.layers.2" in one_line(deeper)
    cut = tmp_path / "cut.pt"
    cut.write_bytes(overfitted["residual"].read_bytes()[:20000])
    assert str(cut) in one_line(generate(toy_run, cut))


@pytest.mark.slow
def test_loads_a_checkpoint_of_fairseqs_transformer(toy_run, tmp_path):
    for connection, flags in (
        ("post", []),
        ("pre", ["--encoder-normalize-before", "--decoder-normalize-before"]),
    ):
        stock = [flag if flag != "residual_transformer" else "transformer" for flag in MODEL]
        theirs = tmp_path / f"theirs-{connection}"
        process = fairseq(
            "train", toy_run.data, *stock, *TRAINING, *flags, "--save-dir", theirs,
            "--max-update", 3, "--save-interval", 1000,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr[-2000:]
        ours = tmp_path / f"ours-{connection}"
        process = train(
            toy_run, ours, "--residual-connection", connection, "--finetune-from-model",
            theirs / "checkpoint_last.pt", "--lr", "1e-30", updates=1,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr[-2000:]
        names = {
            "layers.0.self_attn_layer_norm.weight":
                "layers.0.self_attn_connection.layer_norm.weight",
            "layers.1.fc1.weight": "layers.1.fc1.weight",
        }  # fmt: skip
        before, after = (
            torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
            for folder in (theirs, ours)
        )
        for stack in ("encoder", "decoder"):
            for old, new in names.items():
                assert torch.equal(before[f"{stack}.{old}"], after[f"{stack}.{new}"])


def test_user_dir_of_an_imported_package():
    """A program that has imported the package may call fairseq with its path as --user-dir."""
    from fairseq.utils import import_user_module

    # fairseq 0.12.2 refuses a path whose module is imported, unless it is in this memo.
    assert str(ROOT / "residual_fairseq") in import_user_module.memo
    import_user_module(SimpleNamespace(user_dir=str(ROOT / "residual_fairseq")))
    assert sys.modules["residual_fairseq"].ResidualTransformerModel is ResidualTransformerModel


@pytest.mark.slow
def test_multilingual_task(toy_run, tmp_path):
    task = [
        "--task", "translation_multi_simple_epoch", "--langs", "de,en", "--lang-pairs",
        "de-en,en-de", "--encoder-langtok", "tgt",
    ]  # fmt: skip
    process = train(
        toy_run, tmp_path, *task, "--sampling-method", "temperature", "--sampling-temperature", 5,
        updates=3,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    for source, target in (("de", "en"), ("en", "de")):
        process = fairseq(
            "generate", toy_run.data, *PLUGIN, *task, "--path", tmp_path / "checkpoint_last.pt",
            "--gen-subset", "valid", "--source-lang", source, "--target-lang", target, "--cpu",
        )  # fmt: skip
        assert process.returncode == 0, process.stderr[-2000:]
        assert len(re.findall("^H-", process.stdout, re.M)) == 10
