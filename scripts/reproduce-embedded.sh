#!/usr/bin/env bash
# The generated corpus, bilingual, to a table; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/python.sh" -m scripts.reproduce embedded "$@"
