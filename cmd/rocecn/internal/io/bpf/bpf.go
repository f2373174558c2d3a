// Package bpf has the programs that run in the Linux kernel: their sources are in
// src, under a license of their own, and tools/bpf compiles them. It loads them,
// and reads what they count and what they put into ring buffers.
//
// Each source is one object, so that the rights and the kernel that one needs are no
// condition of another. They run on Linux 6.1 and later.
package bpf
