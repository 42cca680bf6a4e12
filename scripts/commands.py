"""Runs commands from several threads, each with a log file, and can stop them all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Sequence


class CommandFailed(Exception):
    """A command ended with an error; the message names its log and quotes its last line."""


class Stopped(Exception):
    """The command was stopped by `Commands.stop`, or not started because of it."""


class Commands:
    """Commands that can be stopped together.

    Args:
        environment: variables they get besides those of this process.
        lock: file descriptor that they hold open as long as they live, so that a lock on it
            outlives this process if it is killed and they are not.
    """

    def __init__(self, environment: dict[str, str], lock: int) -> None:
        self._environment = {**os.environ, **environment}
        self._lock = lock
        self._mutex = threading.Condition()
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def call(self, command: Sequence[str], log: Path) -> int:
        """Run a command to its end; what it says is appended to the log.

        Returns:
            the most memory that it, or one of its own processes, took at once, in bytes.

        Raises:
            CommandFailed: it ended with an error.
            Stopped: it did not come to its end.
        """
        with open(log, "ab") as file, self._mutex:
            if self._stopped:
                raise Stopped
            # In a session of its own, so that Ctrl-C reaches it through `stop` alone.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environment,
                pass_fds=(self._lock,),
                start_new_session=True,
            )
            self._running.add(process)
        _, waited, usage = os.wait4(process.pid, 0)
        status = process.returncode = os.waitstatus_to_exitcode(waited)
        with self._mutex:
            self._running.remove(process)
            self._mutex.notify_all()
            if self._stopped:
                raise Stopped
        if status < 0:
            raise CommandFailed(f"{log}: killed by {signal.Signals(-status).name}")
        if status:
            raise CommandFailed(f"{log}: {last_line(log)}")
        # Linux counts in KiB, macOS in bytes.
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def stop(self) -> None:
        """End what is running, and start nothing any more."""
        with self._mutex:
            self._stopped = True
            # Not by Popen's own methods: they would collect the status that `call` waits for.
            for sent in (signal.SIGTERM, signal.SIGKILL):
                for process in self._running:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, sent)
                if self._mutex.wait_for(lambda: not self._running, timeout=10):
                    break


def last_line(log: Path) -> str:
    """The last line of a log that is not blank."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "(nothing)")
