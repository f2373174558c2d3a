#!/usr/bin/env bash
# Mutation testing: changes the code of each library package in small ways and
# says which changes no test notices. It takes an hour or so and is not part of
# .ci/run; docs/MUTANTS.md says which survivors are equivalent to the code, and why.
#
#	tools/mutate.sh [package folder …]
set -euo pipefail
cd "$(dirname "$0")/.."

gremlins=github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
packages=("$@")
((${#packages[@]})) || packages=(bth internal/crc icrc ipv6opt ioam cm pfc pnc rocev2 encap cnp ppfc fcn proxymsg fastcnp message)
for package in "${packages[@]}"; do
	printf '== %s\n' "$package"
	go run "$gremlins" unleash --timeout-coefficient 20 --workers 2 "./$package" | grep -vE 'KILLED|NOT COVERED|TIMED OUT' || true
done
