#!/usr/bin/env bash
# Runs the fuzz targets: see tools/fuzz/main.go, or -h.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./tools/fuzz "$@"
