package bth

import "cmp"

// MaxPSN is the largest packet sequence number (PSN); 0 follows it.
const MaxPSN = 1<<24 - 1

// ReadPSNs returns the number of PSNs that an RDMA READ of this length in octets
// uses: one for each response packet of up to mtu octets, the path MTU, and at
// least one. An mtu of 0 stands for 256, the smallest path MTU.
func ReadPSNs(length uint32, mtu uint16) uint32 {
	size := uint32(cmp.Or(mtu, 256))
	return max(1, length/size+min(1, length%size))
}

// AddPSN returns psn plus n, modulo 2^24.
func AddPSN(psn, n uint32) uint32 { return (psn + n) & MaxPSN }

// ComparePSN returns the distance from b to a, modulo 2^24: from -8,388,608 to
// 8,388,607, negative if a is before b.
func ComparePSN(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }
