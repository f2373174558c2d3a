package netio_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

// Count the messages of a source. On a host, the source is that of OpenPackets, and the sink, nil here, that of
// OpenRaw.
func ExampleRun() {
	file, err := os.Open("../testdata/rxe-verbs6.pcap")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	source, err := netio.OpenFile(file)
	if err != nil {
		log.Fatal(err)
	}

	kinds := map[message.Kind]int{}
	var frame rocev2.Frame
	var m message.Message
	err = netio.Run(context.Background(), nil, func(b []byte, _ int, p *netio.Packet) []byte {
		frame.Decode(p.Data, p.Options())
		if m.DecodeView(frame.Outer(), message.Config{}) == nil {
			kinds[m.Kind]++
		}
		return b // nothing to send
	}, source)
	fmt.Println(kinds[message.KindData], "packets with data,", kinds[message.KindAck], "acknowledgements,", err)
	// Output: 72 packets with data, 22 acknowledgements, <nil>
}
