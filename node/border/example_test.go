package border_test

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// A router at the border of a domain shows every packet that it forwards, in
// either direction.
func ExampleRole() {
	b, err := border.New(border.Config{Enabled: true, Border: filter.Border{FCNPort: 1021}})
	if err != nil {
		panic(err)
	}
	var f rocev2.Frame
	forward := func(packet []byte) {
		f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		switch _, d := b.Receive(nil, &f, node.Event{Now: time.Now()}); d.Action {
		case node.ActionDropped:
			fmt.Println("dropped:", d.Message)
		case node.NoAction:
			fmt.Println("forwarded, other traffic")
		default:
			fmt.Println("forwarded:", d.Packet)
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
	for count, n := range b.Counters().All() {
		fmt.Println(count, n)
	}
	// Output:
	// dropped: fcn
	// forwarded, other traffic
	// nothing 1
	// dropped_fcn 1
}
