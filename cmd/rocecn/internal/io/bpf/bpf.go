// Package bpf contains the programs that run in the Linux kernel, loads them, and reads their counters and ring
// buffers. Their sources are in src, under a license of their own, and tools/bpf compiles them.
//
// Each source becomes one object, so that a program needs only its own capabilities and kernel features. The
// programs run on Linux 6.1 and later.
package bpf
