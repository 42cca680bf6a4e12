"""Set-up, the wheel, and the plugin used from where a wheel put it."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from conftest import ROOT

import residual_fairseq

PACKAGE = ROOT / "residual_fairseq"
SCRIPTS = sorted(path.name for path in (ROOT / "scripts").glob("*.sh"))
CANDIDATES = ("python3", "python3.9", "python3.10", "python3.11", "python3.12")
# All that setup.sh calls besides Python; a folder with these alone is a machine without compiler.
TOOLS = "bash basename cat cksum cp dirname find ls mkdir mv rm sed sh tail touch".split()

# A Python of any version, with a pip that only says what it was asked for.
STAND_IN = """#!/bin/sh
case "$*" in
  *version_info*) echo {version} ;;
  *realpath*) echo "{base}/python{version}" ;;
  *fcntl*) exec "{real}" "$@" ;;
  *ensurepip*) exit {no_venv} ;;
  *Python.h*) exit {no_headers} ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip "*) echo "called: $*"; echo "$*" >>"{base}/calls"; exit "$(cat "{base}/pip_status")" ;;
  "-m residual_fairseq") ;;
  *) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""


class Machine:
    """A folder of commands, the only ones that setup.sh can find there."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.venv = folder / "a venv"
        self.pip_status = self.bin / "pip_status"
        self.pip_status.write_text("0")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.command("g++", "#!/bin/sh\n")

    def command(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def python(self, name, version, no_venv=0, no_headers=0):
        """Adds a Python that says it is of this version, under this name and its full one."""
        text = STAND_IN.format(
            version=version,
            base=self.bin,
            real=sys.executable,
            no_venv=no_venv,
            no_headers=no_headers,
        )
        self.command(f"python{version}", text)
        return self.command(name, text)

    def start(self, *flags, script=ROOT / "scripts" / "setup.sh", environment=(), **options):
        return subprocess.Popen(
            ["bash", script, "--venv", self.venv, *flags],
            env={"PATH": str(self.bin), **dict(environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def setup(self, *flags, **options):
        """Runs setup.sh to its end.

        Returns:
            Its exit status and what it printed to stdout and to stderr.
        """
        process = self.start(*flags, **options)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def calls(self):
        """What pip was asked for since the last time this was called."""
        calls = self.bin / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def only_line(result):
    """The one line on stderr of a script that failed."""
    status, _, err = result
    assert status != 0
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_unsupported_python_is_refused(machine, version):
    python = machine.python("python3", version)
    for line in (
        only_line(machine.setup("--python", python)),
        only_line(machine.setup(environment={"PYTHON": str(python)})),
        only_line(machine.setup()),
    ):
        assert version in line and "3.9 to 3.12" in line and "--python" in line
    assert not machine.venv.exists()


def test_what_does_not_run_as_python_is_refused(machine):
    assert "nowhere" in only_line(machine.setup("--python", "nowhere"))
    assert "no Python 3.9 to 3.12" in only_line(machine.setup())


@pytest.mark.parametrize(
    "versions, chosen",
    [
        ({"python3": "3.10", "python3.11": "3.11"}, "python3"),
        ({"python3": "3.13", "python3.12": "3.12", "python3.11": "3.11"}, "python3.11"),
        ({"python3": "3.8", "python3.12": "3.12", "python3.9": "3.9"}, "python3.12"),
        ({"python3.9": "3.9", "python3.10": "3.10"}, "python3.10"),
        ({"python3": "3.13", "python3.9": "3.9"}, "python3.9"),
    ],
)
def test_choice_of_python(machine, versions, chosen):
    for name, version in versions.items():
        machine.python(name, version)
    status, out, err = machine.setup()
    assert status == 0, err
    assert f"with Python {versions[chosen]} ({chosen})" in out


@pytest.mark.parametrize(
    "lack, words",
    [({"no_venv": 1}, "python3.11-venv"), ({"no_headers": 1}, "python3.11-dev")],
)
def test_incomplete_python_is_refused(machine, lack, words):
    machine.python("python3", "3.11", **lack)
    assert words in only_line(machine.setup())
    assert not machine.calls()


def test_machine_without_compiler_is_refused(machine):
    machine.python("python3", "3.11")
    (machine.bin / "g++").unlink()
    assert "C++ compiler" in only_line(machine.setup())
    machine.command("my-compiler", "#!/bin/sh\n")
    assert machine.setup(environment={"CXX": "my-compiler -O2"})[0] == 0


def test_second_call_finds_nothing_to_do(machine):
    machine.python("python3", "3.11")
    status, out, err = machine.setup()
    assert status == 0, err
    assert machine.calls()
    # The environment knows its Python even when it is not the first choice any more.
    machine.python("python3", "3.12")
    status, out, _ = machine.setup()
    assert (status, out.count("\n")) == (0, 1)
    assert "up to date (Python 3.11)" in out
    assert not machine.calls()


@pytest.mark.parametrize(
    "version, first, last",
    [
        ("3.9", "torch==2.8.0", "torch==2.8.0 -e .[fairseq,test]"),
        ("3.10", "torch==2.13.0", "torch==2.13.0 -e .[fairseq,test]"),
        (
            "3.11",
            "torch==2.13.0 numpy cython setuptools wheel",
            "torch==2.13.0 --no-build-isolation -e .[fairseq,test]",
        ),
    ],
)
def test_what_is_installed(machine, version, first, last):
    machine.python("python3", version)
    status, _, err = machine.setup()
    assert status == 0, err
    *older, torch, rest = machine.calls()
    assert older == (["-m pip install pip<24.1"] if version in ("3.9", "3.10") else [])
    assert torch == f"-m pip install {first}"
    assert rest == f"-m pip install {last}"


def test_failure_shows_the_end_of_the_log_and_is_resumed(machine):
    machine.python("python3", "3.11")
    machine.pip_status.write_text("1")
    status, _, err = machine.setup()
    *log, last = err.splitlines()
    assert status == 1
    assert any(line.startswith("called: -m pip install torch") for line in log)
    assert last.startswith("setup.sh: failed at: ") and str(machine.venv / "setup.log") in last
    machine.pip_status.write_text("0")
    assert "aking" not in machine.setup()[1].splitlines()[0]
    assert "up to date" in machine.setup()[1]


@pytest.mark.parametrize(
    "harm, reason",
    [
        (lambda venv: (venv / "bin" / "python").unlink(), "Python is gone"),
        (lambda venv: (venv / "setup.unfinished").touch(), "cut off"),
        (lambda venv: (venv / "setup.made").unlink(), "Making"),
    ],
)
def test_broken_environment_is_made_anew(machine, harm, reason):
    machine.python("python3", "3.11")
    assert machine.setup()[0] == 0
    (machine.venv / "leftover").touch()
    harm(machine.venv)
    status, out, _ = machine.setup()
    assert status == 0 and reason in out
    assert not (machine.venv / "leftover").exists()
    assert "up to date" in machine.setup()[1]


def test_killed_pip_leaves_an_environment_that_is_made_anew(machine):
    machine.python("python3", "3.11")
    machine.pip_status.write_text("137")
    assert machine.setup()[0] == 1
    machine.pip_status.write_text("0")
    assert "cut off" in machine.setup()[1]


def test_interrupted_pip_leaves_an_environment_that_is_made_anew(machine):
    python = machine.python("python3", "3.11")
    whole = python.read_text()
    # pip itself takes an interrupt for a failure like any other.
    slow = '  "-m pip "*) trap \'exit 1\' INT; echo >"{0}/calls"; while :; do :; done ;;\n'
    python.write_text(whole.replace("  *ensurepip*)", slow.format(machine.bin) + "  *ensurepip*)"))
    process = machine.start(start_new_session=True, preexec_fn=listen_to_interrupts)
    while not (machine.bin / "calls").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    python.write_text(whole)
    assert "cut off" in machine.setup()[1]


def listen_to_interrupts():
    """For a process that is started by one that ignores them, such as a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_another_place_python_or_torch_makes_it_anew(machine, tmp_path):
    machine.python("python3", "3.11")
    assert machine.setup()[0] == 0
    machine.venv = machine.venv.rename(tmp_path / "moved")
    assert "another place" in machine.setup()[1]
    machine.python("other", "3.10")
    assert "It holds Python 3.11" in machine.setup("--python", "other")[1]
    machine.calls()
    assert "another PyTorch" in machine.setup(environment={"TORCH": "torch==2.6.0 --pre"})[1]
    assert all("torch==2.6.0 --pre" in call for call in machine.calls()[1:])
    # Not given again, it stays.
    assert "up to date" in machine.setup()[1]


