//go:build linux && (386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64)

package bpf

import _ "embed"

//go:embed answer_bpfel.o
var answer []byte

//go:embed translate_bpfel.o
var translate []byte

//go:embed queue_bpfel.o
var queue []byte

//go:embed shape_bpfel.o
var shape []byte
