#!/usr/bin/env bash
# Trains one model of a benchmark; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.run train "$@"
