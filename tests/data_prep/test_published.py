"""Our counts beside published ones."""

from data_prep.published import Published, compare


def test_counts_stand_beside_published_ones_and_differences_are_warnings():
    published = {"train": Published(160_239, "logs"), "test": Published(6_750, "logs")}
    counts = {"test": 6_750, "own": 1, "train": 12_928}
    assert compare(counts, published) == [
        "test: 6750, as published (logs)",
        "WARNING: train: 12928 where 160239 is published (logs)",
    ]
