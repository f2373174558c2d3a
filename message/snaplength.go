package message

import (
	"cmp"
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// The most octets behind the UDP header that tell what a message is.
const (
	maxTransport = bth.Size + 40    // with RDETH, DETH and AtomicETH
	maxProxy     = 40 + 40 + 8 + 12 // both addresses IPv6, and the invoking packet up to its BTH
	maxCNP       = bth.Size + 24    /* PPFC */ // CNP, too
)

// SnapLength returns how many octets of a packet a capture would have to keep,
// where it kept too few of it for Decode to tell what the packet is: such a packet
// is Broken, or Other where it ends before its UDP header. It returns 0 where the
// octets that are missing are not what is wrong. What stands in octets that are
// not there is not known: then more may be needed than it says.
func SnapLength(b []byte, o rocev2.DecodeOptions, c Config) int {
	if !o.Cut {
		return 0
	}
	fcnPort, proxyPort := cmp.Or(c.FCNPort, fcn.ExperimentalPort), cmp.Or(c.ProxyPort, proxymsg.ExperimentalPort)
	var d rocev2.Datagram
	if err := d.Decode(b, o); errors.Is(err, wireerr.Truncated) && errors.Is(err, rocev2.ErrNotRoCEv2) {
		return headersEnd(b, o)
	} else if err != nil || !d.Truncated {
		return 0
	}
	need, there := 0, int(d.Length)-8
	switch {
	case d.DstPort == rocev2.Port:
		need = transportNeed(d.Data)
		there -= 4 // the ICRC
	case d.DstPort == fcnPort && !c.NoFCN:
		need = fcn.Size
	case d.DstPort == proxyPort && !c.NoProxy:
		if _, err := proxymsg.FromDatagram(&d, c.ProxyFamily); err != nil {
			need = maxProxy
		}
	}
	need = min(need, there)
	if len(d.Data) >= need {
		return 0
	}
	return len(b) - len(d.Data) + need
}

// transportNeed returns how many octets from the BTH on tell what a packet is, of
// which these are there.
func transportNeed(data []byte) int {
	if len(data) == 0 {
		return maxTransport
	}
	op := bth.Opcode(data[0])
	switch {
	case op != bth.CNP:
		return bth.Size + op.HeaderLen()
	case len(data) > 4 && data[4]&bth.PPFCBit == 0:
		return bth.Size // the reserved octets say nothing
	}
	return maxCNP
}

// headersEnd returns where the headers of a RoCEv2 packet end at most that ends
// before its UDP header, if no other header on the way is missing.
func headersEnd(b []byte, o rocev2.DecodeOptions) int {
	ip := b
	if o.Link != rocev2.LinkIP {
		if _, ip = rocev2.LinkPayload(b, o); ip == nil {
			return len(b) + 40 + 8 + maxTransport // the link-layer header is cut, or one that is rarely seen
		}
	}
	end := len(b) - len(ip) + 40
	if len(ip) > 0 && ip[0]>>4 == 4 {
		end -= 20
	}
	for _, octets := range rocev2.Extensions(b, o) {
		end += len(octets)
	}
	if len(b) > end+1 && ip[0]>>4 == 6 && ip[6] != 17 { // the extension header that is cut
		end += 8 + 8*int(b[end+1])
	}
	return max(end+8, len(b)+1) + maxTransport
}
