//go:build linux

// Agent is a switch agent: it takes the frames that wait in a congested queue,
// here those of an interface or of a capture, and sends the Fast CNP for each
// back to where it came from, with the IOAM trace that it carries.
package main

import (
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/google/gopacket"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

type agent struct {
	received message.Message // large, so kept
	self     netip.Addr
}

// answer appends the frame to send for a frame, if there is one to send.
func (a *agent) answer(b, frame []byte) ([]byte, error) {
	m := &a.received
	err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{})
	if m.Kind == message.Broken {
		return b, err
	} else if m.Kind != message.Data { // other traffic, and what nothing answers
		return b, nil
	}
	out, err := fastcnp.AppendFor(m.Packet.AppendReplyLink(b, 6), &m.Packet, a.self, nil, fastcnp.Config{Long: fastcnp.FallBack})
	if errors.Is(err, fastcnp.ErrIPv4) {
		return b, nil
	} else if err != nil {
		return b, err
	}
	return out, nil
}

// run answers everything that can be read. What cannot be answered is shown
// and passed over.
func (a *agent) run(in gopacket.PacketDataSource, write func([]byte) error) error {
	var out []byte
	for {
		frame, _, err := in.ReadPacketData()
		if err != nil {
			return err
		}
		if out, err = a.answer(out[:0], frame); err != nil {
			log.Print(err)
		} else if len(out) > 0 {
			if err := write(out); err != nil {
				return err
			}
		}
	}
}

// open returns where frames come from and go to: a capture and the log, or an
// interface both ways.
func open(file, name string) (gopacket.PacketDataSource, func([]byte) error, error) {
	if name == "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		r, err := pcapgo.NewReader(f)
		return r, func(b []byte) error { log.Printf("%x", b); return nil }, err
	}
	i, errName := net.InterfaceByName(name)
	fd, errSocket := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	r, err := pcapgo.NewEthernetHandle(name)
	return r, func(b []byte) error {
		return syscall.Sendto(fd, b, 0, &syscall.SockaddrLinklayer{Ifindex: i.Index})
	}, errors.Join(errName, errSocket, err)
}

func main() {
	name := flag.String("i", "", "interface instead of a capture")
	var a agent
	flag.TextVar(&a.self, "src", netip.Addr{}, "address of the switch")
	flag.Parse()
	in, write, err := open(flag.Arg(0), *name)
	if err == nil {
		err = a.run(in, write)
	}
	if err != io.EOF {
		log.Fatal(err)
	}
}
