"""``python -m residual_fairseq`` prints the path to give to fairseq's ``--user-dir``."""

from pathlib import Path

print(Path(__file__).resolve().parent)
