#!/usr/bin/env bash
# Prepares Home Assistant's translations, real text from a package registry; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.home_assistant "$@"
