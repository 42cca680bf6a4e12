"""How wrong use is reported: one line, and a non-zero exit."""

from __future__ import annotations

import sys

#: What a wrong path on a command line comes to. Other errors of the system need their traceback.
FILE_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)


class UsageError(SystemExit):
    """Wrong use, said in one line that names the flag or file and what to do.

    Left uncaught it prints that line to stderr and exits with status 1, without a traceback. It
    derives from ``SystemExit`` and not from ``Exception`` because fairseq's trainer and Hydra
    catch every ``Exception`` and bury its message under their own.

    Args:
        message: one line, for a person.
    """

    def __init__(self, message: str) -> None:
        super().__init__(f"residual_fairseq: {message}")
        self.message = message

    def __reduce__(self):
        # From another process it would come with the beginning twice.
        return type(self), (self.message,)


def shorten_file_errors() -> None:
    """Lets fairseq's commands report a missing or unreadable file in one line.

    Such an error is about the command line, a data-bin that does not exist for instance, and its
    traceback says nothing more. Every other exception is shown as before.
    """
    show = sys.excepthook

    def hook(kind, error, traceback):
        if isinstance(error, FILE_ERRORS) and in_fairseq_command(traceback):
            print(f"residual_fairseq: {error}", file=sys.stderr)
        else:
            show(kind, error, traceback)

    sys.excepthook = hook


def in_fairseq_command(traceback) -> bool:
    """Whether the exception passed through one of fairseq's command-line programs."""
    while traceback is not None:
        if "fairseq_cli" in traceback.tb_frame.f_code.co_filename:
            return True
        traceback = traceback.tb_next
    return False
