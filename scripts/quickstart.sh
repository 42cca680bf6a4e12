#!/usr/bin/env bash
# From an empty machine to BLEU scores, a table and a picture; scripts/quickstart.py says how.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for argument in "$@"; do
  case $argument in
    --help | -h) exec python3 "$root/scripts/quickstart.py" --help ;;
  esac
done
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
# A mistyped flag is refused at once, not after the minutes that set-up takes.
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
  python3 -c 'import sys; from scripts.quickstart import parse; parse(sys.argv[1:])' "$@"
fi

bash "$root/scripts/setup.sh"
exec "$root/.venv/bin/python" "$root/scripts/quickstart.py" "$@"
