package conform

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// switchCases are the cases of a congested switch. The tester is the senders, the receivers, the proxy and the ingress
// PE around it.
func switchCases() []testCase {
	fast, ppfc, proxy, fcn := []string{"option1"}, []string{"ppfc-stop"}, []string{"proxy"}, []string{"fcn"}
	return []testCase{
		{"F01.1", must, "FAST 1, 3", "the congested switch itself notifies the sender by a Fast CNP", fast, nil,
			arrives(kindFastCNP, plain)},
		{"F02.1", must, "FAST 3", "UDP destination port 4791 alone identifies RoCEv2: any source port is notified, " +
			"another destination port is not", fast, nil, otherPorts},
		{"F03.1", must, "FAST 3", "data is forwarded with its octets unchanged, except ECN and hop limit", nil, nil,
			forwardsUnchanged},
		{"F04.1", must, "FAST 3", "packets with extended headers after the BTH are notified like those without", fast,
			nil, extendedHeaders},
		{"F05.1", must, "FAST 3", "all 24 bits of the destination queue pair are copied", fast, nil,
			notified(kindFastCNP, changed(true, func(i int, s *stream) { s.destQP = 0xFF8000 + s.destQP&0xFFF }),
				checkDestQP)},
		{"F07.1", must, "FAST 3, IBTA A17", "a Fast CNP has the BTH of a CNP and 16 octets of zero", fast, nil,
			fastCNPAbout(checkCNPHeader)},
		{"F07.2", must, "FAST 3, IBTA A17", "the ICRC of a Fast CNP covers the packet as sent", fast, nil,
			fastCNPAbout(checkICRC)},
		{"F07.3", must, "FAST 3", "a Fast CNP is sent to UDP port 4791", fast, nil, toPort4791(kindFastCNP,
			fastCNPAbout(arrived))},
		{"F08.1", must, "FAST 3", "Fast CNP is only for IPv6: IPv4 packets cause none", []string{"option1", "ipv4"},
			nil,
			quiet(kindFastCNP, []kind{kindFastCNP}, false, func(*trial, int, *stream) {})},
		{"F13.1", must, "FAST 4", "the Fast CNP leaves on the side of the sender, and on no other", fast, nil,
			fastCNPAbout(checkSide("sender"))},
		{"F13.2", must, "FAST 4", "acknowledgements cause no notification", fast, nil,
			quiet(kindFastCNP, anyKind, true, func(_ *trial, _ int, s *stream) {
				s.opcode, s.headers = 0x11, []byte{0x1F, 0, 0, 1}
			})},
		{"F14.1", may, "FAST 4", "data of a sender of unknown capability is also marked", []string{"option1", "mark"},
			[]string{"F15"}, marksUnknown},
		{"F14.2", must, "FAST 4, RFC 3168", "a Not-ECT packet is never marked", fast, nil, notMarked(
			changed(true, func(_ int, s *stream) { s.class = 0 }))},
		{"F14.3", should, "FAST 4, RFC 3168", "ECN-capable data is marked in congestion, and otherwise unchanged",
			[]string{"mark", "ipv6"}, nil, marksData(true)},
		{"F14.4", should, "FAST 4, RFC 3168", "ECN-capable IPv4 data is marked, with a right header checksum",
			[]string{"mark", "ipv4"}, nil, marksData(false)},
		{"F14.5", must, "FAST 4, RFC 3168", "a Not-ECT packet is never marked, while ECN-capable ones are",
			[]string{"mark", "ipv6"}, nil, sparesNotECT(true)},
		{"F14.6", must, "FAST 4, RFC 3168", "a Not-ECT packet of IPv4 is never marked, while ECN-capable ones are",
			[]string{"mark", "ipv4"}, nil, sparesNotECT(false)},
		{"F16.1", must, "FAST 4", "data of a sender that is known to understand Fast CNP is not also marked", fast,
			nil, notMarked(capableFlows)},
		{"F17.1", should, "FAST 4", "two ICMPv6 errors of a host about Fast CNPs stop further Fast CNPs to it",
			[]string{"option1", "icmpv6-learning"}, nil, learnsRejection},
		{"F17.2", should, "FAST 4", "ICMPv6 errors that quote no Fast CNP of the switch change nothing",
			[]string{"option1", "icmpv6-learning"}, nil, ignoresForgedRejection},
		{"F18.1", must, "FAST 4", "the source of a Fast CNP is an address of the switch", fast, nil,
			fastCNPAbout(checkSource)},
		{"F19.1", must, "FAST 4", "the destination of a Fast CNP is the source of the congested packet", fast, nil,
			fastCNPAbout(checkDestination)},
		{"F23.1", must, "FAST 4", "the destination queue pair is copied from the congested packet", fast, nil,
			fastCNPAbout(checkDestQP)},
		{"F24.1", must, "FAST 4", "a Fast CNP has one Destination Options header with one option, and no other header",
			fast, nil, fastCNPAbout(checkHeaders)},
		{"F24.2", must, "FAST 4", "a Fast CNP with option 2 has one Destination Options header with one option",
			[]string{"option2"}, nil,
			notified(kindFastCNP, verbatim, checkHeaders)},
		{"F25.1", must, "FAST 4", "a packet without a trace is notified with option 1", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				if len(o.data) >= 26 {
					return "option 1, of 16 octets", fmt.Sprintf("an option of %d octets, as option 2", len(o.data))
				}
				return "", ""
			}))},
		{"F26.1", must, "FAST 4 figure 3", "the option has the original destination address", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, s *stream, o option) (string, string) {
				return sameOctets("address", s.dst.AsSlice(), o.data[max(0, len(o.data)-16):])
			}))},
		{"F26.2", must, "FAST 4 figure 3", "option 1 is aligned to 4n+2", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				return same("offset of the option modulo 4", 2, o.at%4)
			}))},
		{"F27.1", must, "FAST 4", "the act bits of the option type are 10", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				return same("act bits", "10", fmt.Sprintf("%02b", o.kind>>6))
			}))},
		{"F28.1", must, "FAST 4", "the chg bit of the option type is 0", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				return same("chg bit", 0, o.kind>>5&1)
			}))},
		{"F29.1", must, "FAST 4", "Opt Data Len of option 1 is 16", fast, nil,
			fastCNPAbout(withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				return same("Opt Data Len", 16, len(o.data))
			}))},
		{"F31.1", must, "FAST 4", "a packet with a trace is notified with option 2", []string{"option2"}, nil,
			notified(kindFastCNP, verbatim, withOption(func(_ *trial, _ *seen, _ *stream, o option) (string, string) {
				if len(o.data) < 26 {
					return "option 2, of at least 26 octets", fmt.Sprintf("an option of %d octets", len(o.data))
				}
				return "", ""
			}))},
		{"F32.1", must, "FAST 4 figure 4", "option 2 has the IOAM type, at 4n, and ends with the address",
			[]string{"option2"}, nil, notified(kindFastCNP, verbatim, withOption(checkOption2))},
		{"F33.1", must, "FAST 4", "the option and its header are complete: lengths fit, padding ends it", fast, nil,
			fastCNPAbout(checkPadding)},
		{"F33.2", must, "FAST 4", "a trace too long for Opt Data Len causes no invalid option", []string{"option2"},
			nil, longTrace},
		{"F34.1", must, "FAST 4", "the trace is copied, without a record in a foreign namespace", []string{"option2"},
			nil, notified(kindFastCNP, verbatim, withOption(checkTrace))},
		{"F34.2", should, "FAST 4, RFC 9197", "the switch adds its own record to the copy", []string{"option2", "ioam"},
			nil, ownRecord},
		{"F37.1", should, "FAST 5", "the interval between two Fast CNPs is kept, separately for each flow", fast,
			nil, pacePerFlow(kindFastCNP, plain)},
		{"F37.2", should, "FAST 5", "the rate of all Fast CNPs is limited", fast, nil, paceTotal(kindFastCNP, plain)},
		{"F42.1", must, "FAST 5, PROXY 6, FCN 6", "without any ability enabled, nothing is notified or marked",
			[]string{"!option1", "!option2", "!proxy", "!fcn", "!ppfc-stop", "!mark"}, []string{"F41", "P42", "P43",
				"W39", "W40"}, silent},
		{"F44.1", must, "FAST 6", "the option has the configured type", fast, nil,
			fastCNPAbout(withOption(func(x *trial, _ *seen, _ *stream, o option) (string, string) {
				return same("option type", fmt.Sprintf("0x%02x", x.profile.CodePoints.optionType(1)),
					fmt.Sprintf("0x%02x", o.kind))
			}))},
		{"B02.1", must, "IBTA A17 figure 6", "P_Key is copied from the congested packet", fast, nil,
			fastCNPAbout(checkPKey)},
		{"B05.1", must, "RFC 4443 2.4, FAST 4", "CNPs and Fast CNPs cause no notification", fast, nil,
			quiet(kindFastCNP, anyKind, true, func(x *trial, i int, s *stream) {
				s.opcode, s.payload = opcodeCNP, make([]byte, 16)
				if i%2 == 1 {
					s.options = fastCNPOption1(x.profile.CodePoints.optionType(1), s.src)
				}
			})},
		{"B05.2", must, "RFC 4443 2.4, PPFC 3", "PPFC notifications cause no notification", fast, nil,
			quiet(kindFastCNP, anyKind, true, func(_ *trial, _ int, s *stream) {
				s.opcode, s.flags, s.payload = opcodeCNP, 0x20, ppfcAfterBTH(s.src, 0, 0, 100)
			})},
		{"B05.3", must, "RFC 4443 2.4", "fragments cause no notification", fast, nil,
			quiet(kindFastCNP, anyKind, true, func(_ *trial, _ int, s *stream) {
				s.wrap = func(ip []byte) []byte {
					return insertHeader(ip, protocolFragment, []byte{protocolUDP, 0, 0, 1, 0, 0, 0, uint8(s.count)})
				}
			})},

		{"X01.1", must, "PPFC 1", "the congested switch sends a PPFC stop", ppfc, nil,
			arrivesWith(kindPPFC, plain, func(n *seen) bool { return ppfcOf(n).pt == 0 })},
		{"X03.1", must, "PPFC 3", "a PPFC is sent to UDP port 4791", ppfc, nil,
			toPort4791(kindPPFC, notified(kindPPFC, plain, arrived))},
		{"X04.1", must, "PPFC 3", "IP and Ethernet destination are those of the sender", ppfc, nil,
			notified(kindPPFC, plain, allOf(checkDestination, checkMAC))},
		{"X05.1", must, "PPFC 3", "the P bit is set and F and reserved bits are 0", ppfc, nil,
			notified(kindPPFC, plain, func(_ *trial, n *seen, _ *stream) (string, string) {
				return same("octet 4 of the BTH without B", "0x20", fmt.Sprintf("0x%02x", n.bth[4]&^0x40))
			})},
		{"X06.1", must, "PPFC 3", "the extension has 12 octets with an IPv4 address, 24 with an IPv6 address", ppfc,
			nil, notified(kindPPFC, plain, func(_ *trial, n *seen, _ *stream) (string, string) {
				if l := len(n.afterBTH()); l != 12 && l != 24 {
					return "12 or 24 octets after the BTH", fmt.Sprintf("%d octets", l)
				}
				return "", ""
			})},
		{"X06.2", must, "PPFC 3", "a PPFC about an IPv4 flow has 12 octets, the sender's address and queue pair, " +
			"and a right ICRC", []string{"ppfc-stop", "ipv4"}, nil,
			notified(kindPPFC, plainFlows(false), allOf(func(_ *trial, n *seen, _ *stream) (string, string) {
				return same("octets after the BTH", 12, len(n.afterBTH()))
			}, checkDestination, checkDestQP, checkICRC))},
		{"X07.1", must, "PPFC 1, 3", "the address is the congested destination or the congested node", ppfc, nil,
			notified(kindPPFC, plain, withExtension(func(x *trial, s *stream, e ppfcExtension) (string, string) {
				if e.address == s.dst || slices.Contains(x.profile.Device.Addresses, e.address) {
					return "", ""
				}
				return fmt.Sprintf("address %v or one of the device", s.dst), fmt.Sprintf("address %v", e.address)
			}))},
		{"X08.1", must, "PPFC 3", "only supported types of PPFC are sent", ppfc, nil,
			notified(kindPPFC, plain, withExtension(checkPT))},
		{"X10.1", must, "PPFC 3", "all PPFCs of one port name the same Congestion Port", ppfc, nil, samePort},
		{"X11.1", must, "PPFC 3", "a stop has a Pause Duration above 0", ppfc, nil,
			notified(kindPPFC, plain, withExtension(func(_ *trial, _ *stream, e ppfcExtension) (string, string) {
				switch {
				case e.pt != 0:
					return "", ppfcNames[e.pt]
				case e.pause == 0:
					return "Pause Duration above 0", "Pause Duration 0"
				}
				return "", ""
			}))},
		{"X12.1", must, "PPFC 3", "the queue pair is copied, and the other fields are as in a CNP", ppfc, nil,
			notified(kindPPFC, plain, allOf(checkDestQP, func(_ *trial, n *seen, _ *stream) (string, string) {
				return sameOctets("opcode, flags", []byte{0x81, 0}, n.bth[:2])
			}, func(_ *trial, n *seen, _ *stream) (string, string) {
				return sameOctets("A and PSN", []byte{0, 0, 0, 0}, n.bth[8:12])
			}))},
		{"X13.1", must, "PPFC 3", "the ICRC of a PPFC is right, and Flags and Reserved are 0", ppfc, nil,
			notified(kindPPFC, plain, allOf(checkICRC,
				withExtension(func(_ *trial, _ *stream, e ppfcExtension) (string, string) {
					return same("Flags and Reserved", "0 0", fmt.Sprintf("%d %d", e.flags, e.reserved))
				})))},
		{"X14.1", must, "PPFC 3", "each stopped flow gets a resume after the congestion",
			[]string{"ppfc-stop", "ppfc-resume"}, nil, resumes},
		{"X09.1", should, "PPFC 3", "alarm and hold come before stop as the queue fills",
			[]string{"ppfc-stop", "levels"}, nil, risingTypes},

		{"P01.1", must, "PROXY 1", "the congested switch sends a proxy message", proxy, nil, arrives(kindProxy, plain)},
		{"P03.1", must, "PROXY 1", "the inner sender of a tunnelled packet is not notified directly", nil, nil,
			notInnerSender},
		{"P12.1", must, "PROXY 4", "the message is sent to the proxy port, from an address of the switch", proxy, nil,
			notified(kindProxy, plain, checkSource)},
		{"P13.1", must, "PROXY 4, RFC 768", "the UDP checksum of a proxy message is right", proxy, nil,
			notified(kindProxy, plain, checkUDPChecksum)},
		{"P15.1", must, "PROXY 4", "the five-tuple has two addresses, protocol and two ports", proxy, nil,
			notified(kindProxy, plain, checkTuple(0, 37, "five-tuple"))},
		{"P15.2", must, "PROXY 4", "the five-tuple of an IPv4 flow has 13 octets, before level and congested packet",
			[]string{"proxy", "ipv4"}, nil, notified(kindProxy, plainFlows(false), checkTuple4)},
		{"P16.1", must, "PROXY 4", "the addresses of the five-tuple are those of the congested packet", proxy,
			nil, notified(kindProxy, plain, checkTuple(0, 32, "addresses"))},
		{"P17.1", must, "PROXY 4", "the five-tuple is taken from inside a tunnel", []string{"proxy"}, nil,
			notified(kindProxy, tunnelled(0), checkTuple(0, 37, "five-tuple"))},
		{"P18.1", must, "PROXY 4", "the five-tuple is taken from inside VXLAN and GRE", []string{"proxy"}, nil,
			notified(kindProxy, tunnelled(1), checkTuple(0, 37, "five-tuple"))},
		{"P21.1", must, "PROXY 4", "the reserved bits after the congestion level are 0", proxy, nil,
			notified(kindProxy, plain, func(_ *trial, n *seen, _ *stream) (string, string) {
				if len(n.data) < 40 {
					return "a message of at least 40 octets", fmt.Sprintf("%d octets", len(n.data))
				}
				return sameOctets("reserved bits", []byte{0, 0, 0}, []byte{n.data[37] & 0x1F, n.data[38], n.data[39]})
			})},
		{"P22.1", should, "PROXY 4", "the level rises with the queue", []string{"proxy", "levels"}, nil,
			risingLevels(kindProxy, plain, func(n *seen) int { return int(n.data[37] >> 5) })},
		{"P23.1", must, "PROXY 4 figure 5", "as much of the congested packet follows as fits in 1280 octets", proxy,
			nil, notified(kindProxy, plain, checkInvoking)},
		{"P27.1", must, "PROXY 5", "a sender with a proxy is not notified itself", proxy, nil, onlyProxy},
		{"P38.1", should, "PROXY 6", "the interval between two messages of a flow is kept", proxy, nil,
			pacePerFlow(kindProxy, plain)},

		{"W07.1", must, "FCN 4", "the congested node sends an FCN to the ingress PE", fcn, []string{"W06"},
			arrives(kindFCN, tunnelled(0))},
		{"W07.2", must, "FCN 4", "IPv4 flows in IPv6 tunnels cause an FCN, too", []string{"fcn", "ipv4"}, nil,
			arrives(kindFCN, tunnelledFlows(plainFlows(false), 0))},
		{"W20.1", must, "FCN 4.1", "a packet with outer Not-ECT causes no FCN", fcn, nil, notCapableOuter},
		{"W21.1", must, "FCN 4.1", "source is an address of the switch, destination the outer source", fcn, nil,
			notified(kindFCN, tunnelled(0), allOf(checkSource, func(_ *trial, n *seen, s *stream) (string, string) {
				return same("destination", s.outerSrc, n.dst)
			}))},
		{"W22.1", should, "FCN 4.1", "the level rises with the queue", []string{"fcn", "levels"}, nil,
			risingLevels(kindFCN, tunnelled(0), func(n *seen) int { return int(n.data[2] >> 1 & 7) })},
		{"W23.1", must, "FCN 4.1", "the FCN carries the outer flow label", fcn, []string{"W32"},
			notified(kindFCN, tunnelled(0), func(_ *trial, n *seen, s *stream) (string, string) {
				if len(n.data) < 3 {
					return "4 octets", fmt.Sprintf("%d octets", len(n.data))
				}
				return same("label", fmt.Sprintf("0x%05x", s.outerLabel),
					fmt.Sprintf("0x%05x", uint32(n.data[0])<<12|uint32(n.data[1])<<4|uint32(n.data[2])>>4))
			})},
		{"W30.1", must, "FCN 4.2", "the UDP checksum of an FCN to the FCN port is right", fcn, []string{"W36"},
			notified(kindFCN, tunnelled(0), checkUDPChecksum)},
		{"W31.1", must, "FCN 4.2", "the UDP length is 12", fcn, nil,
			notified(kindFCN, tunnelled(0), func(_ *trial, n *seen, _ *stream) (string, string) {
				return same("UDP length", 12, len(n.data)+udpSize)
			})},
		{"W33.1", may, "FCN 4.2", "the label is also the flow label of the FCN itself", fcn, nil,
			ownLabel},
		{"W34.1", must, "FCN 4.2", "the level is 1 to 7, or 0 if it is not given", fcn, nil,
			notified(kindFCN, tunnelled(0), func(x *trial, n *seen, _ *stream) (string, string) {
				switch {
				case len(n.data) < 3:
					return "", fmt.Sprintf("%d octets", len(n.data))
				case n.data[2]>>1&7 == 0 && x.profile.has("levels"):
					return "level 1 to 7", "level 0"
				}
				return "", ""
			})},
		{"W35.1", must, "FCN 4.2", "the reserved bits are 0", fcn, nil,
			notified(kindFCN, tunnelled(0), func(_ *trial, n *seen, _ *stream) (string, string) {
				if len(n.data) < 4 {
					return "4 octets", fmt.Sprintf("%d octets", len(n.data))
				}
				return sameOctets("reserved bits", []byte{0, 0}, []byte{n.data[2] & 1, n.data[3]})
			})},
		{"W38.1", should, "FCN 6", "the interval between two FCNs of a label is kept", fcn, nil,
			pacePerFlow(kindFCN, tunnelled(0))},
	}
}

