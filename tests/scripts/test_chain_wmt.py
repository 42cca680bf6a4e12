"""Google's WMT'16 archive to a table."""

import json

import pytest
from archives_made import tar, wmt_en_de_files
from chains import check_chain, folder_of


@pytest.mark.slow
def test_wmt(tmp_path):
    archive = tmp_path / "wmt16_en_de.tar.gz"
    archive.write_bytes(tar(wmt_en_de_files(pairs=300)))
    results = check_chain("wmt_en_de", archive, tmp_path / "out")
    trained = [result for result in results if result["status"] == "ok"]
    assert trained, [result["reason"] for result in results]
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
