#!/usr/bin/env bash
# Prepares IWSLT'14 German-English; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.iwslt14 "$@"