def test_changed_requirements_are_brought_in(machine, tmp_path):
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "scripts/setup.sh"):
        shutil.copy(ROOT / name, checkout / name)
    machine.python("python3", "3.11")
    script = checkout / "scripts" / "setup.sh"
    assert machine.setup(script=script)[0] == 0
    (machine.venv / "kept").touch()
    with open(checkout / "setup.py", "a") as lines:
        lines.write("# changed\n")
    machine.calls()
    status, out, err = machine.setup(script=script)
    assert status == 0, err
    assert "Bringing" in out and machine.calls()
    assert (machine.venv / "kept").exists()


def test_folder_of_another_is_left_alone(machine):
    machine.python("python3", "3.11")
    (machine.venv / "bin").mkdir(parents=True)
    assert "not made by this script" in only_line(machine.setup())
    assert [path.name for path in machine.venv.iterdir()] == ["bin"]


def test_second_set_up_waits_for_the_first(machine):
    machine.python("python3", "3.11")
    machine.venv.mkdir()
    with open(machine.venv / "setup.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = machine.start()
        assert "waiting" in process.stdout.readline()
        assert not machine.calls()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert machine.calls()


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_show_how_they_are_used(script, tmp_path):
    process = run(["bash", ROOT / "scripts" / script, "--help"], cwd=tmp_path)
    assert process.stdout.startswith("usage: bash scripts/" + script)
    assert process.stderr == ""


# test.sh gives what it does not know to pytest.
@pytest.mark.parametrize("script", [name for name in SCRIPTS if name != "test.sh"])
def test_scripts_refuse_what_they_do_not_know(script, tmp_path):
    if script != "setup.sh" and not (ROOT / ".venv" / "setup.stamp").exists():
        pytest.skip("it would set up .venv first")
    process = run(["bash", ROOT / "scripts" / script, "--no-such-flag"], cwd=tmp_path, check=False)
    assert process.returncode != 0
    assert "Traceback" not in process.stderr
    # argparse names what is missing before what it does not know.
    assert re.search("--no-such-flag|are required", process.stderr.splitlines()[-1])


def run(command, check=True, **options):
    process = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )
    assert process.returncode == 0 or not check, process.stderr[-2000:]
    return process


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built from a copy of the checkout, where older builds left nothing."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    caches = shutil.ignore_patterns("__pycache__")
    for name in ("residual_fairseq", "data_prep", "tests", "scripts"):
        shutil.copytree(ROOT / name, source / name, ignore=caches)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation",
         "--wheel-dir", folder, source])  # fmt: skip
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", folder,
         wheel])  # fmt: skip
    return folder