// arrives is the body of the case that requires any notification of a kind.
func arrives(k kind, streams func(x *trial) []*stream) func(x *trial) outcome {
	return arrivesWith(k, streams, func(*seen) bool { return true })
}

func arrivesWith(k kind, streams func(x *trial) []*stream, f func(n *seen) bool) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		x.require(len(all) > 0, inapplicable("hosts has no prefixes of the family that the case needs"))
		has := func() bool { return slices.ContainsFunc(x.about(k, all), f) }
		if !x.congest(all, has) {
			x.settle()
		}
		switch {
		case has():
			return passed("%d of kind %s", len(x.about(k, all)), k)
		case !slices.ContainsFunc(x.received, x.isForwarded):
			return unclear("no packet crossed the device")
		}
		return failed(nil, "a "+string(k)+" about one of the flows", "%d packets crossed the device, and none arrived",
			len(x.received))
	}
}

// otherPorts: flows with unusual source ports are notified, those to port 4792 are not.
func otherPorts(x *trial) outcome {
	all := plain(x)
	for i, s := range all {
		if s.srcPort = uint16(1201 + i); i >= len(all)/2 {
			s.dstPort, s.opcode, s.headers = portRoCE+1, 0x0A, make([]byte, 16)
		}
	}
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	return x.expectQuiet(kindFastCNP, anyKind, all[:len(all)/2], all[len(all)/2:])
}

