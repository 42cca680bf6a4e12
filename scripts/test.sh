#!/usr/bin/env bash
# Runs every check and test that the project has.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash scripts/test.sh [--fast] [PYTEST ARGUMENT ...]

Sets up .venv (scripts/setup.sh), checks the code with ruff and the shell scripts with shellcheck,
then runs the tests. The exit status is pytest's, or 1 if only a check failed.

options:
  --fast           leave out the tests marked slow
  --help           show this and exit
  PYTEST ARGUMENT  given to pytest as it is, e.g. tests/test_layers.py, -k decoder, -x, -n 0;
                   paths are taken from the checkout
END
}

marks=()
case ${1:-} in
  --help | -h)
    usage
    exit
    ;;
  --fast)
    marks=(-m "not slow")
    shift
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash scripts/setup.sh
PATH=$PWD/.venv/bin:$PATH
unset PYTHONPATH PYTHONHOME
# Two processes share the cores better than one process's threads, and sums keep their order.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

checks=0
ruff check . || checks=1
shopt -s nullglob
shellcheck scripts/*.sh data_prep/*.sh .ci/run || checks=1
pytest -n 2 --dist loadfile --durations 10 ${marks[@]+"${marks[@]}"} "$@"
exit "$checks"
