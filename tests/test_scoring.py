"""From fairseq-generate's output to a score."""

import sys
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary
from fairseq.scoring import bleu as fairseq_bleu
from hypothesis import example, given
from hypothesis import strategies as st

from data_prep.bpe import remove_codes
from data_prep.tokens import detokenize, tokenize
from residual_fairseq import scoring
from residual_fairseq.errors import UsageError
from residual_fairseq.language_id import LanguageIdentifier

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
    output, reference = files
    units = scoring.read_hypotheses(output, 3)
    translations = scoring.detokenize(scoring.join_units(units, "subword_nmt"), "en")
    assert translations == REFERENCE
    scores = scoring.scores(translations, scoring.read_lines(reference), "en")
    assert scores["bleu"]["score"] == pytest.approx(100)
    assert scores["chrf"]["score"] == pytest.approx(100)
    assert scores["ter"]["score"] == 0


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


@pytest.mark.parametrize(
    "function", [lambda h, r: scoring.scores(h, r, "en"), scoring.tokenised_bleu]
)
def test_numbers_of_lines_have_to_agree(function):
    with pytest.raises(UsageError, match="2 hypotheses for 3 references"):
        function(REFERENCE[:2], REFERENCE)
    with pytest.raises(UsageError, match="no hypotheses"):
        function([], [])


def test_lower_cased_text_is_scored_as_it_is_too():
    lowered = [line.lower() for line in REFERENCE]
    found = scoring.scores(lowered, REFERENCE, "en", lowercase=True)
    assert found["bleu"]["score"] == pytest.approx(100) and found["cased_bleu"]["score"] < 90
    assert found["cased_bleu"] == scoring.scores(lowered, REFERENCE, "en")["bleu"]
    assert "case:mixed" in found["cased_bleu"]["signature"]


def test_three_scores_with_their_signatures():
    hypotheses = [REFERENCE[0], "The dog barks.", ""]
    scores = scoring.scores(hypotheses, REFERENCE, "en")
    # The commands: sacrebleu REFERENCE -i HYPOTHESES -m bleu chrf ter
    assert {name: round(score["score"], 1) for name, score in scores.items()} == {
        "bleu": 54.2,
        "chrf": 64.0,
        "ter": 42.9,
    }
    assert {
        name: score["signature"].rpartition("|version:")[0] for name, score in scores.items()
    } == {
        "bleu": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp",
        "chrf": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no",
        "ter": "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no",
    }


def test_lower_cased_corpus():
    lowered = [line.lower() for line in REFERENCE]
    cased, uncased = (scoring.scores(lowered, REFERENCE, "en", lc) for lc in (False, True))
    for name in ("bleu", "chrf"):
        assert cased[name]["score"] < 95
        assert uncased[name]["score"] == pytest.approx(100)
        assert "case:mixed" in cased[name]["signature"]
        assert "case:lc" in uncased[name]["signature"]
    assert scoring.tokenised_bleu(lowered, REFERENCE)["score"] < 95
    tokenised = scoring.tokenised_bleu(lowered, REFERENCE, lowercase=True)
    assert tokenised["score"] == pytest.approx(100) and "case:lc" in tokenised["signature"]


@pytest.mark.parametrize(
    "lang, tokenizer",
    [("zh", "zh"), ("zh_CN", "zh"), ("zh-Hant", "zh"), ("de", "13a"), ("th", "13a")],
)
def test_tokeniser_follows_the_language(lang, tokenizer):
    assert scoring.bleu_tokenizer(lang) == tokenizer
    signature = scoring.scores(["我爱你"], ["我爱他"], lang)["bleu"]["signature"]
    assert f"|tok:{tokenizer}|" in signature