// extendedHeaders: each flow has another operation, and each is notified.
func extendedHeaders(x *trial) outcome {
	operations := []struct {
		opcode  uint8
		headers int // octets
	}{{0x06, 16}, {0x64, 8}, {0x14, 28}, {0x05, 4}}
	var all []*stream
	for _, o := range operations {
		flows := plain(x)
		for _, s := range flows {
			s.opcode, s.headers = o.opcode, make([]byte, o.headers)
		}
		all = append(all, flows...)
	}
	number(x, all)
	missing := func() (opcode uint8) {
		notified := map[uint8]bool{}
		for _, n := range x.about(kindFastCNP, all) {
			notified[match(n, all).opcode] = true
		}
		for _, o := range operations {
			if !notified[o.opcode] {
				return o.opcode
			}
		}
		return 0
	}
	x.congest(all, func() bool { return missing() == 0 })
	x.require(len(x.about(kindFastCNP, all)) > 0, unclear("no Fast CNP arrived"))
	x.require(missing() == 0, failed(nil, "a Fast CNP about each opcode", "none about opcode 0x%02x", missing()))
	return passed("Fast CNPs about %d opcodes", len(operations))
}

// forwardsUnchanged: data arrives with the octets that were sent.
func forwardsUnchanged(x *trial) outcome {
	all := append(plain(x), plainFlows(false)(x)...)
	number(x, all)
	x.require(len(all) > 0, inapplicable("hosts has no prefixes"))
	x.offer(all, 1e6, x.profile.Time.Settle, nil)
	x.settle()
	arrived := 0
	for _, n := range x.received {
		s := streamOf(n, all)
		if s == nil {
			continue
		}
		arrived++
		if n.bth != nil && n.icrc != n.computeICRC(asSent) || !x.isForwarded(n) {
			return failed(n, "the octets from the UDP header on as sent", "other octets, or a wrong ICRC")
		}
		if n.ecn() != s.class&3 && n.ecn() != ce {
			return failed(n, fmt.Sprintf("ECN %d or CE", s.class&3), "ECN %d", n.ecn())
		}
	}
	x.require(arrived > 0, unclear("no packet crossed the device"))
	return passed("%d packets", arrived)
}

