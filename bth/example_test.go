package bth_test

import (
	"errors"
	"fmt"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
)

// The octets after the UDP header of an RDMA WRITE.
var write = []byte{
	0x0a, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0xff, 0xff, 0xfc, // BTH
	0x00, 0x00, 0x7f, 0xf8, 0x1c, 0x36, 0xb0, 0x00, 0x00, 0x00, 0x02, 0x8e, 0x00, 0x00, 0x00, 0x04, // RETH
	'd', 'a', 't', 'a', // payload
	0x12, 0x34, 0x56, 0x78, // ICRC
}

func ExampleHeaders_Decode() {
	var h bth.Headers // to be reused for the next packet
	rest, err := h.Decode(write)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Opcode, "to queue pair", h.DestQP)
	if h.Present.Has(bth.HasRETH) {
		fmt.Printf("%d octets at %#x\n", h.RETH.DMALength, h.RETH.VirtualAddress)
	}
	fmt.Printf("%s\n", rest[:len(rest)-4-int(h.Pad)]) // without pad and ICRC
	// Output:
	// RC RDMA WRITE Only to queue pair 17
	// 4 octets at 0x7ff81c36b000
	// data
}

func ExampleHeaders_AppendBinary() {
	h := bth.Headers{
		Header: bth.Header{Opcode: bth.RCAcknowledge, PKey: 0xffff, DestQP: 0x12, PSN: 7},
		AETH:   bth.AETH{Syndrome: 0x1f, MSN: 3},
	}
	b, err := h.AppendBinary(nil)
	fmt.Printf("%x %v\n", b, err)
	// Output:
	// 1100ffff00000012000000071f000003 <nil>
}

// The BTH without its extended headers, and errors that name the field.
func ExampleHeader() {
	cnp := []byte{0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0xd2, 0x00, 0x00, 0x00, 0x00}
	var h bth.Header
	_, err := h.Decode(cnp)
	fmt.Println(h, err)

	_, err = h.Decode(cnp[:11])
	fmt.Println(err, errors.Is(err, rocecn.ErrTruncated))

	h.DestQP = 1 << 24
	_, err = h.AppendBinary(nil)
	fmt.Println(err, errors.Is(err, rocecn.ErrRange))
	// Output:
	// CNP DestQP 0x0000d2 PSN 0 PKey 0xffff BECN 1 <nil>
	// bth: BTH: truncated: shorter than 12 octets true
	// bth: DestQP: over 0xffffff, more than 24 bits true
}

func ExampleOpcode() {
	for _, o := range []bth.Opcode{bth.UDSendOnlyWithImmediate, bth.CNP, 0x1e} {
		fmt.Printf("%v: headers %v, payload %v\n", o, o.Headers(), o.Payload())
	}
	// Output:
	// UD SEND Only with Immediate: headers DETH ImmDt, payload any
	// CNP: headers none, payload 16 reserved octets
	// RC unknown 0x1e: headers none, payload unknown
}

func ExampleHeaderSet_All() {
	for x := range bth.TransportRD.Opcode(bth.OpRDMAWriteOnlyWithImmediate).Headers().All() {
		fmt.Println(x)
	}
	// Output:
	// RDETH
	// DETH
	// RETH
	// ImmDt
}

func ExampleSyndrome() {
	for _, s := range []bth.Syndrome{0x04, 0x2c, 0x60} {
		switch s.Type() {
		case bth.SyndromeACK:
			n, _ := s.Credits()
			fmt.Println("received, credits for", n)
		case bth.SyndromeRNRNAK:
			fmt.Println("not ready, retransmit after", s.Timer())
		case bth.SyndromeNAK:
			code, _ := s.Code()
			fmt.Println("rejected:", code)
		}
	}
	// Output:
	// received, credits for 4
	// not ready, retransmit after 640µs
	// rejected: PSN sequence
}
