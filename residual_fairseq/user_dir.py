"""Makes ``--user-dir`` work in a program that has imported this package already."""

from pathlib import Path

from fairseq.utils import import_user_module


def announce() -> None:
    """Tells fairseq that this package is imported.

    fairseq 0.12.2 refuses a ``--user-dir`` whose name is among the imported modules, this very
    package too, unless it remembers to have imported it from there.
    """
    package = Path(__file__).parent
    known = getattr(import_user_module, "memo", set())
    import_user_module.memo = known | {str(package.absolute()), str(package.resolve())}