// streamOf returns the stream of a data packet that crossed the device.
func streamOf(n *seen, all []*stream) *stream {
	i := slices.IndexFunc(all, func(s *stream) bool {
		return n.bth != nil && n.kind == kindData && n.dst == s.dst && n.destQP() == s.destQP
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// capableFlows are flows of senders that the switch knows as capable.
func capableFlows(x *trial) (all []*stream) {
	if len(x.profile.Hosts.Capable) == 0 && !x.profile.has("mark") {
		return plain(x)
	}
	for _, prefix := range x.profile.Hosts.Capable {
		if prefix.Addr().Is6() {
			all = append(all, x.flowsOf(prefix, 2)...)
		}
	}
	number(x, all)
	return all
}

// notMarked is the body of cases about flows that must not be marked while they are notified.
func notMarked(streams func(x *trial) []*stream) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		x.require(len(all) > 0, inapplicable("the device marks, and hosts.capable is empty"))
		x.congest(all, nil)
		x.settle()
		arrived := 0
		for _, n := range x.received {
			if s := streamOf(n, all); s != nil {
				arrived++
				if n.ecn() == ce {
					return failed(n, fmt.Sprintf("ECN %d", s.class&3), "ECN 3, CE")
				}
			}
		}
		x.require(arrived > 0, unclear("no packet crossed the device"))
		x.require(len(x.about(kindFastCNP, all)) > 0, unclear("no Fast CNP arrived, so congestion is not certain"))
		return passed("%d packets, none marked, and %d Fast CNPs", arrived, len(x.about(kindFastCNP, all)))
	}
}

// marksData is the body of cases about data that is marked.
func marksData(v6 bool) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := plainFlows(v6)(x)
		x.require(len(all) > 0, inapplicable("hosts has no prefixes of the family that the case needs"))
		x.congest(all, func() bool { return x.marked(all) >= 3 })
		x.settle()
		crossed, sent := 0, 0
		for _, s := range all {
			sent += int(s.count)
		}
		for _, n := range x.received {
			if streamOf(n, all) == nil {
				continue
			}
			if crossed++; n.ecn() != ce {
				continue
			}
			if n.icrc != n.computeICRC(asSent) || !x.isForwarded(n) {
				return failed(n, "the octets from the UDP header on as sent", "other octets, or a wrong ICRC")
			}
			if !n.v6 && headerSum(n.ip) != 0 {
				return failed(n, "the checksum of the IPv4 header", "a wrong one")
			}
		}
		switch {
		case x.marked(all) > 0:
			return passed("%d of %d packets with CE", x.marked(all), crossed)
		case crossed == 0:
			return unclear("no packet crossed the device")
		case crossed == sent:
			return unclear("no packet was marked or lost, so congestion is not certain")
		}
		return failed(nil, "CE on some packets", "none of %d with CE, and %d lost", crossed, sent-crossed)
	}
}

// marked returns the number of packets of the streams that have arrived with CE.
func (x *trial) marked(all []*stream) (count int) {
	for _, n := range x.received {
		if n.ecn() == ce && streamOf(n, all) != nil {
			count++
		}
	}
	return count
}

// sparesNotECT is the body of cases about Not-ECT data, beside ECN-capable data that must be marked.
func sparesNotECT(v6 bool) func(x *trial) outcome {
	return func(x *trial) outcome {
		control, silent := plainFlows(v6)(x), plainFlows(v6)(x)
		all := append(control, silent...)
		number(x, all)
		for _, s := range silent {
			s.class = 0
		}
		x.require(len(all) > 0, inapplicable("hosts has no prefixes of the family that the case needs"))
		x.congest(all, func() bool { return x.marked(control) >= 10 })
		x.settle()
		crossed := 0
		for _, n := range x.received {
			if streamOf(n, silent) == nil {
				continue
			}
			if crossed++; n.ecn() != 0 {
				return failed(n, "ECN 0", "ECN %d", n.ecn())
			}
		}
		x.require(crossed > 0, unclear("no Not-ECT packet crossed the device"))
		x.require(x.marked(control) > 0,
			unclear("no ECN-capable packet was marked, so congestion is not certain"))
		return passed("%d packets, none marked, and %d ECN-capable ones with CE", crossed, x.marked(control))
	}
}

