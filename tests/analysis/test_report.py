"""residual-analyze report: one page that needs nothing else, and the same numbers in files."""

import argparse
import csv
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import scored, write_run

from residual_fairseq.analysis import collect, html
from residual_fairseq.analysis.output import Analysis, Picture
from residual_fairseq.errors import UsageError
from residual_fairseq.formats import Table, latex, markdown
from residual_fairseq.plots import Panel

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
HOSTILE = """</script></style><img src=https://example.org/x onerror='alert(1)'>"&amp;|_$"""
TABLE = Table(
    f"table {HOSTILE}",
    [HOSTILE, "loss"],
    [["pre 18+18", "1,200"], [HOSTILE, HOSTILE], ["pre 6+6", "9.5 ± 0.1"], ["post", "1e-05"]],
    [f"note {HOSTILE}"],
)
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Elements with their attributes, the texts of each kind, and the tables' cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.tables, self.open = [], {}, [], []
        self.feed(text)
        self.close()
        assert not self.open, "an element is not closed"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def write_analysis(folder, table=TABLE):
    panel = Panel("layer", "norm", {"pre": {1: 1.0, 2: 2.0}})
    picture = Picture("gradients", HOSTILE, f"described {HOSTILE}", [panel])
    analysis = Analysis("gradients", HOSTILE, {HOSTILE: [HOSTILE]}, [table], [picture], {})
    analysis.write(folder, f"residual-analyze gradients '{HOSTILE}'")
    return folder / "gradients.json"


