package pfc_test

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/pfc"
)

// A switch pauses priority 3, which many networks use for RoCEv2, for 100 µs on a link
// of 100 Gbit/s.
func ExamplePFC_AppendFrame() {
	const speed = 100e9
	var p pfc.PFC
	p.Enabled = 1 << 3
	quanta, ok := pfc.Quanta(100*time.Microsecond, speed)
	p.Quanta[3] = quanta
	fmt.Println(ok) // one frame is enough
	frame := p.AppendFrame(nil, [6]byte{0x02, 0, 0, 0, 0, 1})
	fmt.Printf("%x\n", frame[:34])
	// Output:
	// true
	// 0180c20000010200000000018808010100080000000000004c4c0000000000000000
}

// The octets after the EtherType of a MAC control frame.
func ExamplePFC_Decode() {
	control := []byte{1, 1, 0, 0x18, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0}
	var p pfc.PFC
	if _, err := p.Decode(control); err != nil {
		fmt.Println(err)
		return
	}
	for priority, quanta := range p.All() {
		if quanta == 0 {
			fmt.Printf("priority %d resumes\n", priority)
			continue
		}
		fmt.Printf("priority %d pauses for %v on 100 Gbit/s\n", priority, pfc.Duration(quanta, 100e9))
	}
	// Output:
	// priority 3 pauses for 335.539µs on 100 Gbit/s
	// priority 4 resumes
}
