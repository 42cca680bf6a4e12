#!/usr/bin/env bash
# Makes the virtual environment that the other scripts work in.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash scripts/setup.sh [--python PYTHON] [--venv FOLDER]

Makes a virtual environment, .venv in the checkout, with PyTorch, fairseq, this plugin (editable)
and what data preparation and the tests need. Call it as often as you like: it repairs an
installation that was cut off, brings in changed requirements, or finds nothing to do.

It installs into that folder alone. A fairseq of your own in another environment, the active one
included, is neither used nor changed.

options:
  --python PYTHON  Python 3.9 to 3.12, by name or path (default: $PYTHON, else the one already in
                   the environment, else python3 if it is one of these, else python3.11,
                   python3.12, python3.10 or python3.9)
  --venv FOLDER    where to make the environment (default: .venv in the checkout)
  --help           show this and exit

environment variables:
  PYTHON           as --python
  TORCH            which PyTorch, as arguments for pip; remembered until it is given again
                   (default: torch==2.13.0, on Python 3.9 torch==2.8.0, from pip's own index,
                   which on Linux means a CUDA build of several GB). For example
                     TORCH="torch==2.6.0"
                     TORCH="torch==2.13.0 --extra-index-url URL", URL an index of CPU builds

It needs a C++ compiler and Python's headers, because fairseq is compiled (about five minutes),
and some GB of disk. pip's output goes to FOLDER/setup.log.
END
}

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup.sh: %s\n' "$*" >&2
  exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
asked=${PYTHON:-}
venv=$root/.venv
while (($#)); do
  case $1 in
    --help | -h)
      usage
      exit
      ;;
    --python | --venv)
      (($# > 1)) && [[ -n $2 ]] || fail "$1 needs a value; see --help"
      if [[ $1 == --python ]]; then asked=$2; else venv=$2; fi
      shift 2
      ;;
    *) fail "unknown argument $1; see --help" ;;
  esac
done
parent=$(cd "$(dirname "$venv")" 2>/dev/null && pwd) ||
  fail "--venv $venv: there is no folder $(dirname "$venv")"
venv=$parent/$(basename "$venv")
log=$venv/setup.log

# Another environment's packages would count as installed, or get ours installed over them.
unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_ROOT
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

supported() { [[ $1 == 3.9 || $1 == 3.10 || $1 == 3.11 || $1 == 3.12 ]]; }

# Sets python, a command outside of the environment, and version, such as 3.11.
choose_python() {
  local candidate own seen=""
  if [[ -n $asked ]]; then
    python=$asked
    version=$(version_of "$python") ||
      fail "$python does not run as Python: name a Python 3.9 to 3.12 with --python"
    supported "$version" ||
      fail "$python is Python $version, fairseq needs 3.9 to 3.12: name one with --python"
    return
  fi
  own=$("$venv/bin/python" -c 'import os, sys; print(os.path.realpath(sys.executable))' \
    2>/dev/null) || own=""
  for candidate in "$own" python3 python3.11 python3.12 python3.10 python3.9; do
    if [[ -z $candidate ]] || ! version=$(version_of "$candidate"); then continue; fi
    python=$candidate
    if supported "$version"; then return; fi
    seen="$seen, $candidate is $version"
  done
  fail "found no Python 3.9 to 3.12${seen}: install one, or name it with --python"
}

choose_python
if [[ -e $venv && ! -e $venv/setup.lock && -n $(ls -A "$venv") ]]; then
  fail "$venv was not made by this script: name another folder with --venv, or remove it"
fi
mkdir -p "$venv"
exec 9>>"$venv/setup.lock"
"$python" -c '
import fcntl
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("setup: waiting for another setup.sh that works on this environment", flush=True)
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    print("setup: this file system has no locks: run one setup.sh at a time", flush=True)
'
# What it waited for may have made the environment.
choose_python

recorded=$(sed -n 's/^torch //p' "$venv/setup.made" 2>/dev/null) || recorded=""
TORCH=${TORCH:-$recorded}
made=$(printf 'python %s\nvenv %s\ncheckout %s\ntorch %s' "$version" "$venv" "$root" "$TORCH")
if [[ -z $TORCH ]]; then
  TORCH=torch==2.13.0
  if [[ $version == 3.9 ]]; then TORCH=torch==2.8.0; fi
fi
read -r -a torch <<<"$TORCH"
stamp=$(cat "$root/setup.py" "$root/pyproject.toml" "${BASH_SOURCE[0]}" | cksum)

# Why the environment has to be made anew; nothing if it is good.
anew=""
if [[ ! -e $venv/setup.made ]]; then
  anew="Making"
elif ! present=$(version_of "$venv/bin/python"); then
  anew="Its Python is gone: making anew"
elif [[ $present != "$version" ]]; then
  anew="It holds Python $present: making anew"
elif [[ $(cat "$venv/setup.made") != "$made" ]]; then
  anew="It was made in another place or with another PyTorch: making anew"
elif [[ -e $venv/setup.unfinished ]]; then
  anew="Its installation was cut off: making anew"
elif [[ $(cat "$venv/setup.stamp" 2>/dev/null) == "$stamp" ]]; then
  say "$venv is up to date (Python $version)."
  exit
fi

"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  fail "$python cannot make virtual environments: install its venv module" \
    "(on Debian and Ubuntu python$version-venv)"
compiler=""
for candidate in "${CXX:-}" g++ c++ clang++; do
  if [[ -z $compiler ]] && command -v "${candidate%% *}" >/dev/null; then compiler=$candidate; fi
done
[[ -n $compiler ]] ||
  fail "found no C++ compiler, which fairseq needs: install g++ or clang++, or name one in \$CXX"
"$python" -c '
import os, sysconfig
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))
' || fail "$python has no header files (Python.h), which fairseq needs: install them" \
  "(on Debian and Ubuntu python$version-dev)"

