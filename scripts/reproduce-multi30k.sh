#!/usr/bin/env bash
# Multi30k from archive to table; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.reproduce multi30k "$@"
