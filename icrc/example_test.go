package icrc_test

import (
	"encoding/hex"
	"fmt"

	"github.com/rocecn/rocecn/icrc"
)

// captured is a CNP sent by a ConnectX-4 Lx.
var captured, _ = hex.DecodeString("45c2003c718c4000401191610a0011010a001201" +
	"000012b700280000" + "8100ffff4000011800000000" + "00000000000000000000000000000000" + "82fd002a")

func ExampleVerify() {
	coverage, err := icrc.Verify(captured)
	fmt.Println(coverage, err)

	captured[8]-- // TTL: routers change it, and the ICRC does not cover it
	coverage, err = icrc.Verify(captured)
	fmt.Println(coverage, err)

	captured[35]-- // destination queue pair: the ICRC covers it
	_, err = icrc.Verify(captured)
	fmt.Println(err)
	captured[35]++
	captured[8]++
	// Output:
	// as-sent <nil>
	// as-sent <nil>
	// icrc: ICRC: does not match in any coverage
}

func ExampleWrite() {
	ip := append([]byte(nil), captured...)
	clear(ip[len(ip)-4:])
	if err := icrc.Write(ip, icrc.AsSent); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%x\n", ip[len(ip)-4:])
	// Output: 82fd002a
}
