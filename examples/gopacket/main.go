// Gopacket prints the messages of a pcap file, read through gopacket: all
// layers with NewPacket, and once more with a Stack, which allocates nothing.
//
//	go run ./examples/gopacket <testdata/tour.pcap
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
)

func main() {
	registerPorts()
	if err := printFrames(os.Stdout, os.Stdin); err != nil {
		log.Fatal(err)
	}
}

// registerPorts registers the UDP ports for NewPacket, before decoding starts.
func registerPorts() {
	rocelayers.Register()
	rocelayers.RegisterFCN(fcn.Port)
	rocelayers.RegisterProxy(proxymsg.Port)
}

// printFrames prints every frame of a capture, decoded in both ways.
func printFrames(w io.Writer, capture io.Reader) error {
	r, err := pcapgo.NewReader(capture)
	if err != nil {
		return err
	}
	var s rocelayers.Stack
	for n := 1; ; n++ {
		frame, _, err := r.ReadPacketData()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		fmt.Fprintf(w, "frame %d, NewPacket:\n", n)
		for _, l := range packet.Layers() {
			printLayer(w, l)
		}
		if failure := packet.ErrorLayer(); failure != nil {
			fmt.Fprintln(w, "  ", failure.Error())
		}

		fmt.Fprintf(w, "frame %d, Stack:\n", n)
		err = s.Decode(frame)
		for _, t := range s.Decoded {
			printLayer(w, s.Layer(t))
		}
		if err != nil {
			fmt.Fprintln(w, "  ", err)
		}
	}
}

// printLayer prints a layer if it is one of a message.
func printLayer(w io.Writer, l gopacket.Layer) {
	switch l := l.(type) {
	case *rocelayers.BTH:
		coverage, err := l.VerifyICRC()
		fmt.Fprintf(w, "   %v, ICRC %v, %v\n", l.Opcode, coverage, err)
	case *rocelayers.CNP:
		fmt.Fprintf(w, "   CNP: slow down queue pair %#x\n", l.DestQP)
	case *rocelayers.FastCNP:
		fmt.Fprintf(w, "   Fast CNP of the %v: slow down flow %v\n", l.Origin(), l.FlowKey())
		for node := range l.Option.Trace.Nodes() {
			id, known := node.ID()
			if depth, ok := node.QueueDepth(); ok && known {
				fmt.Fprintf(w, "      node %#x, queue %d\n", id, depth)
			}
		}
	case *rocelayers.PPFC, *rocelayers.FCN, *rocelayers.Proxy, *rocelayers.IOAM:
		fmt.Fprintf(w, "   %v: %v\n", l.LayerType(), l)
	}
}
