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
	maxTransport = bth.Size + 40    // BTH, RDETH, DETH and AtomicETH
	maxProxy     = 40 + 40 + 8 + 12 // a five-tuple of IPv6 addresses, and the invoking packet up to its BTH
	maxCNP       = bth.Size + 24    // PPFC with an IPv6 address, longer than a CNP
)

// SnapLength returns the snapshot length in octets that a capture needs to identify the message in the inner view of f.
// It returns 0 if f can be identified, if a switch has trimmed it, or if missing octets are not the reason that it
// cannot be identified: that it is KindError, or KindOther because it ends before the end of its UDP header. The
// missing octets may require a larger snapshot length.
func SnapLength(f *rocev2.Frame, c Config) int {
	if !f.Options().AllowTruncated {
		return 0
	}
	if f.EtherType() == pfc.EtherType {
		return controlSnapLength(f)
	}
	fcnPort, proxyPort := c.udpPorts()
	if n := f.SnapLength(rocev2.Port, fcnPort, proxyPort); n > 0 {
		return n + maxTransport
	}
	var d rocev2.Datagram
	if f.Inner().Datagram(&d) != nil || !d.Truncated || d.Trimmed {
		return 0
	}
	need, sent := 0, int(d.Length)-8
	switch {
	case d.DstPort == rocev2.Port:
		need = identifyingLen(d.Data)
		sent -= 4 // the ICRC
	case d.DstPort == fcnPort:
		need = fcn.Size
	case d.DstPort == proxyPort:
		if _, err := proxymsg.FromDatagram(&d, c.ProxyFamily); err != nil {
			need = maxProxy
		}
	}
	need = min(need, sent)
	if len(d.Data) >= need {
		return 0
	}
	return len(f.Octets()) - len(d.Data) + need
}

// controlSnapLength returns the result of SnapLength for a MAC control frame.
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

// identifyingLen returns the number of octets from the BTH on that are needed to
// identify a packet. data has the captured octets from the BTH on.
func identifyingLen(data []byte) int {
	if len(data) == 0 {
		return maxTransport
	}
	op := bth.Opcode(data[0])
	switch {
	case op != bth.CNP:
		return bth.Size + op.HeaderLen()
	case len(data) > 4 && data[4]&ppfc.Bit == 0:
		return bth.Size // the reserved octets are not needed
	}
	return maxCNP
}
