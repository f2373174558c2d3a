// Sflow prints the RoCEv2 packets that switches sample. It receives sFlow version 5
// datagrams, in which each sample has the first octets of a frame, and prints the
// flow, and CE marks.
//
//	go run ./examples/sflow -listen :6343
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

// printSamples prints a line for each sampled RoCEv2 packet or message in a datagram.
func printSamples(w io.Writer, datagram []byte, c message.Config) error {
	p := gopacket.NewPacket(datagram, layers.LayerTypeSFlow, gopacket.NoCopy)
	flow, ok := p.Layer(layers.LayerTypeSFlow).(*layers.SFlowDatagram)
	if !ok {
		return errors.New("no sFlow datagram")
	}
	for _, s := range flow.FlowSamples {
		for _, record := range s.Records {
			raw, ok := record.(layers.SFlowRawPacketFlowRecord)
			if !ok || raw.HeaderProtocol != layers.SFlowProtoEthernet {
				continue
			}
			header := raw.Header.Data()
			header = header[:min(len(header), int(raw.HeaderLength))] // without padding
			if line := describeFrame(header, raw.FrameLength-raw.PayloadRemoved > raw.HeaderLength, c); line != "" {
				if _, err := fmt.Fprintf(w, "switch %v, port %d, one of %d: %s\n", flow.AgentAddress, s.InputInterface,
					s.SamplingRate, line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// describeFrame returns a description of a frame from its first octets, or "" for other
// traffic. cut reports whether the frame had more octets.
func describeFrame(header []byte, cut bool, c message.Config) string {
	var m message.Message
	o := rocev2.DecodeOptions{AllowTruncated: cut}
	err := m.Decode(header, o, c)
	switch {
	case m.Kind == message.KindOther:
		return ""
	case err != nil: // broken, or the sample is too short: 128 octets do not hold a trace
		return "not read: " + err.Error()
	}
	mark := ""
	if m.Reach == message.ReachTransport && m.Packet.ECN() == rocev2.CE {
		mark = ", marked CE"
	}
	flow, ok := m.FlowKey()
	switch {
	case m.Kind == message.KindData, m.Kind == message.KindAck:
		return fmt.Sprintf("%v: %v psn %d%s", m.Kind, flow, m.Packet.BTH.PSN, mark)
	case m.Kind == message.KindCNP: // it names the sender's queue pair, and no flow
		return fmt.Sprintf("cnp: to %v qp 0x%06x%s", m.Packet.Dst, m.CNP.DestQP, mark)
	case ok:
		return fmt.Sprintf("%v: about %v%s", m.Kind, flow, mark)
	}
	return m.Kind.String()
}

func main() {
	address := flag.String("listen", ":6343", "`address` that switches send their samples to")
	flag.Parse()
	in, err := netio.ListenUDP(*address)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(netio.Run(context.Background(), nil, func(b []byte, _ int, packet *netio.Packet) []byte {
		var d rocev2.Datagram
		_ = d.DecodeIP(packet.Data) // as ListenUDP has made it
		if err := printSamples(os.Stdout, d.Data, message.Config{}); err != nil {
			log.Printf("%v: %v", d.Src, err)
		}
		return b
	}, in))
}
