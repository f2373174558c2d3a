//go:build linux && (mips || mips64 || ppc64 || s390x)

package bpf

import _ "embed"

//go:embed answer_bpfeb.o
var answer []byte

//go:embed translate_bpfeb.o
var translate []byte

//go:embed queue_bpfeb.o
var queue []byte

//go:embed shape_bpfeb.o
var shape []byte
