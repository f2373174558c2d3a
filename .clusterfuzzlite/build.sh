#!/bin/bash -eu
# Every native Go fuzz target of the module. Not run yet: it needs the base image.
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		compile_native_go_fuzzer "$package" "$target" "${package##*/}_$target"
	done
done