@pytest.mark.parametrize("lang", ["ja", "ko"])
def test_characters_stand_in_for_mecab(lang, monkeypatch):
    def bleu(tokenize):
        if tokenize in missing:
            raise RuntimeError("pip install sacrebleu[...]")

    monkeypatch.setattr(scoring, "BLEU", bleu)
    missing = ()
    assert scoring.bleu_tokenizer(lang) == f"{lang}-mecab"
    missing = (f"{lang}-mecab",)
    assert scoring.bleu_tokenizer(lang) == "char"


def test_ter_of_chinese_counts_characters():
    scores = scoring.scores(["我爱你吗"], ["我爱他吗"], "zh")
    assert scores["ter"]["score"] == 25
    assert "asian:yes" in scores["ter"]["signature"]


def test_units_of_sentencepiece():
    units = ["▁The ▁f ir st ▁( 1 st ) ▁c at .", "▁日本 語", ""]
    joined = scoring.join_units(units, "sentencepiece")
    assert joined == ["The first (1st) cat.", "日本語", ""]
    assert scoring.detokenize(joined, "en", "none") == joined


def test_unknown_ways_of_joining_are_refused():
    with pytest.raises(UsageError, match="'@@ ': has to be subword_nmt or sentencepiece or none"):
        scoring.join_units(["a"], "@@ ")
    with pytest.raises(UsageError, match="'nltk': has to be moses or none"):
        scoring.detokenize(["a"], "en", "nltk")
    assert scoring.join_units(["a b@@ c"], "none") == ["a b@@ c"]


def fairseq_score(hypotheses, references):
    """What ``fairseq-score`` computes."""
    dictionary = Dictionary()
    special = {name: getattr(dictionary, name)() for name in ("pad", "eos", "unk")}
    scorer = fairseq_bleu.Scorer(fairseq_bleu.BleuConfig(**special))
    for hypothesis, reference in zip(hypotheses, references):
        scorer.add(*(dictionary.encode_line(line) for line in (reference, hypothesis)))
    return scorer.score()


lines_of_tokens = st.lists(st.sampled_from("a b c , @-@ &apos;s".split()), min_size=1, max_size=9)


@given(st.lists(st.tuples(lines_of_tokens, lines_of_tokens), min_size=1, max_size=6))
@example([(["a", "b", "c", "a"], ["a", "b", "c", ","])])
def test_tokenised_bleu_is_that_of_fairseq_score(pairs):
    hypotheses, references = ([" ".join(line) for line in side] for side in zip(*pairs))
    ours = scoring.tokenised_bleu(hypotheses, references)
    assert ours["score"] == pytest.approx(fairseq_score(hypotheses, references), abs=1e-4)


def test_tokenised_bleu_is_not_sacrebleu():
    """A tokenised "." that is glued to its word is another word; sacreBLEU would split it."""
    hypotheses, references = ["the cat sleeps on the mat."], ["the cat sleeps on the mat ."]
    signature = scoring.tokenised_bleu(hypotheses, references)["signature"]
    assert scoring.tokenised_bleu(hypotheses, references)["score"] < 90
    assert scoring.scores(hypotheses, references, "en")["bleu"]["score"] == pytest.approx(100)
    assert "tok:none" in signature and "smooth:none" in signature


@pytest.mark.parametrize(
    "line, split",
    [
        ("ein gut-bekannter Mann", "ein gut ##AT##-##AT## bekannter Mann"),
        ("ein gut @-@ bekannter Mann", "ein gut ##AT##-##AT## bekannter Mann"),
        ("Rhein-Main-Gebiet", "Rhein ##AT##-##AT## Main ##AT##-##AT## Gebiet"),
        ("a-b-c a--b", "a ##AT##-##AT## b-c a ##AT##-##AT## -b"),
        ("5 - 3 -- ja -", "5 - 3 -- ja -"),
    ],
)
def test_compounds(line, split):
    # perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g', but for the second.
    assert scoring.split_compounds(line) == split


