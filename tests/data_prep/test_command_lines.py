"""What all command lines of the benchmarks refuse alike."""

import importlib

import pytest

from residual_fairseq.errors import UsageError


@pytest.mark.parametrize(
    "name", ["multi30k", "iwslt14", "wmt14_en_de", "home_assistant", "embedded_corpus"]
)
def test_no_merges_are_no_way_around_the_tokenizer(tmp_path, name):
    main = importlib.import_module(f"data_prep.{name}").main
    with pytest.raises(UsageError, match="--bpe-merges 0: has to be 1 or more"):
        main(["--bpe-merges", "0", "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
