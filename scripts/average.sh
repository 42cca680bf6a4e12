#!/usr/bin/env bash
# Averages the checkpoints of a training; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.run average "$@"
