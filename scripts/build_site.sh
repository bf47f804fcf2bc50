#!/usr/bin/env bash
# Builds the documentation site into site/: generated reference pages first; warnings are errors.
#
#   scripts/build_site.sh && python -m http.server --directory site     to view it; or `zensical serve`, which rebuilds
set -euo pipefail
cd "$(dirname "$0")/.."
python scripts/reference_pages.py
log=$(mktemp) && trap 'rm -f "$log"' EXIT
zensical build --clean --strict 2>&1 | tee "$log" # strict: links to pages and anchors that do not exist
if grep --quiet '^griffe:' "$log"; then # --strict does not know about docstrings that cannot be read
  echo "docstrings have faults, see above" >&2
  exit 1
fi
