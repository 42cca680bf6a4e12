#!/usr/bin/env bash
# From an empty machine to BLEU scores, a table and a picture; scripts/quickstart.py says how.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for argument in "$@"; do
  case $argument in
    --help | -h) exec python3 "$root/scripts/quickstart.py" --help ;;
  esac
done

bash "$root/scripts/setup.sh"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$root/.venv/bin/python" "$root/scripts/quickstart.py" "$@"
