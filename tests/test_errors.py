"""How wrong use is reported."""

import pickle

from residual_fairseq.errors import UsageError


def test_one_line_from_another_process_too():
    error = pickle.loads(pickle.dumps(UsageError("--lr 0: has to be above 0")))
    assert str(error) == "residual_fairseq: --lr 0: has to be above 0"
