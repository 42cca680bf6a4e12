"""From the output of fairseq-generate to scores, each with a signature that says how it was made.

A score is a dictionary ``{"score": ..., "signature": ...}``, ready for ``result.json``. The main
one is sacreBLEU of detokenised text against the reference as it was published. What older papers
report instead has names of its own, so that nobody takes the one for the other.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacremoses import MosesDetokenizer

from .errors import UsageError
from .language_id import MAX_LINES, ORDERS, LanguageIdentifier
from .results import sha256

#: What the metrics are called in tables, by their key in ``result.json``.
METRICS = {
    "bleu": "sacreBLEU",
    "cased_bleu": "cased sacreBLEU",
    "chrf": "chrF",
    "ter": "TER",
    "tokenised_bleu": "tokenised BLEU",
    "compound_split_bleu": "tokenised BLEU, compounds split",
    "off_target": "off-target %",
    "comet": "COMET",
}

#: Of these less is better.
LOWER_IS_BETTER = ("ter", "off_target")

_HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)")


def read_hypotheses(path: str | os.PathLike, sentences: int) -> list[str]:
    """The translations in the output of ``fairseq-generate``, in the order of the test set.

    fairseq writes sentences in the order of their length. Of several hypotheses for a sentence
    (``--nbest``) the first is taken, which is the best. A sentence without any, left out by
    ``--skip-invalid-size-inputs-valid-test`` for instance, counts as translated by nothing, and
    stderr says so.

    Args:
        path: of the output.
        sentences: size of the test set.

    Returns:
        The lines of type H as they are: units, before BPE is removed.

    Raises:
        UsageError: there is no such file, or no translation in it, or one of a sentence that the
            test set does not have.
    """
    found: dict[int, str] = {}
    for line in read_lines(path):
        match = _HYPOTHESIS.fullmatch(line)
        if match:
            found.setdefault(int(match[1]), match[2])
    if not found:
        raise UsageError(f"{path}: no translation (line H-...) in it; is it of fairseq-generate?")
    if max(found) >= sentences:
        raise UsageError(
            f"{path}: has a translation of sentence {max(found)} (counted from 0), "
            f"but the reference has {sentences} lines"
        )
    missing = [sentence for sentence in range(sentences) if sentence not in found]
    if missing:
        print(
            f"WARNING: {path}: {len(missing)} of {sentences} sentences have no translation and "
            f"count as empty, the first of them is sentence {missing[0]} (counted from 0)",
            file=sys.stderr,
        )
    return [found.get(sentence, "") for sentence in range(sentences)]


def remove_bpe(line: str) -> str:
    """Join units of subword-nmt to tokens, as fairseq's ``--post-process subword_nmt`` does."""
    return f"{line} ".replace("@@ ", "").rstrip(" ")


def remove_sentencepiece(line: str) -> str:
    """Join units of SentencePiece to text, as fairseq's ``--post-process sentencepiece`` does."""
    return line.replace(" ", "").replace("\u2581", " ").strip(" ")


#: How units are joined, by fairseq's name of it.
POST_PROCESSES: dict[str, Callable[[str], str]] = {
    "subword_nmt": remove_bpe,
    "sentencepiece": remove_sentencepiece,
    "none": str,
}


def join_units(lines: Iterable[str], post_process: str) -> list[str]:
    """Join units to Moses tokens, or to text where there are no tokens.

    Args:
        lines: of units, separated by spaces.
        post_process: "subword_nmt" (units end in "@@" within a token), "sentencepiece" (units
            begin with "▁" after a space), or "none".

    Raises:
        UsageError: another ``post_process``.
    """
    if post_process not in POST_PROCESSES:
        raise UsageError(f"post-process {post_process!r}: has to be {' or '.join(POST_PROCESSES)}")
    return list(map(POST_PROCESSES[post_process], lines))


def detokenize(lines: Iterable[str], lang: str, tokenizer: str = "moses") -> list[str]:
    """Join tokens to text; with "moses" as fairseq's tokenizer of that name does.

    Args:
        lines: tokens separated by spaces, without BPE.
        lang: language code.
        tokenizer: that the text was tokenised by, "moses" or "none".

    Raises:
        UsageError: another ``tokenizer``.
    """
    if tokenizer == "none":
        return list(lines)
    if tokenizer != "moses":
        raise UsageError(f"tokenizer {tokenizer!r}: has to be moses or none")
    detokenizer = MosesDetokenizer(lang)
    return [detokenizer.detokenize(line.split()) for line in lines]