func marksUnknown(x *trial) outcome {
	all := plain(x)
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	x.congest(all, func() bool { return x.marked(all) > 0 && len(x.about(kindFastCNP, all)) > 0 })
	x.require(len(x.about(kindFastCNP, all)) > 0, unclear("no Fast CNP arrived, so congestion is not certain"))
	x.require(x.marked(all) > 0, failed(nil, "CE on some packets", "none with CE"))
	return passed("packets with CE, and Fast CNPs")
}

func checkHeaders(x *trial, n *seen, s *stream) (string, string) {
	if len(n.extensions) != 1 || n.extensions[0].protocol != protocolOptions {
		return "one Destination Options header", fmt.Sprintf("%d extension headers", len(n.extensions))
	}
	return same("number of options", 1, len(n.options(protocolOptions)))
}

// checkPadding checks that the options of the header fill it exactly, with padding of zeros.
func checkPadding(x *trial, n *seen, s *stream) (string, string) {
	for _, e := range n.extensions {
		for at := 2; at < len(e.data); {
			if e.data[at] == 0 {
				at++
				continue
			}
			if at+2 > len(e.data) || at+2+int(e.data[at+1]) > len(e.data) {
				return "options that end in the header", fmt.Sprintf("an option at octet %d that overruns it", at)
			}
			end := at + 2 + int(e.data[at+1])
			if e.data[at] == 1 && bytes.ContainsFunc(e.data[at+2:end], func(r rune) bool { return r != 0 }) {
				return "padding of zeros", fmt.Sprintf("padding %x", e.data[at:end])
			}
			at = end
		}
	}
	return "", ""
}

// notOption2 is the reason for which an option is not checked. F31.1 requires option 2.
const notOption2 = "an option that is too short for option 2"

func checkOption2(x *trial, n *seen, s *stream, o option) (string, string) {
	if len(o.data) < 26 {
		return "", notOption2
	}
	if e, g := same("offset of the option modulo 4", 0, o.at%4); e != "" {
		return e, g
	}
	if e, g := sameOctets("reserved and IOAM type", []byte{0, 0}, o.data[:2]); e != "" {
		return e, g
	}
	return sameOctets("address", s.dst.AsSlice(), o.data[len(o.data)-16:])
}

func checkTrace(x *trial, n *seen, s *stream, o option) (string, string) {
	if len(o.data) < 26 {
		return "", notOption2
	}
	if x.profile.has("ioam") && x.profile.CodePoints.IOAMNamespaces == nil {
		return checkOwnRecord(x, n, s, o)
	}
	return sameOctets("trace", traceOf(s), o.data[2:len(o.data)-16])
}

// checkOwnRecord compares a trace with one record more, which takes free space.
func checkOwnRecord(_ *trial, _ *seen, s *stream, o option) (string, string) {
	if len(o.data) < 26 {
		return "", notOption2
	}
	want, got := traceOf(s), o.data[2:len(o.data)-16]
	if e, g := same("octets of the trace", len(want), len(got)); e != "" {
		return e, g
	}
	if e, g := same("RemainingLen", want[3]&0x7F-2, got[3]&0x7F); e != "" {
		return e, g
	}
	return sameOctets("earlier records", want[24:], got[24:])
}

// longTrace: a trace of 61 words does not fit beside the address. The switch may send option 1, a shorter trace with
// all
// nodes, or nothing.
func longTrace(x *trial) outcome {
	long, control := traced(foreignNamespace, 28)(x), plain(x)
	all := append(long, control...)
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	number(x, all)
	x.congest(all, func() bool { return len(x.about(kindFastCNP, control)) >= 4 })
	x.settle()
	var about, others []*seen
	for _, n := range x.about(kindFastCNP, all) {
		if slices.Contains(long, match(n, all)) {
			about = append(about, n)
		} else {
			others = append(others, n)
		}
	}
	hasOne := func(n *seen) bool { return len(n.options(protocolOptions)) == 1 }
	for _, n := range about {
		if o, wrong := x.fastCNP(n); wrong == "" {
			s := match(n, all)
			if expected, got := checkLongTrace(s, o); expected != "" {
				return x.fieldFailed(n, s, expected, got)
			}
		} else if slices.ContainsFunc(others, hasOne) { // otherwise F24.1 is about that
			return failed(n, "one option, as about plain flows", "%s", wrong)
		}
	}
	x.require(len(others) > 0, unclear("no Fast CNP about the plain flows, so congestion is not certain"))
	x.require(x.haveCrossed(long), unclear("no packet with a long trace crossed the device"))
	return passed("%d Fast CNPs about long traces", len(about))
}

// checkLongTrace compares the end of the trace in an option with the nodes that a stream carries.
func checkLongTrace(s *stream, o option) (expected, got string) {
	t := traceOf(s)
	switch {
	case len(o.data) == 16: // option 1
		return "", ""
	case len(o.data) < 18+16:
		return "option 1, or option 2 with the nodes of the trace", fmt.Sprintf("an option of %d octets", len(o.data))
	}
	return sameOctets("end of the trace", t[len(t)-16:], o.data[len(o.data)-32:len(o.data)-16])
}

// ownRecord: a trace in a namespace of the switch has one record more.
func ownRecord(x *trial) outcome {
	namespace := foreignNamespace
	switch own := x.profile.CodePoints.IOAMNamespaces; {
	case len(own) > 0:
		namespace = func(*trial) uint16 { return own[0] }
	case own != nil:
		return inapplicable("code_points.ioam_namespaces is empty")
	}
	return notified(kindFastCNP, traced(namespace, 2), withOption(checkOwnRecord))(x)
}

// counts returns the notifications of each stream.
func (x *trial) counts(k kind, all []*stream) map[*stream]int {
	counts := map[*stream]int{}
	for _, n := range x.about(k, all) {
		counts[match(n, all)]++
	}
	return counts
}

// pacePerFlow is the body of cases about the interval of each flow.
func pacePerFlow(k kind, streams func(x *trial) []*stream) func(x *trial) outcome {
	return func(x *trial) outcome {
		interval, all := x.profile.Device.Limits.PerFlow, streams(x)
		x.require(interval > 0, inapplicable("device.limits has no per_flow"))
		begin := x.rig.now()
		x.congest(all, nil)
		time := x.rig.now().Sub(begin)
		x.settle()
		return x.checkPace(k, all, time, fewest(all))
	}
}

// fewest returns the lowest number of packets of one of the streams.
func fewest(all []*stream) int {
	return int(slices.MinFunc(all, func(a, b *stream) int { return cmp.Compare(a.count, b.count) }).count)
}

