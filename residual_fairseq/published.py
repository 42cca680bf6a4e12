"""What others have published for the benchmarks: numbers, where they are from, what they are.

Only what was read at its source, or follows from it, is here. A number compares with ours if it is
of the same metric, in the same case, on the same test set, from the same training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Published:
    """A published result.

    Attributes:
        benchmarks: those it is of, as in ``result.json``.
        system: what it was called.
        depth: "18+18" for layers of encoder and decoder, "20" if only the encoder's are said; "" if
            none are.
        metric: a key of ``scoring.METRICS``.
        scores: by test set, or by what was averaged over, with the digits that were published;
            empty of a training that failed.
        source: where it was read.
        remark: what is known to differ from our recipe, or is not known.
        comparable: with ours of the same metric; None: the source says too little.
        certainty: "confirmed": the source says so; "computed": it follows from what it says.
        deviations: by test set, the standard deviation over seeds, where one was given.
        case: "lc" if case did not count or the text was lower-cased, as in sacreBLEU's signatures.
    """

    benchmarks: tuple[str, ...]
    system: str
    depth: str
    metric: str
    scores: Mapping[str, str]
    source: str
    remark: str = ""
    comparable: bool | None = True
    certainty: str = "confirmed"
    deviations: Mapping[str, str] = field(default_factory=dict)
    case: str = "mixed"


#: What B2T's average is over.
WMT_TESTS = tuple(f"newstest{year}" for year in range(2010, 2017))
WMT_AVERAGE = "average of 2010-2016"

_WMT = ("wmt_en_de en-de",)


def of(benchmark: str) -> list[Published]:
    """The published results of a benchmark."""
    return [result for result in PUBLISHED if benchmark in result.benchmarks]


def _iwslt(system, depth, score, source, remark="", comparable=True, deviation=None):
    return Published(
        ("iwslt14 de-en",),
        system,
        depth,
        "tokenised_bleu",
        {"test": score},
        source,
        remark,
        comparable,
        deviations={} if deviation is None else {"test": deviation},
        case="lc",
    )


def _b2t(system, scores, average, remark="", certainty="computed"):
    return Published(
        _WMT,
        system,
        "18+18",
        "bleu",
        {**dict(zip(WMT_TESTS, scores.split())), WMT_AVERAGE: average},
        "Takase et al. 2022, README of github.com/takase/b2t_connection",
        remark,
        certainty=certainty,
    )


def _wmt14(system, depth, score, source, remark="whether compounds were split is not said"):
    scores = {"newstest2014": score}
    benchmarks = ("wmt_en_de en-de", "wmt14_en_de en-de")
    return Published(
        benchmarks, system, depth, "tokenised_bleu", scores, source, remark, comparable=None
    )


def _opus(system, layers, out_of_english, into_english, mean):
    return Published(
        ("opus100",),
        system,
        f"{layers}+{layers}",
        "bleu",
        {"en-X": out_of_english, "X-en": into_english, "all": mean},
        _ZERO_TABLE,
        "94 languages, each with tokeniser 13a, Chinese, Japanese and Korean too; sources cut to "
        "100 tokens",
        comparable=False,
        certainty="computed",
    )


def _multi30k(system, scores, source, remark, comparable=True):
    return Published(
        ("multi30k en-de",),
        system,
        "4+4",
        "tokenised_bleu",
        scores,
        source,
        remark,
        comparable,
        case="lc",
    )


_CLINIC = "github.com/LiyuanLucasLiu/Transformer-Clinic, issue 12"
_CLINIC_RECIPE = "512 wide, RAdam, lr 7e-4, average of 10 checkpoints, mean of 5 seeds"
_ZERO = "Zhang et al. 2019, github.com/bzhangGo/zero"
_FAIRSEQ_README = "flags of fairseq's README, public log"
_ZERO_TABLE = "Zhang et al. 2020, table per language of github.com/bzhangGo/zero"
_ADMIN_TORCH = "github.com/microsoft/admin-torch, example/README"
_DLCL = "Wang et al. 2019, README of github.com/wangqiangneu/dlcl"
_B2T_2022 = "as of June 2022; the average is computed"
_DEEP = "neither whether compounds were split is said nor which of its changes were on"
_NOT_SAID = "tokenisation and choice of checkpoint are not said"

PUBLISHED = (
    _iwslt("Post-LN", "6+6", "35.64", _CLINIC, _CLINIC_RECIPE, deviation="0.23"),
    _iwslt("Pre-LN", "6+6", "35.50", _CLINIC, _CLINIC_RECIPE, deviation="0.04"),
    _iwslt("Admin", "6+6", "35.67", _CLINIC, _CLINIC_RECIPE, deviation="0.15"),
    _iwslt(
        "T-Fixup small",
        "",
        "35.73",
        "README of github.com/layer6ai-labs/T-Fixup",
        "width not said, average of 10 checkpoints",
    ),
    *(
        _iwslt(
            "Post-LN",
            "6+6",
            score,
            _FAIRSEQ_README,
            f"512 wide, separate dictionaries, {checkpoint}, one seed",
        )
        for score, checkpoint in (
            ("34.78", "best checkpoint"),
            ("34.45", "epoch 100"),
            ("34.43", "epoch 50"),
            ("33.73", "epoch 20"),
        )
    ),
    _iwslt(
        "Post-LN",
        "6+6",
        "35.28",
        "public log of fairseq-generate",
        "width not said, joined dictionary, best checkpoint, one seed",
    ),
    _iwslt(
        "Transformer, fairseq",
        "",
        "34.76",
        "public log of fairseq-generate",
        "joined dictionary by its count of reference tokens (131,156); nothing else is said",
        None,
    ),
    _iwslt(
        "transformer_iwslt_de_en, fairseq",
        "6+6",
        "34.66",
        "quoted by a port to Paddle",
        "512 wide, epoch 41",
        None,
    ),
    _iwslt("PRIME", "", "35.07", "github.com/lancopku/Prime, issue 9", "best checkpoint", None),
    _iwslt(
        "PRIME",
        "",
        "35.78",
        "github.com/lancopku/Prime, issue 9",
        "average of 10 checkpoints",
        None,
    ),
    _iwslt("Transformer", "6+6", "34.41", _ZERO, _NOT_SAID, None),
    _iwslt("DS-Init, merged attention", "12+12", "35.63", _ZERO, _NOT_SAID, None),
    _iwslt("Transformer", "", "34.82", "Zhao et al. 2019, baseline", _NOT_SAID, None),
    _iwslt("Explicit Sparse Transformer", "", "35.33", "Zhao et al. 2019", _NOT_SAID, None),
    _iwslt("Macaron", "", "35.43", "Lu et al. 2019", _NOT_SAID, None),
    _iwslt("PowerNorm", "", "35.87", "Shen et al. 2020", "average of checkpoints", None),
    _iwslt("AdaHessian", "", "35.90", "Yao et al. 2021", "average of checkpoints", None),
    _iwslt(
        "LSTM, soft attention", "", "32.77", "README of github.com/harvardnlp/var-attn", "", None
    ),
    Published(
        ("iwslt14 de-en",),
        "Pre-LN, JoeyNMT",
        "6+6",
        "bleu",
        {"test": "33.73"},
        "JoeyNMT, docs/benchmarks",
        "256 wide, 32,000 BPE merges",
        case="lc",
    ),
    Published(
        ("iwslt14 de-en",),
        "JoeyNMT, version 1",
        "",
        "bleu",
        {"test": "31.00"},
        "JoeyNMT, docs/benchmarks",
        "recipe not said",
        comparable=None,
        case="lc",
    ),
    Published(
        ("iwslt14 de-en",),
        "JoeyNMT, multilingual",
        "",
        "bleu",
        {"test": "35.28"},
        "JoeyNMT, docs/benchmarks",
        "200 million parameters, trained on more data",
        comparable=False,
        case="lc",
    ),
    _b2t(
        "Pre-LN",
        "24.07 21.98 22.40 26.28 27.36 29.74 34.16",
        "26.57",
        certainty="confirmed",
    ),
    _b2t("B2T", "24.62 22.51 22.86 26.74 28.48 30.99 34.93", "27.30", _B2T_2022),
    _b2t(
        "B2T, word drop and more",
        "25.26 22.74 23.40 26.81 28.13 30.54 35.07",
        "27.42",
        _B2T_2022,
    ),
    _b2t(
        "B2T, word drop",
        "25.27 22.67 23.49 27.25 28.25 30.60 35.09",
        "27.52",
        certainty="confirmed",
    ),
    Published(_WMT, "Post-LN", "18+18", "bleu", {}, "Takase et al. 2022", "does not train"),
    Published(
        _WMT,
        "DeepNet",
        "18+18",
        "bleu",
        {
            "newstest2010": "24.70",
            "newstest2015": "30.60",
            "newstest2016": "34.39",
            WMT_AVERAGE: "27.13",
        },
        "listing at wizwand.com",
        "the depth follows from the numbers beside it",
        comparable=None,
        certainty="computed",
    ),
    Published(
        _WMT,
        "ResiDual",
        "18+18",
        "bleu",
        {WMT_AVERAGE: "27.65"},
        "reviews of Xie et al. 2023, openreview.net/forum?id=mOTiVzTgF2",
        "metric, depth and average follow from B2T's 27.3 beside it",
        comparable=None,
        certainty="computed",
    ),
    Published(
        _WMT,
        "Transformer big",
        "6+6",
        "bleu",
        {"newstest2014": "28.6"},
        "Ott et al. 2018, fairseq's examples/scaling_nmt",
        "1024 wide",
    ),
    Published(
        _WMT,
        "Transformer big",
        "6+6",
        "compound_split_bleu",
        {"newstest2014": "29.29"},
        "Ott et al. 2018, fairseq's examples/scaling_nmt",
        "1024 wide",
    ),
    _wmt14("Admin", "6+6", "27.84", _ADMIN_TORCH),
    _wmt14("Admin", "18+18", "28.91", _ADMIN_TORCH),
    _wmt14("Admin", "100+100", "29.65", _ADMIN_TORCH),
    _wmt14("Admin, O(1) output change", "6+6", "27.79", _ADMIN_TORCH),
    _wmt14("Admin, O(1) output change", "18+18", "28.89", _ADMIN_TORCH),
    _wmt14("Pre-LN", "20", "28.9", _DLCL),
    _wmt14("DLCL, Post-LN", "25", "29.2", _DLCL),
    _wmt14("DLCL, Pre-LN", "30", "29.3", _DLCL),
    _wmt14("Transformer", "6+6", "27.59", _ZERO),
    _wmt14("deep Transformer", "12+12", "28.55", _ZERO, _DEEP),
    _wmt14("deep Transformer", "20+20", "28.67", _ZERO, _DEEP),
    _wmt14("deep Transformer", "30+30", "28.86", _ZERO, _DEEP),
    _opus("Transformer", 6, "19.50", "27.60", "23.55"),
    _opus("merged attention", 6, "18.49", "26.90", "22.70"),
    _opus("merged attention, language-aware", 6, "21.39", "27.50", "24.45"),
    _opus("merged attention", 12, "20.77", "29.15", "24.96"),
    _opus("merged attention, language-aware", 12, "22.86", "29.49", "26.18"),
    _opus("merged attention, language-aware", 24, "23.96", "31.36", "27.66"),
    Published(
        ("opus100",),
        "DeepNet",
        "500+500",
        "bleu",
        {"all": "32.1"},
        "listing at wizwand.com",
        "the depth follows: DeepNet counts the layers of both stacks together",
        comparable=None,
        certainty="computed",
    ),
    *(
        Published(
            ("opus100",),
            system,
            depth,
            "bleu",
            {"en-de": out_of_english, "de-en": into_english},
            _ZERO_TABLE,
            "sources cut to 100 tokens",
            comparable=None,
        )
        for system, depth, out_of_english, into_english in (
            ("Transformer", "6+6", "24.9", "29.2"),
            ("merged attention, language-aware", "24+24", "26.8", "31.2"),
        )
    ),
    _multi30k(
        "Transformer-Tiny, Post-LN",
        {"test2016": "41.02"},
        "Wu et al. 2021, Revisit-MMT",
        "average of 10 checkpoints",
    ),
    _multi30k(
        "Gated Fusion",
        {"test2016": "41.96"},
        "Wu et al. 2021, Revisit-MMT",
        "sees the images",
        False,
    ),
    _multi30k(
        "Transformer-Tiny",
        {"test2016": "42.50", "test2017": "36.04", "testcoco": "31.95"},
        "Guo et al. 2023, EMNLP",
        "sees the images",
        False,
    ),
)
