#!/usr/bin/env bash
# Prepares the corpus that Babel and num2words make, bilingual or multilingual; --help says how.
set -euo pipefail

exec bash "$(dirname "${BASH_SOURCE[0]}")/../scripts/python.sh" -m data_prep.embedded_corpus "$@"