// checkPace compares the number of notifications of each flow with the interval of the profile. The flows were
// congested for a time, and until the queue was empty, and each had a number of causes for notifications. Prefixes of
// senders without a notification of the kind are left out, as the device may have another method for them.
func (x *trial) checkPace(k kind, all []*stream, congested time.Duration, causes int) outcome {
	counts := x.counts(k, all)
	x.require(len(counts) > 0, unclear("no %s arrived", k))
	least, most := -1, 0
	notified := map[netip.Prefix]bool{}
	for s := range counts {
		notified[x.prefixOf(s.src)] = true
	}
	for _, s := range all {
		if notified[x.prefixOf(s.src)] {
			most = max(most, counts[s])
			if least < 0 || counts[s] < least {
				least = counts[s]
			}
		}
	}
	const untilEmpty = 100 * time.Millisecond
	interval := x.profile.Device.Limits.PerFlow
	allowed, expected := int((congested+untilEmpty)/interval)+2, int(congested/interval)
	switch {
	case most > allowed:
		return failed(nil, fmt.Sprintf("at most %d in %v for each flow", allowed, congested), "%d for one flow", most)
	case most > 8 && least < most/8 || least == 0 && most > 1:
		return failed(nil, "a separate interval for each flow", "%d for one flow and %d for another", most, least)
	case 2*causes < 3*allowed: // a device without an interval would pass as well
		return unclear("%d packets of a flow in %v, and up to %d notifications are allowed: raise congestion.rate",
			causes, congested, allowed)
	case len(counts) > 1 && expected > 20 && sum(counts) <= expected && !haveShortGaps(x.about(k, all), all, interval):
		return failed(nil, fmt.Sprintf("up to %d in %v, separately for each flow", expected, congested),
			"%d for %d flows together",
			sum(counts), len(counts))
	}
	return passed("%d to %d for each flow in %v", least, most, congested)
}

// haveShortGaps reports whether many notifications follow one about another flow sooner than after an interval, as they
// do if each flow has an interval of its own.
func haveShortGaps(list []*seen, flows []*stream, interval time.Duration) bool {
	list = slices.SortedFunc(slices.Values(list), func(a, b *seen) int { return a.at.Compare(b.at) })
	sooner := 0
	for i := range list[1:] {
		a, b := list[i], list[i+1]
		if b.at.Sub(a.at) < interval*8/10 && match(a, flows) != match(b, flows) {
			sooner++
		}
	}
	return 4*sooner > len(list)
}

// prefixOf returns the prefix of the profile that a sender is in, or the zero value.
func (s *suite) prefixOf(a netip.Addr) (p netip.Prefix) {
	all := slices.Concat(s.profile.Hosts.Sender, s.profile.Hosts.Capable)
	if i := slices.IndexFunc(all, func(p netip.Prefix) bool { return p.Contains(a) }); i >= 0 {
		p = all[i]
	}
	return p
}

func sum(counts map[*stream]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// paceTotal is the body of cases about the rate of all notifications.
func paceTotal(k kind, streams func(x *trial) []*stream) func(x *trial) outcome {
	return func(x *trial) outcome {
		rate, all := float64(x.profile.Device.Limits.Total), streams(x)
		x.require(rate > 0, inapplicable("device.limits has no total"))
		begin := x.rig.now()
		x.congest(all, nil)
		x.settle()
		time := x.rig.now().Sub(begin).Seconds()
		count := len(x.notifications(k))
		x.require(count > 0, unclear("no %s arrived", k))
		if allowed := rate*(time+1) + 1; float64(count) > allowed { // a bucket may hold a second's worth
			return failed(nil, fmt.Sprintf("at most %.0f in %.1f s", allowed, time), "%d", count)
		}
		return passed("%d in %.1f s", count, time)
	}
}

// silent: a device that is off neither notifies nor marks.
func silent(x *trial) outcome {
	all := append(plain(x), tunnelled(0)(x)...)
	number(x, all)
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	isSignal := func(n *seen) bool {
		return slices.Contains(anyKind, n.kind) || n.innermost().bth != nil && n.ecn() == ce
	}
	x.congest(all, nil)
	x.settle()
	crossed := 0
	for _, n := range x.received {
		switch {
		case slices.Contains(anyKind, n.kind):
			return failed(n, x.c.expected, "a %s to %v", n.kind, n.dst)
		case isSignal(n):
			return failed(n, x.c.expected, "a packet with CE")
		case n.innermost().bth != nil:
			crossed++
		}
	}
	x.require(crossed > 0, unclear("no packet crossed the device"))
	return x.whenEnabled(passed("%d packets crossed the device, without a notification or a mark", crossed),
		func() bool {
			return x.congest(all, func() bool { return slices.ContainsFunc(x.received, isSignal) })
		})
}

// insertHeader puts an extension header, which begins with its next header, after the IPv6 header.
func insertHeader(ip []byte, protocol uint8, header []byte) []byte {
	b := slices.Concat(ip[:ipv6Size], header, ip[ipv6Size:])
	b[6] = protocol
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Size))
	return b
}

// A ppfcExtension is the extension after the BTH of a PPFC.
type ppfcExtension struct {
	address               netip.Addr
	flags                 uint16
	pt                    uint8
	port, reserved, pause uint16
}

// ppfcOf reads the extension of a PPFC. One of another length reads as zero.
func ppfcOf(n *seen) (e ppfcExtension) {
	b := n.afterBTH()
	if len(b) != 12 && len(b) != 24 {
		return e
	}
	rest := b[len(b)-8:]
	e.address, _ = netip.AddrFromSlice(b[:len(b)-8])
	word := binary.BigEndian.Uint16(rest)
	e.flags, e.pt = word>>2, uint8(word&3)
	e.port, e.reserved = binary.BigEndian.Uint16(rest[2:]), binary.BigEndian.Uint16(rest[4:])
	e.pause = binary.BigEndian.Uint16(rest[6:])
	return e
}

var ppfcNames = []string{"stop", "resume", "alarm", "hold"}

// withExtension is a check of the extension of a PPFC. PPFCs with one of another length, which X06 is about, are not
// checked.
func withExtension(f func(x *trial, s *stream, e ppfcExtension) (expected, got string)) check {
	return func(x *trial, n *seen, s *stream) (string, string) {
		e := ppfcOf(n)
		if !e.address.IsValid() {
			return "", fmt.Sprintf("%d octets after the BTH", len(n.afterBTH()))
		}
		return f(x, s, e)
	}
}

func checkPT(x *trial, _ *stream, e ppfcExtension) (string, string) {
	name := ppfcNames[e.pt]
	if x.profile.has("ppfc-" + name) {
		return "", ""
	}
	return "a type in device.supports", name
}

func checkMAC(x *trial, n *seen, _ *stream) (string, string) {
	return same("Ethernet destination", fmt.Sprintf("%x", x.profile.Ports[n.port].MAC.mac),
		fmt.Sprintf("%x", n.frame[:6]))
}

func samePort(x *trial) outcome {
	var first *ppfcExtension
	return notified(kindPPFC, plain, withExtension(func(_ *trial, _ *stream, e ppfcExtension) (string, string) {
		if first == nil {
			first = &e
		}
		return same("Congestion Port", first.port, e.port)
	}))(x)
}

