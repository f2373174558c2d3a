// Command flows writes a capture to measure rocecn flows with: RC connections
// that write to one another, with acknowledgements, all ICRCs right and nothing
// lost.
//
//	go -C tools run ./bench/flows -frames 1000000 -connections 64 "$PWD/big.pcap"
//
// A million frames are 726 MB. With -reads every other message is an RDMA READ: 16 of 34 frames are its responses.
// Without -random-psns all PSNs begin with 0, and without -random-order connections take turns in a fixed order.
//
// With -incidents it writes a small capture instead, in which all kinds of things
// happen to a few connections, to look at:
//
//	go -C tools run ./bench/flows -incidents 21 -connections 4 "$PWD/lossy.pcap"
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/rocev2"
)

func main() {
	frames := flag.Int("frames", 1_000_000, "number of frames")
	incidents := flag.Uint64("incidents", 0, "write the small capture of this `seed`, with losses and other incidents")
	connections := flag.Int("connections", 64, "number of connections that take turns")
	octets := flag.Int("payload", 692, "`octets` in each packet of a message")
	length := flag.Int("message", 16, "number of `packets` of a message")
	reads := flag.Bool("reads", false, "every other message is an RDMA READ")
	var r rounds
	flag.BoolVar(&r.randomPSNs, "random-psns", false, "connections begin with random PSNs, not with 0")
	flag.BoolVar(&r.randomOrder, "random-order", false, "each round of turns is in another, random order")
	flag.Parse()
	packets, payload = *length, make([]byte, max(*octets, 0))
	if flag.NArg() != 1 || *connections < 1 || *connections > 1<<20 || *length < 1 || *octets < 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := createCapture(flag.Arg(0), *frames, *incidents, *connections, *reads, r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// createCapture writes the capture that the flags ask for.
func createCapture(name string, frames int, incidents uint64, connections int, reads bool, r rounds) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	if incidents > 0 {
		err = traffic.Generate(incidents, traffic.Options{Connections: connections}).Write(out)
	} else {
		err = writeCapture(out, frames, connections, reads, r)
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// packets is the number of packets of a message, the last of which asks for an acknowledgement.
var packets int

// rounds are the choices of first PSNs and of the order in which connections take turns. Their seed is constant.
type rounds struct{ randomPSNs, randomOrder bool }

func writeCapture(out io.Writer, frames, connections int, reads bool, r rounds) error {
	w, err := capture.NewWriter(out, capture.Ethernet, time.Nanosecond)
	if err != nil {
		return err
	}
	var frame []byte
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	random, order := rand.New(rand.NewPCG(1, 2)), make([]int, connections)
	psn := make([]uint32, connections)
	for c := range connections {
		order[c] = c
		if r.randomPSNs {
			psn[c] = random.Uint32N(1 << 24)
		}
	}
	for written, turn := 0, 0; written < frames; turn++ {
		if r.randomOrder && turn%connections == 0 {
			random.Shuffle(connections, func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		c := order[turn%connections]
		for i := range packets + 1 {
			if written == frames {
				break
			}
			p := newPacket(c, i, psn[c])
			isRead := reads && turn/connections%2 == 1
			if isRead {
				p = newReadPacket(c, i, psn[c])
			}
			if isRead && i > 0 || !isRead && i < packets { // neither the READ request nor the acknowledgement
				psn[c] = (psn[c] + 1) & 0xFFFFFF
			}
			ethernet := [14]byte{0: 2, 6: 2, 11: 1, 12: 8}
			if frame, err = p.AppendBinary(append(frame[:0], ethernet[:]...)); err != nil {
				return err
			}
			now = now.Add(60 * time.Nanosecond)
			if err := w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: now}); err != nil {
				return err
			}
			written++
		}
	}
	return nil
}

// payload is the payload of each packet of a message. With 692 octets the mean frame of 16 writes and an
// acknowledgement has 710 octets, 726 in the file.
var payload []byte

// newPacket returns packet i of a message of connection c, i = packets is its
// acknowledgement.
func newPacket(c, i int, psn uint32) *rocev2.Packet {
	requester := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0A000000|uint32(c%256))))
	responder := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0A010000|uint32(c%256))))
	p := &rocev2.Packet{Datagram: rocev2.Datagram{
		Src: requester, Dst: responder, TrafficClass: 26<<2 | uint8(rocev2.ECT0), HopLimit: 64,
		SrcPort: 49152 + uint16(c), DstPort: rocev2.Port,
	}}
	h := &p.BTH
	h.DestQP, h.PSN, h.PKey = 0x200000+uint32(c), psn, 0xFFFF
	p.Payload = payload
	switch i {
	case 0:
		if packets == 1 {
			h.Opcode, h.AckReq, h.RETH.DMALength = bth.RCRDMAWriteOnly, true, uint32(len(payload))
			break
		}
		h.Opcode, h.RETH.DMALength = bth.RCRDMAWriteFirst, uint32(packets*len(payload))
	case packets - 1:
		h.Opcode, h.AckReq = bth.RCRDMAWriteLast, true
	case packets:
		p.Src, p.Dst, p.Payload = responder, requester, nil
		h.Opcode, h.DestQP, h.PSN = bth.RCAcknowledge, 0x100000+uint32(c), (psn-1)&0xFFFFFF
		h.AETH.Syndrome = 0x1F
	default:
		h.Opcode = bth.RCRDMAWriteMiddle
	}
	return p
}

// newReadPacket returns packet i of a READ of connection c: the request, or with i from 1 to packets a response with
// this PSN. Half of the connections have an MTU of 512, the others of 1024.
func newReadPacket(c, i int, psn uint32) *rocev2.Packet {
	p, mtu := newPacket(c, packets, psn+1), 512<<(c%2)
	h := &p.BTH
	switch i {
	case 0:
		p.Src, p.Dst = p.Dst, p.Src
		h.Opcode, h.DestQP = bth.RCRDMAReadRequest, 0x200000+uint32(c)
		h.RETH.DMALength = uint32(packets * mtu)
		return p
	case 1:
		h.Opcode = bth.RCRDMAReadResponseFirst
	case packets:
		h.Opcode = bth.RCRDMAReadResponseLast
	default:
		h.Opcode = bth.RCRDMAReadResponseMiddle
	}
	p.Payload = make([]byte, mtu)
	return p
}
