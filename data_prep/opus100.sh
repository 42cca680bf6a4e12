#!/usr/bin/env bash
# Prepares OPUS-100; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.opus100 "$@"
