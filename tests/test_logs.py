"""Training logs of fairseq."""

import pytest

from residual_fairseq.errors import UsageError
from residual_fairseq.logs import read_log


def train_line(updates, loss, speed=1000):
    stats = f'"loss": "9.9", "nll_loss": "{loss}", "wps": "{speed}", "num_updates": "{updates}"'
    return f'2024-01-01 10:00:00 | INFO | train_inner | {{"epoch": 1, {stats}}}\n'


def valid_line(updates, loss):
    stats = f'"valid_loss": "9.9", "valid_nll_loss": "{loss}", "valid_num_updates": "{updates}"'
    return f'2024-01-01 10:00:00 | INFO | valid | {{"epoch": 1, {stats}}}\n'


@pytest.fixture
def log(tmp_path):
    """A function that writes a log and reads it."""

    def write_and_read(*lines):
        path = tmp_path / "train.log"
        path.write_text("".join(lines), encoding="utf-8")
        return read_log(path)

    return write_and_read


def test_curves_speed_and_size(log):
    read = log(
        "2024-01-01 10:00:00 | INFO | fairseq_cli.train | {'common': {'seed': 1}}\n",
        "... | num. shared model params: 1,234,567 (num. trained: 1,234,567)\n",
        "... | num. expert model params: 0 (num. trained: 0)\n",
        train_line(10, 8.5, speed=900),
        train_line(20, 7.5, speed=1000),
        valid_line(20, 7.25),
        # Validation and saving fall into this one.
        train_line(30, 6.5, speed=100),
        train_line(40, 5.5, speed=1100),
        train_line(50, 5.0, speed=1200),
        '... | train | {"train_loss": "9", "train_nll_loss": "6", "train_num_updates": "50"}\n',
        "... | INFO | fairseq_cli.train | done training in 12.3 seconds\n",
    )
    assert read.train == {10: 8.5, 20: 7.5, 30: 6.5, 40: 5.5, 50: 5.0}
    assert read.valid == {20: 7.25}
    assert read.words_per_second == 1000
    assert read.parameters == 1234567
    assert read.updates == 50
    assert read.finished


def test_resumed_training_counts_its_later_values(log):
    read = log(
        train_line(10, 8.5, speed=500),
        valid_line(10, 8.0),
        train_line(20, 7.9, speed=500),
        valid_line(20, 7.8),
        # Stopped in the middle of a line, and resumed from a checkpoint after 10 updates.
        train_line(30, 7.5)[:70],
        "\n2024-01-01 10:00:00 | INFO | fairseq_cli.train | Start iterating over samples\n",
        train_line(20, 7.1, speed=700),
        valid_line(20, 7.0),
    )
    assert read.train == {10: 8.5, 20: 7.1}
    assert read.valid == {10: 8.0, 20: 7.0}
    assert read.words_per_second == 600
    assert read.updates == 20
    assert not read.finished


def test_resumed_training_is_at_its_last_update_not_the_highest(log):
    assert log(train_line(40, 7.9), train_line(10, 8.5)).updates == 10


def test_line_that_is_being_written_is_not_read_yet(log):
    assert log(train_line(10, 8.5), train_line(20, 7.9)[:-20]).train == {10: 8.5}


def test_file_of_the_flag_log_file_has_bare_objects_several_times(log):
    read = log(
        '{"epoch": 1, "loss": "9", "nll_loss": "8", "wps": "50", "num_updates": "10"}\n',
        '{"epoch": 1, "valid_loss": "7", "valid_num_updates": "10"}\n',
        '{"epoch": 1, "valid_loss": "7", "valid_num_updates": "10"}\n',
    )
    # A criterion without label smoothing has one loss.
    assert (read.train, read.valid, read.words_per_second) == ({10: 8}, {10: 7}, 50)


def test_empty_log(log):
    read = log("")
    assert (read.updates, read.words_per_second, read.parameters) == (0, None, None)
    assert not read.finished


def test_missing_log(tmp_path):
    with pytest.raises(UsageError, match="none.log: No such file"):
        read_log(tmp_path / "none.log")
