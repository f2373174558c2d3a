package border_test

import (
	"fmt"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// A router at the border of a domain shows every packet that it forwards, in
// either direction.
func ExampleBorder_Judge() {
	b := border.New(border.Config{Enabled: true})
	forward := func(packet []byte) {
		switch v := b.Judge(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP}); {
		case v.Drop:
			fmt.Println("dropped:", v.Kind)
		case v.Kind == message.Other:
			fmt.Println("forwarded, none of ours")
		default:
			fmt.Println("forwarded:", v.Kind)
		}
	}
	fcn := []byte{
		0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
		0xC0, 0x00, 0x03, 0xFD, 0, 12, 0, 0, // UDP to port 1021
		0xBE, 0xEF, 0x54, 0,
	}
	forward(fcn)
	fcn[23] = 53 // to another port
	forward(fcn)
	fmt.Printf("%+v\n", b.Stats())
	// Output:
	// dropped: fcn
	// forwarded, none of ours
	// {FastCNP:0 FCN:1 Proxy:0 PPFC:0 CNP:0 Broken:0 Passed:0 Other:1 Disabled:0}
}