def scores(
    hypotheses: Sequence[str], references: Sequence[str], lang: str, lowercase: bool = False
) -> dict[str, dict[str, Any]]:
    """sacreBLEU, chrF and TER of detokenised translations.

    Args:
        hypotheses: plain text.
        references: one for each hypothesis, as published.
        lang: language of both. BLEU takes the tokeniser that it needs: "zh"; "ja-mecab" or
            "ko-mecab" if it is installed, otherwise "char"; "13a" for all others, as sacreBLEU
            does. Thai, Lao, Khmer and Burmese have no spaces between words either, and no
            tokeniser in sacreBLEU: there chrF says more.
        lowercase: of text that was lower-cased before the training. Case then does not count, and
            the signatures say so. What it costs to have no capitals says "cased_bleu".

    Returns:
        the scores at "bleu", "chrf" and "ter", with ``lowercase`` at "cased_bleu" too.

    Raises:
        UsageError: unequal numbers of lines, or none.
    """
    asian = primary_code(lang) in ("zh", "ja")
    metrics = {
        "bleu": BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(lang)),
        "chrf": CHRF(lowercase=lowercase),
        # sacreBLEU's default is not to count case here. Without the two options, which split
        # Chinese and Japanese to characters, a whole sentence is one word.
        "ter": TER(normalized=asian, asian_support=asian),
    }
    if lowercase:
        metrics["cased_bleu"] = BLEU(tokenize=bleu_tokenizer(lang))
    return {name: score(metric, hypotheses, references) for name, metric in metrics.items()}


def score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """One score of sacreBLEU's.

    Raises:
        UsageError: unequal numbers of lines, or none.
    """
    # sacreBLEU scores what there is of the shorter one, without a word.
    check_equally_many(hypotheses=hypotheses, references=references)
    number = metric.corpus_score(list(hypotheses), [list(references)]).score
    return {"score": number, "signature": str(metric.get_signature())}


def check_equally_many(**texts: Sequence[str]) -> None:
    """Check that texts have equally many lines.

    Raises:
        UsageError: they do not, or have none.
    """
    (name, text), *others = texts.items()
    if not text:
        raise UsageError(f"there are no {name} to score")
    for other, lines in others:
        if len(lines) != len(text):
            raise UsageError(f"{len(text)} {name} for {len(lines)} {other}")


def primary_code(lang: str) -> str:
    """``pt-BR`` and ``pt_BR`` to ``pt``."""
    return re.split("[-_]", lang)[0].lower()


def has_spaces(lang: str) -> bool:
    """Whether words of a language are apart; if not, a Moses token may be a whole sentence."""
    return primary_code(lang) not in ("zh", "ja", "th", "lo", "km", "my")


def bleu_tokenizer(lang: str) -> str:
    """The tokeniser of sacreBLEU for a language; see :func:`scores`."""
    lang = primary_code(lang)
    if lang == "zh":
        return "zh"
    if lang not in ("ja", "ko"):
        return "13a"
    try:
        BLEU(tokenize=f"{lang}-mecab")
    except Exception:
        # Which error it is if MeCab is missing depends on sacreBLEU's version.
        return "char"
    return f"{lang}-mecab"


def tokenised_bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> dict[str, Any]:
    """BLEU of tokens as they are: what multi-bleu.perl and ``fairseq-score`` compute.

    It depends on the tokeniser, so it compares only with numbers by the same one.

    Args:
        hypotheses: tokens separated by spaces, BPE joined.
        references: the same of the reference, not passed through a dictionary: fairseq-generate's
            lines of type T have ``<<unk>>`` where a word was unknown.
        lowercase: case does not count.

    Raises:
        UsageError: unequal numbers of lines, or none.
    """
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    return score(metric, hypotheses, references)


def compound_split_bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> dict[str, Any]:
    """Tokenised BLEU after compounds are split at their hyphens, as usual for WMT'14 En-De.

    tensor2tensor's get_ende_bleu.sh counts so, and with it Vaswani et al. 2017 and many after them.
    It gives more: the same output of Ott et al. 2018 has 29.3 in this way and 28.6 in sacreBLEU.

    Args:
        hypotheses, references, lowercase: as of :func:`tokenised_bleu`.

    Raises:
        UsageError: unequal numbers of lines, or none.
    """
    split = tokenised_bleu(
        list(map(split_compounds, hypotheses)), list(map(split_compounds, references)), lowercase
    )
    return {**split, "signature": f"{split['signature']}|compounds:split"}


