package cm_test

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/cm"
)

// The payload of a UD SEND Only to queue pair 1 has a MAD header and the message of
// its Attribute.
func Example() {
	h := cm.NewHeader(cm.AttributeREP, 0x29927c28c)
	payload, _ := h.AppendBinary(nil)
	reply := cm.REP{LocalCommID: 0x3ca71bf9, RemoteCommID: 0x8cc22799, LocalQPN: 0x11, StartingPSN: 0x3a5e10}
	payload, err := reply.AppendBinary(payload)
	fmt.Println(len(payload), err)

	var received cm.Header
	message, err := received.Decode(payload)
	if err != nil || received.Attribute != cm.AttributeREP {
		return
	}
	var rep cm.REP
	if _, err := rep.Decode(message); err != nil {
		return
	}
	fmt.Println("queue pair", rep.LocalQPN, "expects PSN", rep.StartingPSN, "first")
	// Output:
	// 256 <nil>
	// queue pair 17 expects PSN 3825168 first
}

func ExampleIPData() {
	req := cm.REQ{ServiceID: cm.IPServiceID(6, 7174)}
	connects := cm.IPData{
		IPVersion: 4, SrcPort: 41125,
		Src: netip.MustParseAddr("10.77.0.2"), Dst: netip.MustParseAddr("10.77.0.1"),
	}
	data, _ := connects.AppendBinary(nil)
	copy(req.PrivateData[:], append(data, "hello"...))

	if protocol, port, ok := req.ServiceID.IP(); ok {
		var d cm.IPData
		private, _ := d.Decode(req.PrivateData[:])
		fmt.Println(d, "protocol", protocol, "port", port)
		fmt.Printf("%s\n", bytes.TrimRight(private, "\x00"))
	}
	// Output:
	// IPv4 from 10.77.0.2 port 41125 to 10.77.0.1 protocol 6 port 7174
	// hello
}
