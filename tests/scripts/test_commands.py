"""Commands that are run from threads and can be stopped."""

import fcntl
import sys
import threading
import time

import pytest

from scripts.commands import CommandFailed, Commands, Stopped


@pytest.fixture
def lock(tmp_path):
    with open(tmp_path / "lock", "w") as file:
        yield file


def python(code):
    return [sys.executable, "-c", code]


def test_output_is_appended_to_the_log(tmp_path, lock):
    commands = Commands({"GREETING": "hello"}, lock.fileno())
    log = tmp_path / "log"
    commands.call(python("import os; print(os.environ['GREETING'])"), log)
    commands.call(python("import sys; print('again', file=sys.stderr)"), log)
    assert log.read_text() == "hello\nagain\n"


def test_failure_quotes_the_last_line(tmp_path, lock):
    log = tmp_path / "log"
    with pytest.raises(CommandFailed, match=f"{log}: the reason"):
        Commands({}, lock.fileno()).call(
            python("print('before'); print('the reason\\n\\n'); exit(1)"), log
        )


def test_command_that_was_killed(tmp_path, lock):
    with pytest.raises(CommandFailed, match="log: killed by SIGKILL"):
        Commands({}, lock.fileno()).call(
            python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), tmp_path / "log"
        )


@pytest.fixture
def background(tmp_path):
    """A function that starts a command without end in a thread, and waits until it runs."""

    def start(commands):
        log, ends = tmp_path / "background.log", []

        def call():
            try:
                commands.call(python("print('on', flush=True); import time; time.sleep(600)"), log)
            except Stopped as error:
                ends.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        return thread, ends

    return start


def test_stop_ends_what_runs_and_lets_nothing_start(tmp_path, lock, background):
    commands = Commands({}, lock.fileno())
    thread, ends = background(commands)
    commands.stop()
    thread.join(timeout=60)
    assert len(ends) == 1
    with pytest.raises(Stopped):
        commands.call(python("print('more')"), tmp_path / "log")
    assert (tmp_path / "log").read_text() == ""


def test_lock_is_held_as_long_as_a_command_lives(tmp_path, lock, background):
    fcntl.flock(lock, fcntl.LOCK_EX)
    commands = Commands({}, lock.fileno())
    thread, _ = background(commands)
    lock.close()
    with open(tmp_path / "lock", "w") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        commands.stop()
        thread.join(timeout=60)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
