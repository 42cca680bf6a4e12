#!/usr/bin/env bash
# OPUS-100 from archive to table; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.reproduce opus100 "$@"
