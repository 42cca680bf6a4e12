#!/usr/bin/env bash
# Home Assistant's translations from archive to table; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.reproduce home_assistant "$@"