def split_compounds(line: str) -> str:
    """``a-b`` to ``a ##AT##-##AT## b``.

    Moses' aggressive dash splits (``a @-@ b``) are undone first, or their mark would be split.
    """
    # The pattern takes in the characters around, as the published script's does, so that of
    # "a-b-c" only the first hyphen is split.
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line.replace(" @-@ ", "-"))


def off_target(
    hypotheses: Sequence[str], references: Sequence[str], lang: str, identifier: LanguageIdentifier
) -> dict[str, Any]:
    """The share of translations in another script or another language than wanted, in percent.

    Args:
        hypotheses: plain text. Empty ones, and those without letters, count as on target.
        references: plain text. Some look off target too: names, foreign words, very short ones.
        lang: the wanted language.
        identifier: knows it, and all languages that the system may fall into.

    Returns:
        the score, its signature, and at "references" what the references would get: no system
        can be expected to come below it.

    Raises:
        UsageError: no lines, or the identifier does not know the language.
    """
    rates = []
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        check_equally_many(**{name: lines})
        wrong = sum(identifier.is_off_target(line, lang) for line in lines)
        rates.append(100 * wrong / len(lines))
    languages = ",".join(sorted(identifier.lines))
    orders = f"{ORDERS[0]}-{ORDERS[-1]}"
    signature = f"script+naive-bayes|char:{orders}|max-lines:{MAX_LINES}|langs:{languages}"
    return {"score": rates[0], "signature": signature, "references": rates[1]}


def comet_score(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    model: str | os.PathLike,
) -> dict[str, Any]:
    """COMET (Rei et al. 2020) times 100, by a model that is on this machine; nothing is downloaded.

    Args:
        sources, hypotheses, references: plain text.
        model: the checkpoint, with its ``hparams.yaml`` one folder above, as COMET's own download
            has them.

    Raises:
        UsageError: unequal numbers of lines, COMET is not installed, or no such model, or it
            cannot be loaded: mostly the encoder it is built on is not in Hugging Face's cache.
    """
    check_equally_many(hypotheses=hypotheses, references=references, sources=sources)
    check_comet(model)
    model = Path(model)
    from comet import load_from_checkpoint

    try:
        # It looks two folders above the path as it is written.
        loaded = load_from_checkpoint(str(model.absolute()), local_files_only=True)
    except Exception as error:
        # Which error it is if the encoder is missing depends on transformers' version: of 4.57
        # it is an AttributeError about something else.
        message = shorten(f"{type(error).__name__}: {error}", 400)
        raise UsageError(
            f"COMET: {model}: cannot be loaded; is its encoder (pretrained_model in hparams.yaml) "
            f"on this machine? {message}"
        ) from error
    data = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references)
    ]
    number = loaded.predict(data, gpus=int(torch.cuda.is_available()))["system_score"]
    return {"score": 100 * number, "signature": comet_signature(model)}


def check_comet(model: str | os.PathLike) -> None:
    """Check, before anything is trained, that COMET can be asked afterwards.

    Args:
        model: as of :func:`comet_score`.

    Raises:
        UsageError: COMET is not installed, or there is no such model.
    """
    for path in (Path(model), Path(model).absolute().parent.parent / "hparams.yaml"):
        if not path.is_file():
            raise UsageError(f"COMET: {path}: no such file; give the .ckpt of a downloaded model")
    if find_spec("comet") is None:
        raise UsageError("COMET is not installed: pip install unbabel-comet 'setuptools<81'")
    try:
        import_module("comet")
    except ImportError as error:
        # torchmetrics, of the version that COMET 2.2 asks for, needs it; setuptools 82 dropped it.
        advice = "; pip install 'setuptools<81'" if error.name == "pkg_resources" else ""
        raise UsageError(f"COMET cannot be imported: {error}{advice}") from error


@cache
def comet_signature(model: str | os.PathLike) -> str:
    """The signature of COMET's scores by a model."""
    model = Path(model)
    return f"comet:{version('unbabel-comet')}|model:{model.name}|sha256:{sha256(model)[:16]}"


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a text file. A line ends at a newline character and nowhere else."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid UTF-8: {error}") from error
    return text.removesuffix("\n").split("\n") if text else []
