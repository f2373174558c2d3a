package netio

import (
	"errors"
	"slices"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// nothing is a program that selects no packet.
var nothing = []bpf.RawInstruction{{Op: opReturn}}

// opReturn is the instruction that ends a program with a constant, the number of octets to keep of the packet.
const opReturn = 0x06

// directions are the programs that end where a packet goes the wrong way.
var directions = [...][]bpf.Instruction{
	Both: {
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 3},
		bpf.LoadExtension{Num: bpf.ExtLinkLayerType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ARPHRD_LOOPBACK, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	},
	In: {
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	},
	Out: {
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	},
}

var errDirection = errors.New("netio: no such direction")

// program returns the program of the socket, which is bound.
func (p *packetSource) program(c *PacketConfig) ([]bpf.RawInstruction, error) {
	bound, err := unix.Getsockname(p.fd)
	if err != nil {
		return nil, err
	}
	link, err := linkType(bound.(*unix.SockaddrLinklayer).Hatype)
	if err != nil && p.index != 0 {
		return nil, err
	}
	if int(c.Direction) >= len(directions) {
		return nil, errDirection
	}
	program, err := bpf.Assemble(directions[c.Direction])
	if err != nil {
		return nil, err
	}
	switch {
	case c.Filter == nil:
		program = append(program, bpf.RawInstruction{Op: opReturn, K: maxFrame})
	case p.index == 0:
		program, err = appendBoth(program, c.Filter)
	default:
		o := capture.Record{Link: link}
		var selects []bpf.RawInstruction
		selects, err = c.Filter.Program(o.Options().Link)
		program = append(program, selects...)
	}
	for i := range program {
		if program[i].Op == opReturn {
			program[i].K = min(program[i].K, uint32(c.snap()))
		}
	}
	return program, err
}

// appendBoth appends a program for interfaces that carry Ethernet, and one for
// those that carry IP.
func appendBoth(program []bpf.RawInstruction, f Filter) ([]bpf.RawInstruction, error) {
	ethernet, err := f.Program(rocev2.LinkEthernet)
	if err != nil {
		return nil, err
	}
	ip, err := f.Program(rocev2.LinkIP)
	if err != nil {
		return nil, err
	}
	choice, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtLinkLayerType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ARPHRD_ETHER, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.ARPHRD_LOOPBACK, SkipTrue: 1},
		bpf.Jump{Skip: uint32(len(ethernet))},
	})
	return slices.Concat(program, choice, ethernet, ip), err
}

// attach puts a program on a socket.
func attach(fd int, program []bpf.RawInstruction) error {
	f := make([]unix.SockFilter, len(program))
	for i, r := range program {
		f[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	all := &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, all)
}
