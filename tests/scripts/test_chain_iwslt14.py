"""IWSLT'14 from its archive to a table."""

import pytest
from archives_made import iwslt14_files, tar
from chains import check_chain, check_order


@pytest.mark.slow
def test_iwslt14(tmp_path):
    archive = tmp_path / "de-en.tgz"
    archive.write_bytes(tar(iwslt14_files(talks=8, lines=40)))
    results, trained = check_chain(
        "iwslt14", archive, tmp_path / "out", "--prepare", "--bpe-merges 150", "--seeds", "2"
    )
    assert {result["seed"] for result in results} == {2}
    for result in trained:
        found = result["scores"]["test"]
        assert set(found) == {"bleu", "cased_bleu", "chrf", "ter", "tokenised_bleu"}
        assert found["bleu"]["score"] > found["cased_bleu"]["score"]
    check_order(tmp_path / "out", trained, "test")
