#!/usr/bin/env bash
# Prepares Multi30k, English to German, French or Czech; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.multi30k "$@"
