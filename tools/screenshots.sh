#!/usr/bin/env bash
# Takes the pictures of the page of rocecn flows -html in docs/pictures, with
# Chromium (Debian: chromium, fonts-dejavu-core).
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p docs/pictures
pictures=$PWD/docs/pictures
cd cmd/rocecn/internal/flows/browsertest
go test -count=1 -run '^(TestPhoneDarkAndPrint|TestQueuesAndPauses)$' . -pictures "$pictures"
ls -l "$pictures"