def test_compound_split_bleu():
    hypotheses = ["der alte Mann und der gut-bekannte Hund schlafen"]
    references = ["der alte Mann und der gut-gekannte Hund schlafen"]
    plain = scoring.tokenised_bleu(hypotheses, references)
    split = scoring.compound_split_bleu(hypotheses, references)
    halves = [line.replace("-", " - ") for line in (*hypotheses, *references)]
    assert split["score"] == scoring.tokenised_bleu(halves[:1], halves[1:])["score"]
    assert split["score"] > plain["score"] > 0
    assert split["signature"] == f"{plain['signature']}|compounds:split"


def test_off_target_rate():
    english, german = ["the old house", "that is the dog"], ["das alte Haus", "das ist der Hund"]
    identifier = LanguageIdentifier({"en": english, "de": german})
    hypotheses = ["das Haus", "the dog", "", "дом"]
    score = scoring.off_target(hypotheses, [*german, "Hund", "the house"], "de", identifier)
    assert score["score"] == 50 and score["references"] == 25
    assert score["signature"] == "script+naive-bayes|char:1-3|max-lines:5000|langs:de,en"
    with pytest.raises(UsageError, match="no references"):
        scoring.off_target(hypotheses, [], "de", identifier)


@pytest.fixture
def comet_model(tmp_path):
    """The files of a model of COMET's, without content."""
    (tmp_path / "hparams.yaml").touch()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model.ckpt").touch()
    return tmp_path / "checkpoints" / "model.ckpt"


def test_comet_is_not_there(monkeypatch, comet_model):
    monkeypatch.setitem(sys.modules, "comet", None)
    for ask in (scoring.check_comet, lambda model: scoring.comet_score(["a"], ["b"], ["c"], model)):
        with pytest.raises(UsageError, match="not installed: pip install unbabel-comet"):
            ask(comet_model)


def test_model_of_comet_is_not_there(comet_model):
    with pytest.raises(UsageError, match="nowhere.ckpt: no such file"):
        scoring.comet_score(["a"], ["b"], ["c"], comet_model.with_name("nowhere.ckpt"))
    (comet_model.parent.parent / "hparams.yaml").unlink()
    with pytest.raises(UsageError, match="hparams.yaml: no such file"):
        scoring.comet_score(["a"], ["b"], ["c"], comet_model)
    with pytest.raises(UsageError, match="1 hypotheses for 2 sources"):
        scoring.comet_score(["a", "a"], ["b"], ["c"], comet_model)


def test_what_comet_is_given(monkeypatch, comet_model):
    """COMET itself is not a dependency: a stand-in takes what its interface of 2.2 takes."""

    class Model:
        def predict(self, data, gpus):
            return {"system_score": 0.5 if data == expected else 0}

    def load_from_checkpoint(path, local_files_only):
        if not local_files_only or path != str(comet_model):
            raise OSError("would look for\nit elsewhere")
        return Model()

    expected = [{"src": "a", "mt": "b", "ref": "c"}]
    stand_in = SimpleNamespace(load_from_checkpoint=load_from_checkpoint, __spec__="comet")
    monkeypatch.setitem(sys.modules, "comet", stand_in)
    monkeypatch.setattr(scoring, "version", lambda name: "2.2.7")
    assert scoring.comet_score(["a"], ["b"], ["c"], comet_model) == {
        "score": 50,
        "signature": "comet:2.2.7|model:model.ckpt|sha256:e3b0c44298fc1c14",
    }
    other = comet_model.with_name("other.ckpt")
    other.touch()
    with pytest.raises(UsageError, match="on this machine.*: would look for it elsewhere"):
        scoring.comet_score(["a"], ["b"], ["c"], other)


def test_text_comes_back_as_data_preparation_took_it_apart():
    units = list(tokenize(REFERENCE, "en"))
    assert scoring.detokenize(units, "en") == list(detokenize(units, "en")) == REFERENCE
    assert scoring.join_units(TOKENS, "subword_nmt") == list(remove_codes(TOKENS))
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
