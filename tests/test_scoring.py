"""From fairseq-generate's output to a score."""

import pytest

from data_prep import bpe, tokens
from residual_fairseq import scoring
from residual_fairseq.errors import UsageError

REFERENCE = ["The first (1st) cat doesn't sleep.", "The second dog barks loudly.", "A third one."]
TOKENS = [
    "The first ( 1@@ st ) c@@ at doesn &apos;t sleep .",
    "The second do@@ g barks loud@@ ly .",
    "A third one .",
]


def hypothesis(sentence, tokens, score=-0.5):
    return f"S-{sentence}\tsource\nT-{sentence}\ttarget\nH-{sentence}\t{score}\t{tokens}\n" + (
        f"D-{sentence}\t{score}\tdetokenised\nP-{sentence}\t-0.1 -0.2\n"
    )


@pytest.fixture
def files(tmp_path):
    """Paths of fairseq-generate's output, in the order of length, and of the raw reference."""
    output, reference = tmp_path / "generate-test.txt", tmp_path / "test.en"
    output.write_text("INFO: H-0 is none\n" + "".join(hypothesis(i, TOKENS[i]) for i in (2, 1, 0)))
    reference.write_text("".join(f"{line}\n" for line in REFERENCE))
    return output, reference


def test_perfect_translation_is_100(files):
    score, translations = scoring.score_output(*files, "en")
    assert translations == REFERENCE
    assert score.bleu == pytest.approx(100)
    assert "case:mixed" in score.signature and "tok:13a" in score.signature
    assert "version:" in score.signature


def test_case_counts(files):
    output, reference = files
    output.write_text(output.read_text().lower().replace("h-", "H-"))
    assert scoring.score_output(output, reference, "en")[0].bleu < 90


def test_order_is_that_of_numbers_not_of_their_digits(tmp_path):
    output = tmp_path / "out"
    output.write_text(
        "".join(hypothesis(i, f"word{i}") for i in (10, 9, 2, 11, *range(2), *range(3, 9)))
    )
    assert scoring.read_hypotheses(output, 12) == [f"word{i}" for i in range(12)]


def test_first_of_several_hypotheses_is_taken(tmp_path):
    output = tmp_path / "out"
    output.write_text("H-0\t-0.1\tbest\nD-0\t-0.1\tx\nH-0\t-0.2\tsecond best\n")
    assert scoring.read_hypotheses(output, 1) == ["best"]


def test_unusual_line_ends_inside_a_translation_do_not_end_it(tmp_path):
    output = tmp_path / "out"
    output.write_text("H-0\t-0.1\tone\u2028two\x85three\x0bfour\n", encoding="utf-8")
    assert scoring.read_hypotheses(output, 1) == ["one\u2028two\x85three\x0bfour"]


def test_missing_sentence_counts_as_empty_and_is_reported(files, capsys):
    output, reference = files
    output.write_text("".join(hypothesis(i, TOKENS[i]) for i in (0, 2)) + "H-1\t-inf\t\n")
    assert scoring.read_hypotheses(output, 4) == [TOKENS[0], "", TOKENS[2], ""]
    warning = capsys.readouterr().err
    assert "1 of 4 sentences" in warning and "sentence 3" in warning


@pytest.mark.parametrize(
    "output, reason",
    [
        ("S-0\tsource only\n", "no translation"),
        ("H-3\t-0.1\tone too many\n", "sentence 3"),
        (None, "No such file"),
    ],
)
def test_unusable_output(tmp_path, output, reason):
    path = tmp_path / "out"
    if output is not None:
        path.write_text(output)
    with pytest.raises(UsageError, match=reason):
        scoring.read_hypotheses(path, 3)


def test_numbers_of_lines_have_to_agree(files):
    with pytest.raises(UsageError, match="has 3 lines for 2 translations"):
        scoring.bleu(REFERENCE[:2], files[1], "en")


def test_tokeniser_follows_the_language(files):
    assert "tok:zh" in scoring.bleu(REFERENCE, files[1], "zh").signature


def test_text_comes_back_as_data_preparation_took_it_apart():
    units = list(tokens.tokenize(REFERENCE, "en"))
    assert scoring.detokenize(units, "en") == list(tokens.detokenize(units, "en")) == REFERENCE
    assert [scoring.remove_bpe(line) for line in TOKENS] == list(bpe.remove_codes(TOKENS))
    assert scoring.remove_bpe("cut o@@") == "cut o"


def test_last_line_needs_no_line_end(tmp_path):
    path = tmp_path / "text"
    for content, lines in (
        ("a\nb", ["a", "b"]),
        ("a\nb\n", ["a", "b"]),
        ("\n\n", ["", ""]),
        ("", []),
    ):
        path.write_text(content)
        assert scoring.read_lines(path) == lines
