#!/usr/bin/env bash
# Runs Python of the environment that scripts/setup.sh made, else python3, with the checkout's
# modules: bash scripts/python.sh -m data_prep.multi30k --help
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[[ -x $python ]] || python=python3
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" "$@"