def report(*arguments):
    parser = argparse.ArgumentParser()
    collect.add_arguments(parser)
    args = parser.parse_args(list(map(str, arguments)))
    return collect.main_of(args, "residual-analyze report")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two experiments, an analysis with hostile names, and the report of them."""
    folder = tmp_path_factory.mktemp("results")
    for place, best in (("one", 20.0), ("two", 30.0)):
        for connection, depth in (("post", (6, 6)), ("pre", (6, 6)), ("pre", (18, 18))):
            write_run(
                folder / place / "runs",
                connection,
                depth,
                scores=scored({"test": best + depth[0]}, SIGNATURE),
                updates=4000,
                words_per_second=1234.5,
                valid_loss_bits={"100": 9.0, "200": 4.25},
                train_command="fairseq-train --seed 1",
                machine={"device": "1 GPU", "trainings_at_once": 1},
            )
    write_analysis(folder / "analysis")
    report(folder)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_structure(page):
    assert len(page.all("h1")) == 1 and page.all("html") == [{"lang": "en"}]
    for tag in ("header", "nav", "main", "footer", "title"):
        assert len(page.all(tag)) == 1
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(names) == len(set(names))
    assert [link["href"] for link in page.all("a")] == [f"#section-{i}" for i in range(3)]
    assert {"section-0", "section-1", "section-2"} <= set(names)
    labels = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
    assert labels and set(labels) <= set(names)
    assert page.texts["h2"] == ["Trainings on made"] * 2 + [HOSTILE]


def test_tables_and_pictures_are_accessible(page):
    assert len(page.texts["caption"]) == len(page.tables) == 5
    assert all(page.texts["caption"])
    assert all(th["scope"] in ("col", "row") for th in page.all("th"))
    assert page.all("img")[-1]["alt"] == f"described {HOSTILE}"
    assert all(img["alt"] for img in page.all("img"))


def test_everything_is_within_the_page(page):
    for _, attributes in page.elements:
        assert attributes.get("src", "data:").startswith("data:")
        assert not {"srcset", "data", "poster", "background", "style", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert all(img["src"].startswith("data:image/png;base64,") for img in page.all("img"))
    assert page.all("link") == [] and page.all("script") == [{}] and page.all("style") == [{}]
    assert not re.search("url|import|https?:", html.STYLE + html.SCRIPT)
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert html.digest(page.texts["script"][0]) in policy
    assert html.digest(page.texts["style"][0]) in policy


def test_commands_and_settings(page):
    assert "residual-analyze gradients '" + HOSTILE + "'" in page.texts["pre"]
    assert "fairseq-train --seed 1" in page.texts["pre"]
    assert HOSTILE in page.texts["dt"] and json.dumps([HOSTILE]) in page.texts["dd"]
    assert f"note {HOSTILE}" in page.texts["li"]


def test_all_formats_hold_the_same_cells(folder, page):
    lines = list(csv.DictReader((folder / "report.csv").open(encoding="utf-8", newline="")))
    cells = [cell for table in page.tables for row in table[1:] for cell in row]
    assert [line["value"] for line in lines] == cells
    assert "26.00" in cells and "4.25" in cells and "9.5 ± 0.1" in cells
    columns = [name for table in page.tables for _ in table[1:] for name in table[0]]
    assert [line["column"] for line in lines] == columns
    in_markdown = (folder / "report.md").read_text(encoding="utf-8")
    in_latex = (folder / "report.tex").read_text(encoding="utf-8")
    for row in (row for table in page.tables for row in table):
        assert f"| {' | '.join(map(markdown, row))} |\n" in in_markdown
        assert " & ".join(map(latex, row)) + r" \\" + "\n" in in_latex
    assert [path.name for path in folder.glob("*.tmp")] == []


def test_experiments_with_the_same_trainings_are_apart(page):
    scores = [row[4] for table in page.tables for row in table if row[:2] == ["post", "6+6"]]
    assert scores == ["26.00", "36.00"]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts))


def test_contrast_is_that_of_wcag_aa():
    schemes = re.findall(r":root \{(.*?)\}", html.STYLE, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w{6});", scheme))
        for front in ("text", "quiet", "link"):
            for back in ("page", "shade"):
                pair = sorted(luminance(colours[name]) for name in (front, back))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (front, back)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_text("{", encoding="utf-8"), "not a JSON file"),
        (lambda path: path.write_text('{"analysis": "a"}', encoding="utf-8"), "not as residual-"),
        (lambda path: path.with_suffix(".png").unlink(), "gradients.png: No such file"),
        (lambda path: path.with_suffix(".png").write_bytes(b"GIF89a"), "is no PNG"),
        (
            lambda path: path.write_text(
                path.read_text(encoding="utf-8").replace('"gradients.png', '"../x.png'),
                encoding="utf-8",
            ),
            "in another folder",
        ),
    ],
)
def test_what_is_not_usable_is_left_out(tmp_path, capsys, damage, said):
    write_run(tmp_path / "runs", "pre", scores=scored({"test": 20.0}, SIGNATURE))
    (tmp_path / "runs" / "settings.json").write_text('{"of": "something else"}', encoding="utf-8")
    damage(write_analysis(tmp_path))
    report(tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and line.endswith("; left out")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.texts["h2"] == ["Trainings on made"]


def test_wrong_use(tmp_path, folder):
    with pytest.raises(UsageError, match="no such folder"):
        report(tmp_path / "missing")
    with pytest.raises(UsageError, match="no usable result.json and no analysis in it"):
        report(tmp_path)
    with pytest.raises(UsageError, match="--baseline admin: none of the trainings has it"):
        report(folder, "--baseline", "admin")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="--out .*file"):
        report(folder, "--out", tmp_path / "file")


@pytest.fixture
def shown(tmp_path):
    """Shows a page in a browser, of some width; gives what the page is then.

    With a script of the test in it, the page is without its own policy.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")

    def show(text, script=None, width=1000):
        if script is not None:
            text = re.sub("<meta http-equiv.*?>", "", text)
            text = text.replace("</body>", f"<script>{script}</script></body>")
        path = Path(tmp_path, "shown.html")
        path.write_text(text, encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user"]
        command = [browser, *flags, f"--window-size={width},900", "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return Page(done.stdout)

    return show


@pytest.mark.slow
def test_fits_a_phone_in_a_browser(tmp_path, shown):
    wide = Table("wide", [f"a column {i}" for i in range(30)], [["12345678"] * 30] * 3, [])
    write_analysis(tmp_path, wide)
    report(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    script = """
        const box = document.querySelector("table").parentElement;
        document.title = [
            window.innerWidth, document.documentElement.scrollWidth,
            box.clientWidth, box.scrollWidth, box.tabIndex,
            document.images[0].clientWidth, document.images[0].parentElement.clientWidth,
        ].join(" ");
    """
    (title,) = shown(text, script, width=500).texts["title"]
    window, page, box, table, tab, picture, frame = map(int, title.split())
    assert window <= 500 and page <= window, "the page itself scrolls sideways"
    assert box <= window < table and tab == 0, "the table does not scroll in its box"
    # Wider than a phone, so that it can be read.
    assert frame <= window < picture


@pytest.mark.slow
def test_columns_sort_in_a_browser(tmp_path, shown):
    write_analysis(tmp_path)
    report(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    # Under its own policy, the page's script has run.
    assert [button["type"] for button in shown(text).all("button")] == ["button", "button"]
    for clicks, order in (
        ("1", ["1e-05", "9.5 ± 0.1", "1,200", HOSTILE]),
        ("11", ["1,200", "9.5 ± 0.1", "1e-05", HOSTILE]),
        ("110", [HOSTILE, "1e-05", "9.5 ± 0.1", "1,200"]),
    ):
        script = "".join(f"document.querySelectorAll('th button')[{i}].click();" for i in clicks)
        page = shown(text, script)
        assert [row[1] for row in page.tables[0][1:]] == order
        sorts = [th.get("aria-sort") for th in page.all("th") if th["scope"] == "col"]
        assert (
            sorts
            == {
                "1": [None, "ascending"],
                "11": [None, "descending"],
                "110": ["ascending", None],
            }[clicks]
        )