@pytest.fixture
def elsewhere(installed, tmp_path):
    """Options of `run` for a process that knows the installed plugin, and not the checkout's."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    return {"cwd": tmp_path, "env": environment}


def contents(folder):
    """The files of a package, relative to what holds it."""
    return {
        path.relative_to(folder.parent).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == contents(PACKAGE)
    assert "residual_fairseq/connections/residual.py" in names


@pytest.mark.slow
def test_metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(archive.read(name))
    assert metadata["Version"] == residual_fairseq.__version__
    assert set(metadata["Requires-Python"].split(",")) == {">=3.9", "<3.13"}
    # A fairseq of the user's own must not be replaced.
    unasked = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert any(line.startswith("torch") for line in unasked)
    assert not any("fairseq" in line for line in unasked)


COMMAND = [Path(sys.executable).with_name("fairseq-train")]
# A program that has imported the plugin before fairseq reads --user-dir.
PROGRAM = [
    sys.executable,
    "-c",
    "import residual_fairseq; from fairseq_cli.train import cli_main; cli_main()",
]


@pytest.mark.slow
def test_module_prints_where_it_is_installed(installed, elsewhere):
    process = run([sys.executable, "-m", "residual_fairseq"], **elsewhere)
    assert process.stdout == f"{installed / 'residual_fairseq'}\n"


@pytest.mark.slow
@pytest.mark.parametrize("train", [COMMAND, PROGRAM], ids=["command", "program"])
def test_installed_plugin_trains(toy_run, installed, elsewhere, train):
    flags = (
        "--arch residual_transformer_tiny --encoder-layers 1 --decoder-layers 1 --optimizer adam"
        " --max-tokens 200 --num-workers 0 --cpu --max-update 1 --disable-validation"
        " --save-dir save"
    ).split()
    run([*train, toy_run.data, "--user-dir", installed / "residual_fairseq", *flags], **elsewhere)
    assert (elsewhere["cwd"] / "save" / "checkpoint_last.pt").exists()


@pytest.mark.slow
def test_user_dir_wins_over_the_installed_copy(installed, elsewhere):
    copy = elsewhere["cwd"] / "residual_fairseq"
    shutil.copytree(installed / "residual_fairseq", copy)
    with open(copy / "__init__.py", "a") as lines:
        lines.write("print('this copy', __file__)\n")
    process = run([*COMMAND, "--user-dir", copy, "--help"], **elsewhere)
    assert f"this copy {copy / '__init__.py'}\n" in process.stdout


@pytest.mark.slow
def test_program_can_not_mix_two_copies(elsewhere):
    process = run([*PROGRAM, "--user-dir", PACKAGE, "--help"], check=False, **elsewhere)
    assert process.returncode != 0
    last = process.stderr.splitlines()[-1]
    assert "ImportError" in last and str(PACKAGE) in last