# A pip that was killed can leave packages that look installed and are not. One that fails by
# itself leaves nothing.
trap 'exit 130' INT
trap 'exit 143' TERM
step() {
  local what=$1 status=0
  shift
  say "$what ..."
  printf '\n== %s\n' "$*" >>"$log"
  touch "$venv/setup.unfinished"
  "$@" >>"$log" 2>&1 </dev/null || status=$?
  if ((status < 128)); then rm "$venv/setup.unfinished"; fi
  if ((status)); then
    tail -n 15 "$log" >&2
    fail "failed at: $what; the lines above are the end of $log"
  fi
}

if [[ -n $anew ]]; then
  say "$anew $venv with Python $version ($python). Details go to setup.log in it."
  find "$venv" -mindepth 1 -maxdepth 1 ! -name setup.lock -exec rm -rf {} +
  step "Creating the environment" "$python" -m venv "$venv"
  printf '%s\n' "$made" >"$venv/setup.made"
else
  say "Bringing $venv up to date. Details go to setup.log in it."
  rm -f "$venv/setup.stamp"
fi
cd "$root"
pip=("$venv/bin/python" -m pip install)
case $version in
  3.9 | 3.10)
    # Newer pips refuse omegaconf 2.0.6, which fairseq 0.12.2 asks for. Its build must not see
    # torch, or it looks for a C++ file that it was published without.
    step "Installing pip before 24.1" "${pip[@]}" "pip<24.1"
    step "Installing $TORCH" "${pip[@]}" "${torch[@]}"
    step "Installing fairseq and the rest (some minutes)" \
      "${pip[@]}" "${torch[@]}" -e ".[fairseq,test]"
    ;;
  *)
    # fairseq-fixed asks for torch to build, and with build isolation would get one of its own.
    step "Installing $TORCH" "${pip[@]}" "${torch[@]}" numpy cython setuptools wheel
    step "Installing fairseq and the rest (some minutes)" \
      "${pip[@]}" "${torch[@]}" --no-build-isolation -e ".[fairseq,test]"
    ;;
esac
step "Checking that it can be imported" "$venv/bin/python" -m residual_fairseq

printf '%s\n' "$stamp" >"$venv/setup.stamp.new"
mv "$venv/setup.stamp.new" "$venv/setup.stamp"
say "Done. Activate it with: source $(printf '%q' "$venv")/bin/activate"
