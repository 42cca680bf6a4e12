"""IWSLT'14 from its archive to a table."""

import pytest
from archives_made import iwslt14_files, tar
from chains import check_chain


@pytest.mark.slow
def test_iwslt14(tmp_path):
    archive = tmp_path / "de-en.tgz"
    archive.write_bytes(tar(iwslt14_files(talks=8, lines=40)))
    results = check_chain(
        "iwslt14", archive, tmp_path / "out", "--prepare", "--bpe-merges 150", "--seeds", "2"
    )
    assert {result["seed"] for result in results} == {2}
    for result in results:
        if result["status"] == "ok":
            assert set(result["scores"]["test"]) == {"bleu", "chrf", "ter", "tokenised_bleu"}
