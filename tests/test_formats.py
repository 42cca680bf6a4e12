"""Tables in four formats."""

import csv
import io
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_fairseq.formats import Table, align, as_csv, as_latex, as_markdown, as_text, latex

TABLE = Table(
    title="a_b, BLEU",
    columns=["name", "score"],
    rows=[["post|pre", "5.00 ± 1.00"], ["at 100% #1 & {x}", "15.00*"], ["[x]", "failed"]],
    notes=["p < 0.05", "case:lc|tok:13a"],
)


def test_text():
    assert as_text([TABLE, TABLE]).split("\n\n")[:4] == [
        "a_b, BLEU",
        "name                    score\n"
        "post|pre          5.00 ± 1.00\n"
        "at 100% #1 & {x}       15.00*\n"
        "[x]                    failed",
        "p < 0.05\ncase:lc|tok:13a",
        "a_b, BLEU",
    ]


def test_markdown():
    assert as_markdown([TABLE]) == (
        r"""**a\_b, BLEU**

| name | score |
| :-- | --: |
| post\|pre | 5.00 ± 1.00 |
| at 100% \#1 & {x} | 15.00\* |
| \[x\] | failed |

- p \< 0.05
- case:lc\|tok:13a"""
    )


def test_latex():
    assert as_latex([TABLE]) == (
        r"""% needs \usepackage{booktabs,graphicx}

\begin{table}
\centering
\caption{a\_\allowbreak{}b, BLEU}
\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%
\begin{tabular}{lr}
\toprule
name & score \\
\midrule
post\textbar\allowbreak{}pre & 5.00 $\pm$ 1.00 \\
at 100\% \#1 \& \{x\} & 15.00\textsuperscript{*} \\
{[}x{]} & failed \\
\bottomrule
\end{tabular}}
\par\medskip\footnotesize\raggedright
p \textless{} 0.05\par
case:lc\textbar\allowbreak{}tok:13a\par
\end{table}"""
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_compiles(tmp_path):
    nasty = Table("~^\\_$%&#{}<>|\"'*†±–", ["[a]", "*b"], [["[1]", "*"], ["\\", "$"]], ["~_^%"])
    wide = Table("wide", [f"column {i}" for i in range(40)], [["27.35"] * 40], [])
    text = (
        "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n"
        f"{as_latex([TABLE, nasty, wide])}\n\\end{{document}}\n"
    )
    (tmp_path / "tables.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_nothing_escapes_escaping(text):
    rest = re.sub(r"\\[a-z]+|\\[{}$&#_%]|\$\\pm\$|[{}]", "", latex(text))
    assert not set(rest) & set('\\$&#_%~^<>|"')


def test_csv_comes_back():
    text = as_csv(["a", "b"], [['x, "y"', None], ["ü", 0.1 + 0.2]])
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [["a", "b"], ['x, "y"', ""], ["ü", "0.30000000000000004"]]


@given(st.lists(st.tuples(st.sampled_from(["post", "a b"]), st.sampled_from(["1", "12.5"]))))
def test_columns_line_up(rows):
    lines = align(["name", "number"], rows).split("\n")
    assert len(lines) == len(rows) + 1
    assert len({len(line) for line in lines}) == 1
