#!/usr/bin/env bash
# Translates and scores the test sets of a training; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.run evaluate "$@"
