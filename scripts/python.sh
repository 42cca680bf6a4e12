#!/usr/bin/env bash
# Runs Python in the environment that scripts/setup.sh makes, with the checkout's modules.
set -euo pipefail

case ${1:-} in
  -m) shift ;;
  --help | -h)
    cat <<'END'
usage: bash scripts/python.sh -m MODULE [ARGUMENT ...]

Runs a module of the checkout, such as data_prep.bilingual, with .venv's Python if there is one
(scripts/setup.sh), else with python3.
END
    exit
    ;;
  *)
    printf 'python.sh: unknown argument %s; see --help\n' "${1:-}" >&2
    exit 2
    ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=python3
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
# While it is imported, fairseq logs what is of no use to a reader of our output.
quiet='import logging, runpy, sys
logging.disable(logging.INFO)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)'
exec "$python" -c "$quiet" "$@"
