#!/usr/bin/env bash
# Prepares WMT En-De as Google preprocessed it; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.wmt_en_de "$@"
