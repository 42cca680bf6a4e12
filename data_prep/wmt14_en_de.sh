#!/usr/bin/env bash
# Prepares WMT'14 En-De from the corpora of statmt.org; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.wmt14_en_de "$@"
