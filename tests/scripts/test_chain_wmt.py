"""Google's WMT'16 archive to a table, and the corpora of statmt.org."""

import json

import pytest
from archives_made import tar, unpack, wmt14_en_de_archives, wmt_en_de_files
from chains import check_chain, check_order, folder_of, run

from data_prep import wmt14_en_de


@pytest.mark.slow
def test_wmt(tmp_path):
    archive = tmp_path / "wmt16_en_de.tar.gz"
    archive.write_bytes(tar(wmt_en_de_files(pairs=300)))
    _, trained = check_chain("wmt_en_de", archive, tmp_path / "out")
    check_order(tmp_path / "out", trained, "newstest2010")
    for result in trained:
        assert list(result["scores"]) == [f"newstest{year}" for year in range(2010, 2017)]
        assert "compound_split_bleu" in result["scores"]["newstest2014"]
        commands = {
            test: json.loads(
                (
                    tmp_path / "out" / "runs" / folder_of(result) / "generate" / test / "done.json"
                ).read_text()
            )
            for test in ("newstest2013", "newstest2014")
        }
        assert commands["newstest2014"][commands["newstest2014"].index("--lenpen") + 1] == "0.6"
        assert commands["newstest2013"][commands["newstest2013"].index("--lenpen") + 1] == "1.0"


@pytest.mark.slow
def test_wmt14(tmp_path):
    """Prepared first, as where Google's archive cannot be had, and then trained on."""
    archives = unpack(wmt14_en_de_archives(pairs=100, test_pairs=12), tmp_path / "archives")
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    flags = ["--archive", archives, "--out", corpus, "--bpe-merges", 150, "--workers", 1]
    wmt14_en_de.main(list(map(str, flags)))
    process = run(
        "wmt_en_de",
        *("--corpus", corpus, "--out", out, "--connections", "pre", "--depths", "1"),
        *("--updates", "150", "--average", "2"),
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert "wmt14_en_de en-de, tokenised BLEU, published by others" in process.stdout
    result = json.loads((out / "runs" / "pre-1x1-seed1" / "result.json").read_text())
    assert (result["status"], result["benchmark"]) == ("ok", "wmt14_en_de en-de")
    assert list(result["scores"]) == ["newstest2014"]
    assert "compound_split_bleu" in result["scores"]["newstest2014"]
    assert "--lenpen 0.6" in result["generate_command"]
