"""residual_fairseq: how should a deep Transformer carry its residual stream?

A fairseq plugin: importing it, as ``--user-dir`` does, registers the model
``residual_transformer`` with every residual connection of `residual_fairseq.connections`, lets
fairseq's commands load checkpoints with PyTorch's weights-only loader, and keeps fairseq's main
branch from dropping sentences.
"""

import importlib.util

from .errors import UsageError

if importlib.util.find_spec("fairseq") is None:
    raise UsageError(
        "fairseq is not installed here: run scripts/setup.sh, or see the README on how to install"
    )

from . import batching, checkpoints, connections, errors, models, user_dir  # noqa: E402
from .connections import REGISTRY  # noqa: E402
from .models import ResidualTransformerModel  # noqa: E402

__all__ = ["REGISTRY", "ResidualTransformerModel", "connections", "models"]
__version__ = "0.1.0"

user_dir.announce()
checkpoints.guard()
batching.keep_last_batch()
errors.shorten_file_errors()
