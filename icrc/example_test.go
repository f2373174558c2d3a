package icrc_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/rocecn/rocecn/icrc"
)

// A CNP that a ConnectX-4 Lx sent.
var captured, _ = hex.DecodeString("45c2003c718c4000401191610a0011010a001201" +
	"000012b700280000" + "8100ffff4000011800000000" + "00000000000000000000000000000000" + "82fd002a")

func ExampleVerify() {
	coverage, err := icrc.Verify(captured)
	fmt.Println(coverage, err)

	captured[8]-- // TTL: a router may
	coverage, err = icrc.Verify(captured)
	fmt.Println(coverage, err)

	captured[35]-- // destination queue pair: nobody may
	_, err = icrc.Verify(captured)
	fmt.Println(err)
	captured[35]++
	captured[8]++
	// Output:
	// as-sent <nil>
	// as-sent <nil>
	// icrc: ICRC: matches in no coverage
}

func ExamplePut() {
	ip := append([]byte(nil), captured...)
	clear(ip[len(ip)-4:])
	if err := icrc.Put(ip, icrc.AsSent); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%x\n", ip[len(ip)-4:])
	// Output: 82fd002a
}

// CNPs for one flow from a template: only the destination queue pair changes.
func ExampleDelta() {
	destQP := icrc.NewDelta(20) // BTH octets 4 to 7: four and 16 more follow
	template := append([]byte(nil), captured...)
	const at = 20 + 8 + 4
	base, _ := icrc.Sum(template, icrc.AsSent)
	old := binary.BigEndian.Uint32(template[at:])

	for _, qp := range []uint32{0x000118, 0x0000D2} {
		ip := append([]byte(nil), template...)
		word := old&0xFF000000 | qp
		binary.BigEndian.PutUint32(ip[at:], word)
		binary.LittleEndian.PutUint32(ip[len(ip)-4:], base^destQP.Of(old^word))
		_, err := icrc.Verify(ip)
		fmt.Printf("%06x %x %v\n", qp, ip[len(ip)-4:], err)
	}
	// Output:
	// 000118 82fd002a <nil>
	// 0000d2 1b414c3a <nil>
}
