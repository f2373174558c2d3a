package filter_test

import (
	"fmt"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/net/bpf"
)

// A program for a socket that is to see notifications alone. Sockets of package
// golang.org/x/net take it by their SetBPF.
func ExampleCapture_Program() {
	c := filter.Capture{Selection: filter.Notifications, FCNPort: 1021}
	program, err := c.Program(rocev2.LinkIP)
	if err != nil {
		panic(err)
	}
	instructions, _ := bpf.Disassemble(program)
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		panic(err)
	}
	fcn := []byte{
		0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
		0xC0, 0x00, 0x03, 0xFD, 0, 12, 0, 0, // UDP to port 1021
		0xBE, 0xEF, 0x54, 0,
	}
	selected, err := vm.Run(fcn)
	fmt.Println(selected != 0, err)
	// Output: true <nil>
}

// A table for the nftables of a router at the border of a domain.
func ExampleBorder_NFT() {
	b := filter.Border{FCNPort: 4000, ProxyPort: 4001}
	fmt.Print(b.NFT("rocecn"))
	// Output:
	// table inet rocecn
	// delete table inet rocecn
	// table inet rocecn {
	// 	chain forward {
	// 		type filter hook forward priority filter; policy accept;
	// 		udp dport { 4000, 4001 } counter drop comment "FCN and proxy messages"
	// 		ip frag-off & 0x3fff == 0x2000 jump first
	// 		frag frag-off 0 jump first
	// 		exthdr dst exists jump options
	// 		meta l4proto { 4, 41, 47, 137, 143 } counter drop comment "tunnels"
	// 		udp dport { 4789, 8472, 4790, 6081, 6635, 2152, 6080 } counter drop comment "tunnels"
	// 	}
	//
	// 	# First fragments. A rule that cannot read its field does not return: a packet that ends
	// 	# before the last of its headers is dropped (RFC 7112).
	// 	chain first {
	// 		meta l4proto != udp @th,0,8 >= 0 return
	// 		@th,56,8 >= 0 return
	// 		counter drop comment "first fragments without all headers"
	// 	}
	//
	// 	# Packets with a Destination Options header. A rule that cannot read its field
	// 	# does not return: a packet that ends before its opcode is dropped.
	// 	chain options {
	// 		exthdr frag exists counter drop comment "fragments"
	// 		meta l4proto != udp return
	// 		udp dport != 4791 return
	// 		@th,64,8 != 0x81 return
	// 		counter drop comment "Fast CNP"
	// 	}
	// }
}

// Drop messages that must not cross the border, in any encapsulation.
func ExampleBorder_Match() {
	fcn := []byte{
		0x45, 0, 0, 52, 0, 0, 0, 0, 64, 4, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2, // IP in IP
		0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
		0xC0, 0x00, 0x03, 0xFD, 0, 12, 0, 0, // UDP to port 1021
		0xBE, 0xEF, 0x54, 0,
	}
	b := filter.Border{FCNPort: 1021}
	var f rocev2.Frame
	f.Decode(fcn, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	fmt.Println(b.Match(&f))
	// Output: fcn true
}