// resumes: after the congestion, each flow that got a stop gets a resume.
func resumes(x *trial) outcome {
	all := plain(x)
	stops, flows := map[*stream]*seen{}, 0 // the last stop of each flow that no resume followed
	done := func() bool {
		clear(stops)
		stopped := map[*stream]bool{}
		for _, n := range x.about(kindPPFC, all) {
			switch s := match(n, all); ppfcOf(n).pt {
			case 0:
				stops[s], stopped[s] = n, true
			case 1:
				delete(stops, s)
			}
		}
		flows = len(stopped)
		return len(stops) == 0
	}
	x.congest(all, nil)
	if done(); flows == 0 {
		return unclear("no stop arrived")
	}
	// A few packets follow, so that a device that only acts on packets may notice that the queue is empty.
	for end := x.rig.now().Add(5 * time.Second); x.rig.now().Before(end) && !x.isOver(); {
		if x.wait(250*time.Millisecond, done) {
			break
		}
		x.transmit(all[0].port, all[0].next())
	}
	if !done() {
		for _, s := range all {
			if n := stops[s]; n != nil {
				o := failed(nil, fmt.Sprintf("a resume after the last stop of each of %d flows", flows),
					"none after a stop of queue pair %s at %v", hex24(s.destQP), s.src)
				o.about = n
				return o
			}
		}
	}
	return passed("%d flows stopped and resumed", flows)
}

// risingTypes: the first PPFC of a congestion is an alarm or a hold, and a stop follows.
func risingTypes(x *trial) outcome {
	all := plain(x)
	if !x.profile.has("ppfc-alarm") && !x.profile.has("ppfc-hold") {
		return inapplicable("device.supports has neither ppfc-alarm nor ppfc-hold")
	}
	x.congest(all, nil)
	list := x.about(kindPPFC, all)
	x.require(len(list) > 0, unclear("no PPFC arrived"))
	first := ppfcOf(list[0]).pt
	if first == 0 {
		return failed(list[0], "alarm or hold, and then stop", "%s first", ppfcNames[first])
	}
	if !slices.ContainsFunc(list, func(n *seen) bool { return ppfcOf(n).pt == 0 }) {
		o := failed(nil, "alarm or hold, and then stop", "%s first, and no stop", ppfcNames[first])
		o.about = list[0]
		return o
	}
	return passed("%s first, and then stop", ppfcNames[first])
}

// tunnelled returns plain flows inside tunnels of the ingress PE: IP in IPv6, or VXLAN and GRE.
func tunnelled(sort int) func(x *trial) []*stream { return tunnelledFlows(plain, sort) }

// tunnelledFlows returns flows inside tunnels of the ingress PE: IP in IPv6, or VXLAN and GRE.
func tunnelledFlows(flows func(x *trial) []*stream, sort int) func(x *trial) []*stream {
	return func(x *trial) []*stream {
		all := flows(x)
		for i, s := range all {
			s.outerSrc, s.outerLabel = x.ingressPE(), uint32(0x12300+x.number*16+i+1)
			src, dst, label := s.outerSrc, host(x.profile.Hosts.Receiver[0], 7), s.outerLabel
			if to, ok := pick(x.profile.Hosts.Receiver, true); ok {
				dst = host(to, 7)
			}
			vxlan := x.profile.CodePoints.VXLANPorts
			s.wrap = func(ip []byte) []byte {
				switch {
				case sort == 1 && i%2 == 0 && len(vxlan) > 0:
					return wrapVXLAN(src, dst, ect0, label, vxlan[0], ip)
				case sort == 1:
					return wrapGRE(src, dst, ect0, label, ip)
				}
				return wrapIP(src, dst, ect0, label, ip)
			}
		}
		return all
	}
}

// ingressPE returns the address of the ingress PE that the tester plays.
func (s *suite) ingressPE() netip.Addr {
	for _, a := range s.profile.Hosts.PE {
		if a.Is6() {
			return a
		}
	}
	prefix, _ := pick(s.profile.Hosts.Sender, true)
	return host(prefix, 5)
}

// notInnerSender: the device is congested with tunnelled packets, and no message goes to an inner source.
func notInnerSender(x *trial) outcome {
	all := tunnelled(0)(x)
	control := plain(x)
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	both := append(control, all...)
	number(x, both)
	x.congest(both, func() bool { return len(x.received) > 2000 })
	x.settle()
	notified := 0
	for _, n := range x.received {
		if n.kind != kindCNP && n.kind != kindFastCNP && n.kind != kindPPFC || x.isStale(n) {
			continue
		}
		notified++
		if s := match(n, both); s != nil && slices.Contains(all, s) {
			return failed(n, x.c.expected, "a %s to %v", n.kind, n.dst)
		}
	}
	x.require(notified+x.marked(control)+len(x.notifications(kindProxy))+len(x.notifications(kindFCN)) > 0,
		unclear("no notification and no mark arrived, so congestion is not certain"))
	return passed("no notification to an inner source")
}

func checkUDPChecksum(x *trial, n *seen, _ *stream) (string, string) {
	got := binary.BigEndian.Uint16(n.upper[6:])
	return same("UDP checksum", fmt.Sprintf("0x%04x", udpChecksum(n.src, n.dst, n.upper[:udpSize+len(n.data)])),
		fmt.Sprintf("0x%04x", got))
}

// checkTuple compares octets of the five-tuple of a proxy message about an IPv6 flow.
func checkTuple(from, to int, name string) check {
	return func(x *trial, n *seen, s *stream) (string, string) {
		tuple := append(append(s.src.AsSlice(), s.dst.AsSlice()...), protocolUDP)
		tuple = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(tuple, s.srcPort), portRoCE)
		if len(n.data) < len(tuple) {
			return fmt.Sprintf("at least %d octets", len(tuple)), fmt.Sprintf("%d octets", len(n.data))
		}
		return sameOctets(name, tuple[from:to], n.data[from:to])
	}
}

// checkTuple4 checks the beginning of a proxy message about an IPv4 flow, and that the congested packet follows.
func checkTuple4(_ *trial, n *seen, s *stream) (string, string) {
	tuple := append(append(s.src.AsSlice(), s.dst.AsSlice()...), protocolUDP)
	tuple = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(tuple, s.srcPort), portRoCE)
	const size = 16 // with the level
	if len(n.data) < size+ipv4Size {
		return fmt.Sprintf("at least %d octets", size+ipv4Size), fmt.Sprintf("%d octets", len(n.data))
	}
	if e, g := sameOctets("five-tuple", tuple, n.data[:len(tuple)]); e != "" {
		return e, g
	}
	return sameOctets("addresses of the congested packet", tuple[:8], n.data[size+12:size+ipv4Size])
}

// checkInvoking checks that the congested packet follows, up to 1280 octets of the IPv6 packet that carries it, or 576
// over IPv4. Traffic class and hop limit may differ from those that the tester sent.
func checkInvoking(x *trial, n *seen, s *stream) (string, string) {
	if len(n.data) < 40+ipv6Size {
		return "the congested packet from octet 40 on", fmt.Sprintf("%d octets", len(n.data))
	}
	limit := 1280
	if !n.v6 {
		limit = 576
	}
	f := s.flow
	f.psn = 0
	sent := f.appendIP(nil)
	want := min(len(sent), limit-(len(n.ip)-len(n.data)))
	got := n.data[40:]
	if e, g := same("octets of the congested packet", want, len(got)); e != "" {
		return e, g
	}
	return sameOctets("addresses of the congested packet", sent[8:40], got[8:40])
}

