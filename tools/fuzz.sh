#!/usr/bin/env bash
# Runs the fuzz targets of the library and the laboratory: see tools/fuzz/main.go, or -h.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go -C tools build -o "$program" ./fuzz
"$program" "$@"
