package message

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// The largest numbers of octets after the UDP header that are needed to identify a message.
const (
	maxTransport = bth.Size + 40    // with RDETH, DETH and AtomicETH
	maxProxy     = 40 + 40 + 8 + 12 // both addresses IPv6, and the invoking packet up to its BTH
	maxCNP       = bth.Size + 24    /* PPFC */ // CNP, too
)

// SnapLength returns the snap length with which a capture would have kept enough of a frame for DecodeInner to
// identify it: as it was truncated, it is Broken, or Other if it ends before the end of its UDP header. A larger snap
// length may be necessary, depending on the missing octets. SnapLength returns 0 if missing octets are not the problem.
func SnapLength(f *rocev2.Frame, c Config) int {
	if !f.Options().Cut {
		return 0
	}
	if f.EtherType() == pfc.EtherType {
		return controlSnapLength(f)
	}
	fcnPort, proxyPort := c.ports()
	if n := f.SnapLength(rocev2.Port, fcnPort, proxyPort); n > 0 {
		return n + maxTransport
	}
	var d rocev2.Datagram
	if f.Inner().Datagram(&d) != nil || !d.Truncated {
		return 0
	}
	need, there := 0, int(d.Length)-8
	switch {
	case d.DstPort == rocev2.Port:
		need = transportNeed(d.Data)
		there -= 4 // the ICRC
	case d.DstPort == fcnPort:
		need = fcn.Size
	case d.DstPort == proxyPort:
		if _, err := proxymsg.FromDatagram(&d, c.ProxyFamily); err != nil {
			need = maxProxy
		}
	}
	need = min(need, there)
	if len(d.Data) >= need {
		return 0
	}
	return len(f.Octets()) - len(d.Data) + need
}

// controlSnapLength is SnapLength for a MAC control frame.
func controlSnapLength(f *rocev2.Frame) int {
	const pauseSize = 4 // opcode and quanta
	control, need := f.LinkPayload(), 0
	switch opcode, err := pfc.Opcode(control); {
	case err != nil, opcode == pfc.OpcodePFC:
		need = pfc.Size
	case opcode == pfc.OpcodePause:
		need = pauseSize
	}
	if len(control) >= need {
		return 0
	}
	return len(f.Link()) + need
}

// transportNeed returns the number of octets from the BTH on that are needed to
// identify a packet. data has the captured ones.
func transportNeed(data []byte) int {
	if len(data) == 0 {
		return maxTransport
	}
	op := bth.Opcode(data[0])
	switch {
	case op != bth.CNP:
		return bth.Size + op.HeaderLen()
	case len(data) > 4 && data[4]&ppfc.Bit == 0:
		return bth.Size // the reserved octets do not matter
	}
	return maxCNP
}