// ownLabel: an FCN may have the label in its own header.
func ownLabel(x *trial) outcome {
	used := false
	o := notified(kindFCN, tunnelled(0), func(_ *trial, n *seen, s *stream) (string, string) {
		if n.label == 0 {
			return "", ""
		}
		used = true
		return same("flow label", s.outerLabel, n.label)
	})(x)
	if o.verdict == pass && !used {
		return inapplicable("the flow label of FCNs is 0: the device does not use this option")
	}
	return o
}

func onlyProxy(x *trial) outcome {
	all := plain(x)
	x.congest(all, func() bool { return len(x.about(kindProxy, all)) >= 4 })
	x.settle()
	served := map[netip.Addr]bool{}
	for _, n := range x.about(kindProxy, all) {
		served[match(n, all).src] = true
	}
	x.require(len(served) > 0, unclear("no proxy message arrived"))
	for _, k := range []kind{kindFastCNP, kindPPFC, kindCNP} {
		for _, n := range x.about(k, all) {
			if served[match(n, all).src] {
				return failed(n, x.c.expected, "a %s to %v", k, n.dst)
			}
		}
	}
	return passed("proxy messages about %d senders", len(served))
}

// risingLevels: the level at the begin of congestion is at most the highest, and more than one level is seen.
func risingLevels(k kind, streams func(x *trial) []*stream, level func(n *seen) int) func(x *trial) outcome {
	return func(x *trial) outcome {
		all := streams(x)
		x.congest(all, nil)
		list := x.about(k, all)
		x.require(len(list) > 0, unclear("no %s arrived", k))
		first, highest := level(list[0]), 0
		for _, n := range list {
			highest = max(highest, level(n))
		}
		if highest <= first {
			o := failed(nil, "a level that rises", "level %d from the first message to the last", first)
			o.about = list[0]
			return o
		}
		return passed("level %d at first, %d at most", first, highest)
	}
}

// notCapableOuter: tunnelled packets with outer Not-ECT cause no FCN, those with ECT do.
func notCapableOuter(x *trial) outcome {
	control, silent := tunnelled(0)(x), tunnelled(0)(x)
	all := append(control, silent...)
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	number(x, all)
	for i, s := range silent {
		src, dst := s.outerSrc, host(x.profile.Hosts.Receiver[0], 7)
		s.outerLabel += 0x800 + uint32(i)
		s.wrap = func(ip []byte) []byte { return wrapIP(src, dst, 0, s.outerLabel, ip) }
	}
	return x.expectQuiet(kindFCN, []kind{kindFCN}, control, silent)
}

// rejectionOf returns the ICMPv6 error by which a host rejects a Fast CNP: code 2, with a pointer to the option.
func rejectionOf(n *seen, host netip.Addr) []byte {
	at := uint32(ipv6Size)
	if o := n.options(protocolOptions); len(o) > 0 && len(n.extensions) > 0 {
		at = uint32(n.extensions[0].at + o[0].at)
	}
	icmp := binary.BigEndian.AppendUint32([]byte{4, 2, 0, 0}, at)
	return icmpPacket(host, n.src, append(icmp, n.ip[:min(len(n.ip), 1232)]...))
}

// flowFrom returns one numbered flow, also as a list, from the host with this number in the senders' IPv6 prefix.
func (x *trial) flowFrom(n uint32) (s *stream, all []*stream) {
	prefix, ok := pick(x.profile.Hosts.Sender, true)
	if ok {
		all = x.flowsOf(prefix, 1)
	}
	x.require(len(all) > 0, inapplicable("hosts has no IPv6 prefixes"))
	s = all[0]
	s.src = host(prefix, n)
	number(x, all)
	return s, all
}

// learnsRejection: a host rejects each Fast CNP, and gets no more of them, except one that probes it later.
func learnsRejection(x *trial) outcome {
	s, all := x.flowFrom(40)
	others, both := x.addControlFlows(s, 42)
	answered := 0
	reject := func() bool {
		list := x.about(kindFastCNP, all)
		for ; answered < min(len(list), 6); answered++ {
			x.transmit(s.port, rejectionOf(list[answered], s.src))
			x.wait(20*time.Millisecond, func() bool { return false })
		}
		return answered >= 6
	}
	x.congest(all, reject)
	x.require(answered > 0, unclear("no Fast CNP arrived"))
	x.drainQueue()
	x.received = nil
	x.congest(both, nil)
	counts := x.counts(kindFastCNP, both)
	after, control := counts[s], counts[others[0]]
	x.require(after <= 4 || control <= 4,
		failed(nil, "no more than a few probes", "%d Fast CNPs after %d rejections", after, answered))
	x.require(control >= 4*max(after, 1),
		unclear("%d Fast CNPs later, but also only %d to a host that rejects none", after, control))
	return passed("%d rejections, and %d Fast CNPs later, but %d to a host that rejects none", answered, after, control)
}

// addControlFlows returns flows like another one, from the host with this number, and a list of all. They congest the
// device without the other one.
func (x *trial) addControlFlows(s *stream, n uint32) (others, all []*stream) {
	prefix, _ := pick(x.profile.Hosts.Sender, true)
	for i := range 3 {
		c := *s
		c.src, c.destQP, c.srcPort = host(prefix, n), x.queuePair(i+2), s.srcPort+1+uint16(i)
		others = append(others, &c)
	}
	return others, append([]*stream{s}, others...)
}

// drainQueue waits until nothing arrives for some time.
func (x *trial) drainQueue() {
	for before := -1; before != len(x.received) && !x.isOver(); {
		before = len(x.received)
		x.wait(50*time.Millisecond, func() bool { return false })
	}
}

// ignoresForgedRejection: errors about Fast CNPs that the switch did not send, as their flow label is another one,
// change nothing.
func ignoresForgedRejection(x *trial) outcome {
	s, all := x.flowFrom(41)
	x.congest(all, func() bool { return len(x.about(kindFastCNP, all)) > 0 })
	list := x.about(kindFastCNP, all)
	x.require(len(list) > 0, unclear("no Fast CNP arrived"))
	for i := range uint8(6) {
		forged := rejectionOf(list[0], s.src)
		quoted := forged[ipv6Size+8:]
		quoted[2], quoted[3] = quoted[2]^0x5A, i
		icmp := forged[ipv6Size:]
		icmp[2], icmp[3] = 0, 0
		x.transmit(s.port, icmpPacket(s.src, list[0].src, icmp))
		x.wait(20*time.Millisecond, func() bool { return false })
	}
	x.drainQueue()
	x.received = nil
	others, both := x.addControlFlows(s, 43)
	if x.congest(both, func() bool { return x.counts(kindFastCNP, both)[s] > 0 }) {
		return passed("further Fast CNPs")
	}
	control := x.counts(kindFastCNP, both)[others[0]]
	x.require(control > 0, unclear("no further Fast CNPs, but also none to a host that sent no errors"))
	return failed(nil, "further Fast CNPs", "none after errors that quote no Fast CNP of the switch, and %d to a host "+
		"that sent none", control)
}
