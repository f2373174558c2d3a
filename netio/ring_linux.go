package netio

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/internal/wire"
)

// A ring is memory that the kernel writes packets into (TPACKET_V3), in blocks
// that are handed over when they are full or some time after their first packet.
type ring struct {
	fd     int
	memory []byte
	block  []byte // the one that is being read, nil before the kernel has handed it over
	next   int    // where the next block begins
	at     int    // where the next packet of the block begins
	left   int    // packets of the block
}

const (
	blockSize = 512 << 10 // room for a packet of maxFrame
	blocks    = 64
	handOver  = 10 // milliseconds
)

func newRing(fd int) (*ring, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_RESERVE, wire.TagSize); err != nil {
		return nil, err
	}
	const frame = 2048 // means nothing in this version, but must fit
	request := unix.TpacketReq3{
		Block_size: blockSize, Block_nr: blocks,
		Frame_size: frame, Frame_nr: blocks * blockSize / frame,
		Retire_blk_tov: handOver,
	}
	if err := unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &request); err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return &ring{fd: fd, memory: memory}, err
}

// Places in a block: struct tpacket_block_desc, then the packets, each with a
// struct tpacket3_hdr and a struct sockaddr_ll.
const (
	atStatus  = 8
	atPackets = 12 // number of packets
	atFirst   = 16 // offset of the first packet

	atNext    = 0
	atSeconds = 4
	atNanos   = 8
	atSnap    = 12 // octets that are here
	atOctets  = 16 // of the whole packet
	atTP      = 20 // TP_STATUS_…
	atLink    = 24 // where the packet begins
	atNetwork = 26
	atTCI     = 32
	atTPID    = 36
	atFrom    = 48
)

// read returns the next packets, all of one block, in packets.
func (r *ring) read(packets []Packet) (n int, err error) {
	if r.left == 0 && !r.turn() {
		code, err := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		return 0, err
	}
	for ; n < len(packets) && r.left > 0; n++ {
		h := r.block[r.at:]
		begin := int(ne.Uint16(h[atLink:]))
		end := begin + int(ne.Uint32(h[atSnap:]))
		packets[n].set(
			h[begin-wire.TagSize:end:end],
			time.Unix(int64(ne.Uint32(h[atSeconds:])), int64(ne.Uint32(h[atNanos:]))).UTC(),
			h[atFrom:],
			packetMeta{
				status: ne.Uint32(h[atTP:]), octets: ne.Uint32(h[atOctets:]),
				network: int(ne.Uint16(h[atNetwork:])) - begin,
				tci:     uint16(ne.Uint32(h[atTCI:])), tpid: ne.Uint16(h[atTPID:]),
			})
		r.at += int(ne.Uint32(h[atNext:]))
		r.left--
	}
	return n, nil
}

// turn gives the block that was read back to the kernel, and reports whether the next one is ready.
func (r *ring) turn() bool {
	if r.block != nil {
		atomic.StoreUint32(status(r.block), unix.TP_STATUS_KERNEL)
		r.block = nil
	}
	block := r.memory[r.next:][:blockSize]
	if atomic.LoadUint32(status(block))&unix.TP_STATUS_USER == 0 {
		return false
	}
	r.block, r.next = block, (r.next+blockSize)%len(r.memory)
	r.at, r.left = int(ne.Uint32(block[atFirst:])), int(ne.Uint32(block[atPackets:]))
	return true
}

// status points to the field of a block that names its owner, the kernel or the program.
func status(block []byte) *uint32 { return (*uint32)(unsafe.Pointer(&block[atStatus])) }

func (r *ring) close() error {
	if r == nil || r.memory == nil {
		return nil
	}
	return unix.Munmap(r.memory)
}
