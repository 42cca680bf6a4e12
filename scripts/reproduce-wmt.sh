#!/usr/bin/env bash
# WMT En-De from archive to table; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.reproduce wmt_en_de "$@"
