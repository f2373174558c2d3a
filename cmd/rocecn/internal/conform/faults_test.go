package conform

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// A planted fault is a subject with a fault in its packets or its configuration.
type planted struct {
	subject string
	name    string
	caught  string // the case that names the requirement
	only    string // the only case that runs, where the fault outlasts a case; empty: all
	related string // further cases that may fail, as the fault breaks their requirements as well

	config  []string // replacements in the configuration
	profile []string // and in the profile
	in      func(r *memoryRig, port int, frame []byte) []byte
	out     func(r *memoryRig, port int, frame []byte) []arrival
}

var points = codePoints{OptionTypes: []uint8{0x9E}, FCNPort: 1021, ProxyPort: 1022}

// rewrite changes packets of a kind in place, and repairs their ICRC or checksum.
func rewrite(k kind, change func(p *packet)) func(*memoryRig, int, []byte) []arrival {
	return replace(k, func(p *packet) []byte {
		change(p)
		return p.ip
	})
}

// replace replaces packets of a kind by others, and repairs their ICRC or checksum. Nil drops a packet.
func replace(k kind, change func(p *packet) []byte) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		frame = slices.Clone(frame)
		p, _ := readFrame(frame, []uint16{portVXLAN})
		if p == nil || p.kind(&points) != k || !isOwn(p, k) {
			return []arrival{{port: port, frame: frame}}
		}
		ip := change(p)
		if ip == nil {
			return nil
		}
		return []arrival{{port: port, frame: repaired(frame, ip)}}
	}
}

// isOwn reports whether a packet is data, or a notification of the device itself.
func isOwn(p *packet, k kind) bool {
	own := []string{"2001:db8:ffff::5", "2001:db8:1::1", "2001:db8:d::1", "10.13.0.1", "10.0.1.1"}
	return k == kindData || slices.Contains(own, p.src.String())
}

// repaired returns a frame with another packet, with the right ICRC or UDP checksum.
func repaired(frame, ip []byte) []byte {
	ip = slices.Clone(ip)
	if ip[0]>>4 == 6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-ipv6Size))
	} else {
		ip = appendIPv4(nil, netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:])), ip[1], ip[9],
			ip[20:])
	}
	if p := readIP(ip, nil, 1); p != nil && p.protocol == protocolUDP {
		binary.BigEndian.PutUint16(p.upper[4:], uint16(len(p.upper)))
		if p = readIP(ip, nil, 1); p.bth != nil {
			sign(ip)
		} else {
			binary.BigEndian.PutUint16(p.upper[6:], udpChecksum(p.src, p.dst, p.upper))
		}
	}
	return append(slices.Clone(frame[:ethernetSize]), ip...)
}

// raw changes packets of a kind and repairs nothing.
func raw(k kind, change func(p *packet)) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		frame = slices.Clone(frame)
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == k && isOwn(p, k) {
			change(p)
		}
		return []arrival{{port: port, frame: frame}}
	}
}

// incoming changes packets to the device. Nil drops one.
func incoming(change func(p *packet) []byte) func(*memoryRig, int, []byte) []byte {
	return func(_ *memoryRig, port int, frame []byte) []byte {
		p, _ := readFrame(frame, nil)
		if p == nil {
			return frame
		}
		ip := change(p)
		if ip == nil {
			return nil
		}
		return append(slices.Clone(frame[:ethernetSize]), ip...)
	}
}

// answering makes the device send a Fast CNP for each packet that crosses it, if the function returns a queue pair.
func answering(answer func(p *packet) (qp uint32, ok bool)) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		list := []arrival{{port: port, frame: frame}}
		p, _ := readFrame(frame, nil)
		if p == nil || port != 1 {
			return list
		}
		if qp, ok := answer(p); ok {
			return append(list, fastCNPTo(p.src, p.dst, qp))
		}
		return list
	}
}

// fastCNPTo is a Fast CNP of the device to a sender.
func fastCNPTo(sender, original netip.Addr, qp uint32) arrival {
	if sender.Is4() {
		sender, original = hostOfText("2001:db8:a:1::77"), hostOfText("2001:db8:f::77")
	}
	f := flow{src: hostOfText("2001:db8:ffff::5"), dst: sender, opcode: opcodeCNP, destQP: qp, pKey: 0x8001,
		payload: make([]byte, 16), options: fastCNPOption1(0x9E, original)}
	return arrival{port: 0, frame: appendEthernet(nil, testerMAC(0), deviceMAC(0), 0, f.appendIP(nil))}
}

func answerKind(k kind) func(*memoryRig, int, []byte) []arrival {
	return answering(func(p *packet) (uint32, bool) { return p.destinationQP(), p.kind(&points) == k })
}

// setOption returns a Fast CNP with other octets in its options header.
func setOption(change func(header []byte) []byte) func(*memoryRig, int, []byte) []arrival {
	return replace(kindFastCNP, func(p *packet) []byte {
		e := p.extensions[0]
		header := change(slices.Clone(e.data))
		return slices.Concat(p.ip[:e.at], header, p.ip[e.at+len(e.data):])
	})
}

// onOption1 changes option 1 in place: it begins at octet 2 of its header.
func onOption1(change func(o []byte)) func(*memoryRig, int, []byte) []arrival {
	return setOption(func(h []byte) []byte {
		if h[2] == 0x9E {
			change(h[2:])
		}
		return h
	})
}

// onOption2 changes option 2 in place: it begins at octet 4 of its header.
func onOption2(change func(o []byte)) func(*memoryRig, int, []byte) []arrival {
	return setOption(func(h []byte) []byte {
		if h[2] == 1 && h[4] == 0x9E {
			change(h[4:])
		}
		return h
	})
}

func setAddress(to []byte, text string) { copy(to, hostOfText(text).AsSlice()) }

// allAbilities are those of the switch in memory.
const allAbilities = `"option1", "option2", "fcn", "proxy", "ipv4", "ipv6", "ppfc-stop", "ppfc-resume", ` +
	"\"ppfc-alarm\",\n\t" + `"ppfc-hold", "levels", "icmpv6-learning", "mark", "ioam"`

const (
	senderConfigAccept = `accept = ["2001:db8:c::9/128"]`
	nodeAccept         = `accept = ["2001:db8:3::9/128"]`
)

// cnpFaults are the faults of CNPs that receivers, proxies and ingress PEs have in common. also are cases that check
// several fields.
func cnpFaults(subject, pair, source, destination, also string) []planted {
	return []planted{
		{subject: subject, name: "queue pair of the data instead of the sender's", caught: pair, related: also,
			out: rewrite(kindCNP, func(p *packet) { p.bth[7] ^= 0x83 })},
		{subject: subject, name: "P_Key 0xffff", caught: "B02.1", out: rewrite(kindCNP,
			func(p *packet) { p.bth[2] = 0xFF })},
		{subject: subject, name: "octets after the BTH are not 0", caught: "F07.1", related: "W03.1",
			out: rewrite(kindCNP, func(p *packet) { p.bth[20] = 1 })},
		{subject: subject, name: "PSN is not 0", caught: "F07.1", related: "W03.1",
			out: rewrite(kindCNP, func(p *packet) { p.bth[11] = 1 })},
		{subject: subject, name: "wrong ICRC", caught: "F07.2", related: "W03.1",
			out: raw(kindCNP, func(p *packet) { p.data[len(p.data)-1] ^= 1 })},
		{subject: subject, name: "UDP port 4790", caught: "F07.3", related: also + " P01.1 W28.1 W24.1",
			out: raw(kindCNP, func(p *packet) { p.upper[3]-- })},
		{subject: subject, name: "source of another node", caught: source, related: also,
			out: rewrite(kindCNP, func(p *packet) {
				if p.v6 {
					setAddress(p.ip[8:], "2001:db8:bad::1")
				}
			})},
		{subject: subject, name: "destination of another host", caught: destination, related: also,
			out: rewrite(kindCNP, func(p *packet) {
				if p.v6 {
					setAddress(p.ip[24:], "2001:db8:a:1::77")
				}
			})},
	}
}

// isProxy4 reports whether a packet is a proxy message over IPv4.
func isProxy4(p *packet) bool { return !p.v6 && p.kind(&points) == kindProxy }

// plantedFaults are the faults with their cases.
func plantedFaults() []planted {
	fcnSeen := onlyAfterFCN()
	all := []planted{
		{subject: "switch", name: "no Fast CNPs", caught: "F01.1",
			config: []string{`"2001:db8:a:1::/64", method = "fastcnp"`, `"2001:db8:a:1::/64", method = "none"`,
				`"2001:db8:a:9::/64", method = "fastcnp"`, `"2001:db8:a:9::/64", method = "none"`}},
		{subject: "switch", name: "Fast CNPs to port 4790", caught: "F07.3", related: "F01.1",
			out: raw(kindFastCNP, func(p *packet) { p.upper[3]-- })},
		{subject: "switch", name: "notifies any UDP port", caught: "F02.1",
			out: answering(func(p *packet) (uint32, bool) {
				return binary.BigEndian.Uint32(append(p.data, 0, 0, 0, 0, 0, 0, 0, 0)[4:]) & 0xFFFFFF, p.dstPort == 4792
			})},
		{subject: "switch", name: "changes the payload", caught: "F03.1",
			out: raw(kindData, func(p *packet) { p.bth[len(p.bth)-1] ^= 1 })},
		{subject: "switch", name: "no Fast CNPs about WRITE", caught: "F04.1", in: dropNotified(0x06)},
		{subject: "switch", name: "queue pair of 16 bits", caught: "F05.1", related: "F23.1",
			out: rewrite(kindFastCNP, func(p *packet) { p.bth[5] = 0 })},
		{subject: "switch", name: "wrong queue pair", caught: "F23.1", related: "F05.1",
			out: rewrite(kindFastCNP, func(p *packet) { p.bth[7] ^= 0x80 })},
		{subject: "switch", name: "solicited event set", caught: "F07.1",
			out: rewrite(kindFastCNP, func(p *packet) { p.bth[1] |= 0x80 })},
		{subject: "switch", name: "20 octets after the BTH", caught: "F07.1",
			out: replace(kindFastCNP, func(p *packet) []byte { return append(slices.Clone(p.ip), 0, 0, 0, 0) })},
		{subject: "switch", name: "ICRC without extension headers", caught: "F07.2",
			out: raw(kindFastCNP, func(p *packet) {
				binary.LittleEndian.PutUint32(p.data[len(p.data)-4:], p.computeICRC(without))
			})},
		{subject: "switch", name: "ICRC that skips extension headers", caught: "F07.2",
			out: raw(kindFastCNP, func(p *packet) {
				binary.LittleEndian.PutUint32(p.data[len(p.data)-4:], p.computeICRC(skipped))
			})},
		{subject: "switch", name: "Fast CNPs about IPv4", caught: "F08.1",
			out: answering(func(p *packet) (uint32, bool) { return p.destinationQP(), !p.v6 && p.bth != nil })},
		{subject: "switch", name: "Fast CNPs also to the receiver side", caught: "F13.1",
			out: func(_ *memoryRig, port int, frame []byte) []arrival {
				list := []arrival{{port: port, frame: frame}}
				if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindFastCNP {
					list = append(list, arrival{port: 1, frame: frame})
				}
				return list
			}, related: "F16.1 F14.2"},
		{subject: "switch", name: "answers acknowledgements", caught: "F13.2", out: answerKind(kindAck)},
		{subject: "switch", name: "never marks", caught: "F14.1", config: []string{"enabled = true",
			"enabled = true\nmarking = \"elsewhere\""}},
		{subject: "switch", name: "marks Not-ECT", caught: "F14.2", related: "F14.5",
			out: raw(kindData, func(p *packet) {
				if p.v6 && p.ecn() == 0 {
					p.ip[1] |= 0x30
				}
			})},
		{subject: "switch", name: "makes Not-ECT data ECN-capable", caught: "F14.5",
			out: raw(kindData, func(p *packet) {
				if p.v6 && p.ecn() == 0 {
					p.ip[1] |= 0x20
				}
			})},
		{subject: "switch", name: "marks Not-ECT of IPv4", caught: "F14.6",
			out: rewrite(kindData, func(p *packet) {
				if !p.v6 && p.ecn() == 0 {
					p.ip[1] |= ce
				}
			})},
		{subject: "switch", name: "never marks IPv4", caught: "F14.4", config: []string{`method = "mark"`,
			`method = "none"`}},
		{subject: "switch", name: "marks IPv4 without another header checksum", caught: "F14.4",
			out: raw(kindData, func(p *packet) {
				if !p.v6 && p.ecn() == ce {
					p.ip[10] ^= 1
				}
			})},
		{subject: "switch", name: "changes the payload of marked data", caught: "F14.3", related: "F14.4",
			out: raw(kindData, func(p *packet) {
				if p.ecn() == ce {
					p.bth[len(p.bth)-1] ^= 1
				}
			})},
		{subject: "switch", name: "both signals to a capable sender", caught: "F16.1",
			config: []string{`capable = "yes"`, `capable = "unknown"`}},
		{subject: "switch", name: "never learns from rejections", caught: "F17.1",
			in: incoming(func(p *packet) []byte {
				if p.protocol == protocolICMPv6 {
					return nil
				}
				return p.ip
			})},
		{subject: "switch", name: "accepts any rejection", caught: "F17.2", in: acceptAnyRejection()},
		{subject: "switch", name: "source is ::1", caught: "F18.1",
			out: rewrite(kindFastCNP, func(p *packet) { setAddress(p.ip[8:], "::1") })},
		{subject: "switch", name: "source of another node", caught: "F18.1",
			out: rewrite(kindFastCNP, func(p *packet) { setAddress(p.ip[8:], "2001:db8:bad::1") })},
		{subject: "switch", name: "swapped addresses", caught: "F19.1", related: "F18.1",
			out: rewrite(kindFastCNP, func(p *packet) {
				src := slices.Clone(p.ip[8:24])
				copy(p.ip[8:24], p.ip[24:40])
				copy(p.ip[24:40], src)
			})},
		{subject: "switch", name: "two options", caught: "F24.1", related: "F24.2",
			out: setOption(func(h []byte) []byte {
				h[1]++
				return slices.Concat(h, []byte{0x1E, 6, 0, 0, 0, 0, 0, 0})
			})},
		{subject: "switch", name: "an additional Hop-by-Hop header", caught: "F24.1",
			related: "F24.2",
			out: replace(kindFastCNP, func(p *packet) []byte {
				return insertHeader(p.ip, protocolHopByHop, []byte{protocolOptions, 0, 1, 4, 0, 0, 0, 0})
			})},
		{subject: "switch", name: "two options if there is a trace", caught: "F24.2",
			out: setOption(func(h []byte) []byte {
				if h[4] != 0x9E {
					return h
				}
				h[1]++
				return slices.Concat(h, []byte{0x1E, 6, 0, 0, 0, 0, 0, 0})
			})},
		{subject: "switch", name: "option 2 without a trace", caught: "F25.1", related: "F26.2 F29.1 F33.2",
			out: setOption(func(h []byte) []byte {
				if h[2] != 0x9E {
					return h
				}
				trace := []byte{0x9E, 26, 0, 0, 0, 123, 0, 0, 0, 0, 0, 0}
				return slices.Concat([]byte{h[0], 3, 1, 0}, trace, h[4:20])
			})},
		{subject: "switch", name: "original destination is the sender", caught: "F26.1", related: "F32.1",
			out: rewrite(kindFastCNP, func(p *packet) {
				o := p.options(protocolOptions)[0]
				copy(o.data[len(o.data)-16:], p.ip[24:40])
			})},
		{subject: "switch", name: "option at 4n", caught: "F26.2",
			out: setOption(func(h []byte) []byte {
				if h[2] != 0x9E {
					return h
				}
				return slices.Concat(h[:2], []byte{1, 0}, h[2:20], []byte{1, 0})
			})},
		{subject: "switch", name: "act bits 00", caught: "F27.1", related: "F44.1",
			out: onOption1(func(o []byte) { o[0] = 0x1E })},
		{subject: "switch", name: "chg bit 1", caught: "F28.1", related: "F44.1",
			out: onOption1(func(o []byte) { o[0] = 0xBE })},
		{subject: "switch", name: "Opt Data Len 20", caught: "F29.1", related: "F26.1 F33.2",
			out: onOption1(func(o []byte) {
				o[1] = 20
				o[18], o[19] = 0, 0
			})},
		{subject: "switch", name: "another option type", caught: "F44.1",
			out: onOption1(func(o []byte) { o[0] = 0x9D })},
		{subject: "switch", name: "option 1 despite a trace", caught: "F31.1", related: "F34.2",
			out: setOption(func(h []byte) []byte {
				if h[4] != 0x9E {
					return h
				}
				end := 6 + int(h[5])
				return slices.Concat([]byte{h[0], 2, 0x9E, 16}, h[end-16:end], []byte{1, 2, 0, 0})
			})},
		{subject: "switch", name: "reserved octet of option 2", caught: "F32.1",
			out: onOption2(func(o []byte) { o[2] = 1 })},
		{subject: "switch", name: "padding is not 0", caught: "F33.1",
			out: setOption(func(h []byte) []byte {
				if h[2] == 0x9E {
					h[23] = 7
				}
				return h
			})},
		cutsLongTraces(),
		overflows(),
		{subject: "switch", name: "trace changed", caught: "F34.1", related: "F34.2 F33.2",
			out: onOption2(func(o []byte) { o[len(o)-30] ^= 1; o[int(o[1])-18] ^= 1 })},
		{subject: "switch", name: "own record in a foreign namespace", caught: "F34.1",
			profile: []string{"[time]", "[code_points]\nioam_namespaces = [7]\n[time]"}},
		{subject: "switch", name: "no own record", caught: "F34.2", related: "F34.1",
			config: []string{"own_record = { node_id = 77, hop_limit = 60, queue_depth = 1234 }\n", ""}},
		{subject: "switch", name: "no interval", caught: "F37.1", related: "P38.1 W38.1",
			config: []string{`per_flow = "20ms"`, ""}},
		{subject: "switch", name: "one interval for all flows", caught: "F37.1",
			out: keepOneInterval(kindFastCNP)},
		{subject: "switch", name: "no limit of the total rate", caught: "F37.2", related: "F37.1 P38.1 W38.1",
			config: []string{`per_flow = "20ms"`, ""}, profile: []string{"total = 20_000", "total = 50"}},
		{subject: "switch", name: "enabled, though it must be off", caught: "F42.1", related: "F14.1",
			profile: []string{allAbilities, ""}},
		{subject: "switch", name: "P_Key 0xffff", caught: "B02.1",
			out: rewrite(kindFastCNP, func(p *packet) { p.bth[2], p.bth[3] = 0xFF, 0xFF })},
		{subject: "switch", name: "answers CNPs", caught: "B05.1", out: answerKind(kindCNP)},
		{subject: "switch", name: "answers Fast CNPs", caught: "B05.1", out: answerKind(kindFastCNP)},
		{subject: "switch", name: "answers PPFCs", caught: "B05.2", out: answerKind(kindPPFC)},
		{subject: "switch", name: "answers fragments", caught: "B05.3",
			out: answering(func(p *packet) (uint32, bool) {
				if !p.fragment || len(p.upper) < 8+udpSize+bthSize {
					return 0, false
				}
				return binary.BigEndian.Uint32(p.upper[8+udpSize+4:]) & 0xFFFFFF, true
			})},

		{subject: "switch", name: "no PPFC", caught: "X01.1", config: []string{`method = "ppfc"`, `method = "none"`}},
		{subject: "switch", name: "PPFC to port 4790", caught: "X03.1", related: "X01.1",
			out: raw(kindPPFC, func(p *packet) { p.upper[3]-- })},
		{subject: "switch", name: "PPFC to another host", caught: "X04.1",
			out: rewrite(kindPPFC, func(p *packet) { setAddress(p.ip[24:], "2001:db8:a:2::77") })},
		{subject: "switch", name: "no P bit", caught: "X05.1", out: rewrite(kindPPFC,
			func(p *packet) { p.bth[4] &^= 0x20 })},
		{subject: "switch", name: "PPFC extension of 20 octets", caught: "X06.1", related: "X06.2 X14.1 X09.1",
			out: replace(kindPPFC, func(p *packet) []byte { return p.ip[:len(p.ip)-4] })},
		{subject: "switch", name: "an IPv6 address about an IPv4 flow", caught: "X06.2",
			out: replace(kindPPFC, func(p *packet) []byte {
				if p.v6 {
					return p.ip
				}
				at := len(p.ip) - icrcSize - 12
				return slices.Concat(p.ip[:at], hostOfText("2001:db8:f::10").AsSlice(), p.ip[at+4:])
			})},
		{subject: "switch", name: "PPFC about IPv4 to another host", caught: "X06.2",
			out: rewrite(kindPPFC, func(p *packet) {
				if !p.v6 {
					p.ip[19] ^= 1
				}
			})},
		{subject: "switch", name: "PPFC names a third node", caught: "X07.1",
			out: rewrite(kindPPFC, func(p *packet) { setAddress(p.afterBTH(), "2001:db8:bad::1") })},
		{subject: "switch", name: "PPFC type that is not supported", caught: "X08.1",
			profile: []string{`"ppfc-alarm",`, ""}},
		{subject: "switch", name: "stop first", caught: "X09.1", config: []string{"alarm = 1, hold = 2, stop = 3",
			"stop = 1"}},
		{subject: "switch", name: "Congestion Port varies", caught: "X10.1",
			out: rewrite(kindPPFC, func(p *packet) { b := p.afterBTH(); b[len(b)-5] = p.bth[7] })},
		{subject: "switch", name: "Pause Duration 0", caught: "X11.1", config: []string{"enabled = true",
			"enabled = true\npause_us = 0"}},
		{subject: "switch", name: "PPFC with another queue pair", caught: "X12.1", related: "X06.2",
			out: rewrite(kindPPFC, func(p *packet) { p.bth[7] ^= 0x80 })},
		{subject: "switch", name: "PPFC with a wrong ICRC", caught: "X13.1", related: "X06.2",
			out: raw(kindPPFC, func(p *packet) { p.data[len(p.data)-1] ^= 1 })},
		{subject: "switch", name: "PPFC with Flags", caught: "X13.1",
			out: rewrite(kindPPFC, func(p *packet) { b := p.afterBTH(); b[len(b)-8] = 0x80 })},
		{subject: "switch", name: "stops without a resume", caught: "X14.1",
			out: replace(kindPPFC, func(p *packet) []byte {
				if ppfcOf(&seen{packet: p}).pt == 1 {
					return nil
				}
				return p.ip
			})},

		{subject: "switch", name: "resumes one flow twice and another never", caught: "X14.1", out: resumesTwice()},
		{subject: "switch", name: "resumes before the stop", caught: "X14.1", out: resumesFirst},

		{subject: "switch", name: "no proxy messages", caught: "P01.1", config: []string{`method = "proxy"`,
			`method = "none"`}},
		{subject: "switch", name: "notifies inner senders", caught: "P03.1", config: []string{"enabled = true",
			"enabled = true\ninner_source = true"}, related: "W20.1 P17.1 P18.1"},
		{subject: "switch", name: "proxy message of another node", caught: "P12.1",
			out: rewrite(kindProxy, func(p *packet) { setAddress(p.ip[8:], "2001:db8:bad::1") })},
		{subject: "switch", name: "proxy message with a wrong checksum", caught: "P13.1",
			out: raw(kindProxy, func(p *packet) { p.upper[6] ^= 1 })},
		{subject: "switch", name: "five-tuple with another port", caught: "P15.1", related: "P15.2 P17.1 P18.1",
			out: rewrite(kindProxy, func(p *packet) { p.data[34] ^= 1 })},
		{subject: "switch", name: "IPv4 five-tuple with another port", caught: "P15.2",
			out: rewrite(kindProxy, func(p *packet) {
				if len(p.data) > 16 && p.data[16]>>4 == 4 {
					p.data[10] ^= 1
				}
			})},
		{subject: "switch", name: "five-tuple with swapped addresses", caught: "P16.1",
			related: "P15.1 P15.2 P17.1 P18.1",
			out: rewrite(kindProxy, func(p *packet) {
				src := slices.Clone(p.data[:16])
				copy(p.data, p.data[16:32])
				copy(p.data[16:], src)
			})},
		{subject: "switch", name: "five-tuple of the tunnel", caught: "P17.1", related: "P18.1",
			out: outerTuple(protocolIPv6)},
		{subject: "switch", name: "five-tuple of VXLAN", caught: "P18.1", out: outerTuple(protocolUDP)},
		{subject: "switch", name: "reserved bits of a proxy message", caught: "P21.1",
			out: rewrite(kindProxy, func(p *packet) { p.data[39] = 1 })},
		{subject: "switch", name: "level of proxy messages constant", caught: "P22.1",
			out: rewrite(kindProxy, func(p *packet) { p.data[37] = 3 << 5 })},
		{subject: "switch", name: "congested packet truncated to 64 octets", caught: "P23.1",
			out: replace(kindProxy, func(p *packet) []byte { return p.ip[:ipv6Size+udpSize+40+64] })},
		{subject: "switch", name: "notifies proxy and sender", caught: "P27.1",
			out: func(_ *memoryRig, port int, frame []byte) []arrival {
				list := []arrival{{port: port, frame: frame}}
				p, _ := readFrame(frame, nil)
				if p == nil || p.kind(&points) != kindProxy || p.data[40+6] != protocolUDP {
					return list
				}
				qp := binary.BigEndian.Uint32(p.data[40+ipv6Size+udpSize+4:]) & 0xFFFFFF
				return append(list, fastCNPTo(netip.AddrFrom16([16]byte(p.data)),
					netip.AddrFrom16([16]byte(p.data[16:])), qp))
			}},
		{subject: "switch", name: "proxy messages without interval", caught: "P38.1", out: doubled(kindProxy)},

		{subject: "switch", name: "no FCN", caught: "W07.1", config: []string{`method = "fcn"`, `method = "none"`}},
		{subject: "switch", name: "no FCN about IPv4 flows", caught: "W07.2", config: []string{
			`"10.10.192.0/18", method = "fcn"`, `"10.10.192.0/18", method = "none"`}},
		{subject: "switch", name: "FCN about outer Not-ECT", caught: "W20.1", out: fcnAboutNotECT},
		{subject: "switch", name: "FCN to the inner sender", caught: "W21.1",
			out: rewrite(kindFCN, func(p *packet) { setAddress(p.ip[24:], "2001:db8:a:4::10") })},
		{subject: "switch", name: "level of FCNs constant", caught: "W22.1",
			out: rewrite(kindFCN, func(p *packet) { p.data[2] = p.data[2]&^0x0E | 3<<1 })},
		{subject: "switch", name: "label 0", caught: "W23.1",
			out: rewrite(kindFCN, func(p *packet) { p.data[0], p.data[1], p.data[2] = 0, 0, p.data[2]&0x0F })},
		{subject: "switch", name: "FCN with a wrong checksum", caught: "W30.1",
			out: raw(kindFCN, func(p *packet) { p.upper[6] ^= 1 })},
		{subject: "switch", name: "UDP length 16", caught: "W31.1",
			out: replace(kindFCN, func(p *packet) []byte { return append(slices.Clone(p.ip), 0, 0, 0, 0) })},
		{subject: "switch", name: "another label in the header of the FCN", caught: "W33.1",
			out: rewrite(kindFCN, func(p *packet) { p.ip[3] = 9 })},
		{subject: "switch", name: "level 0", caught: "W34.1", related: "W22.1",
			out: rewrite(kindFCN, func(p *packet) { p.data[2] &^= 0x0E })},
		{subject: "switch", name: "reserved bits of an FCN", caught: "W35.1",
			out: rewrite(kindFCN, func(p *packet) { p.data[3] = 1 })},
		{subject: "switch", name: "FCNs without interval", caught: "W38.1", out: doubled(kindFCN)},

		{subject: "receiver", name: "no CNPs", caught: "F09.1", config: []string{"enabled = true", "enabled = false"},
			profile: []string{"[hosts]\n", "[[pair]]\nsrc = \"2001:db8:a:1::10\"\ndst = \"2001:db8:d::1\"\n" +
				"dest_qp = 17\nsrc_qp = 34\n[hosts]\n"}},
		{subject: "receiver", name: "CNPs about ECT", caught: "F09.2", in: setECN(1, 2)},
		{subject: "receiver", name: "CNPs about Not-ECT", caught: "F09.3", in: setECN(0)},
		{subject: "receiver", name: "CNPs about IPv4 data without CE", caught: "F09.4",
			in: incoming(func(p *packet) []byte {
				if p.v6 {
					return p.ip
				}
				return appendIPv4(nil, p.src, p.dst, p.class|ce, p.protocol, p.upper)
			})},
		{subject: "receiver", name: "CNPs about IPv4 data with a wrong ICRC", caught: "F03.2",
			in: incoming(func(p *packet) []byte {
				if !p.v6 {
					sign(p.ip)
				}
				return p.ip
			})},
		{subject: "receiver", name: "CNPs about a wrong ICRC", caught: "F03.1",
			related: "F03.2", in: incoming(func(p *packet) []byte {
				sign(p.ip)
				return p.ip
			})},
		{subject: "receiver", name: "guesses the sender's queue pair", caught: "F06.1", in: guesses},
		{subject: "receiver", name: "an extension header", caught: "F07.4",
			out: replace(kindCNP, func(p *packet) []byte {
				if !p.v6 {
					return p.ip
				}
				return insertHeader(p.ip, protocolHopByHop, []byte{protocolUDP, 0, 1, 4, 0, 0, 0, 0})
			})},
		{subject: "receiver", name: "no interval", caught: "B01.1", config: []string{`interval = "5ms"`, ""}},
		{subject: "receiver", name: "no interval of 1 ms", caught: "B01.1", config: []string{`interval = "5ms"`, ""},
			profile: []string{`per_flow = "5ms"`, `per_flow = "1ms"`}},
		{subject: "receiver", name: "one interval for all queue pairs", caught: "B01.1",
			out: keepOneInterval(kindCNP)},
		{subject: "receiver", name: "answers CNPs", caught: "B05.1", in: answersCNPs},
		{subject: "receiver", name: "enabled, though it must be off", caught: "F42.1",
			profile: []string{`role = "receiver"`, "role = \"receiver\"\nsupports = []"}},

		{subject: "proxy", name: "no CNPs", caught: "P01.1", config: []string{`send = "cnp"`, `send = "none"`},
			related: "P08.2"},
		{subject: "proxy", name: "learns from connection management only", caught: "P08.2",
			in: incoming(func(p *packet) []byte {
				if p.bth != nil && p.kind(&points) == kindAck {
					return nil
				}
				return p.ip
			}), related: ""},
		{subject: "proxy", name: "answers about unknown flows", caught: "P08.3", in: onProxyMessage(func(data []byte) {
			data[40+ipv6Size+udpSize+5] &^= 0x40
		})},
		{subject: "proxy", name: "answers about unknown IPv4 flows", caught: "P08.4",
			in: incoming(func(p *packet) []byte {
				if p.kind(&points) == kindProxy && len(p.data) > 100 && p.data[16]>>4 == 4 && hasChecksum(p) {
					p.data[16+ipv4Size+udpSize+5] &^= 0x40
					repairChecksum(p)
				}
				return p.ip
			})},
		{subject: "proxy", name: "accepts any UDP port", caught: "P12.1", in: incoming(func(p *packet) []byte {
			if p.dstPort == 1122 {
				p.upper[2], p.upper[3] = 1022>>8, 1022&0xFF
				binary.BigEndian.PutUint16(p.upper[6:], udpChecksum(p.src, p.dst, p.upper))
			}
			return p.ip
		})},
		{subject: "proxy", name: "accepts a wrong checksum", caught: "P14.1", in: repairChecksums},
		{subject: "proxy", name: "accepts another five-tuple", caught: "P16.1", in: onProxyMessage(func(data []byte) {
			copy(data[33:35], data[40+ipv6Size:])
		})},
		{subject: "proxy", name: "CNP on the side of the receiver", caught: "P19.2",
			out: func(_ *memoryRig, port int, frame []byte) []arrival {
				if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindCNP {
					port = 1
				}
				return []arrival{{port: port, frame: frame}}
			}},
		{subject: "proxy", name: "always the first flow", caught: "P20.1", out: firstQP(kindCNP),
			related: "P08.1 P08.2 W03.1 P01.1 P38.1"},
		{subject: "proxy", name: "a late CNP about another flow", caught: "P20.1", out: lateCNP(),
			related: "P08.1 P08.2 W03.1"},
		{subject: "proxy", name: "no answers above level 4", caught: "P21.1", in: dropMessages(func(data []byte) bool {
			return data[37]>>5 > 4
		})},
		{subject: "proxy", name: "answers any node", caught: "P37.1", config: []string{nodeAccept,
			`accept = ["::/0"]`}},
		{subject: "proxy", name: "no interval", caught: "P38.1", config: []string{`per_flow = "20ms"`, ""}},
		{subject: "proxy", name: "no limit of the total rate", caught: "P39.1", related: "P38.1",
			config:  []string{`per_flow = "20ms"`, "", "rate_out = { per_second = 200, burst = 10 }", ""},
			profile: []string{"total = 200", "total = 20"}},
		{subject: "proxy", name: "changes the payload", caught: "F03.1",
			out: raw(kindData, func(p *packet) { p.bth[len(p.bth)-1] ^= 1 })},
		{subject: "proxy", name: "enabled, though it must be off", caught: "P43.1",
			profile: []string{`supports = ["proxy", "ipv4", "ipv6"]`, "supports = []"}},

		{subject: "ingress", name: "one label for all flows", caught: "W11.1", related: "W10.1 W11.2 W28.1",
			out: onTunnel(func(p *packet) { setLabel(p, 0x12345) })},
		{subject: "ingress", name: "label of the UDP ports", caught: "W10.1", out: onTunnel(func(p *packet) {
			setLabel(p, uint32(p.inner.srcPort))
		}), related: "W11.2 W28.1"},
		{subject: "ingress", name: "labels count up", caught: "W11.2", related: "W26.1 W28.1 W25.1 W35.1",
			out: onTunnel(func(p *packet) { setLabel(p, p.inner.destQP()&0xFFFFF) })},
		{subject: "ingress", name: "a new label for each packet", caught: "W12.1", out: newLabels(),
			related: "W11.2 W28.1"},
		{subject: "ingress", name: "outer source of another node", caught: "W14.1",
			out: onTunnel(func(p *packet) { setAddress(p.ip[8:], "2001:db8:bad::1") }), related: "W28.1 W24.1"},
		{subject: "ingress", name: "egress varies", caught: "W15.1",
			out: onTunnel(func(p *packet) { p.ip[39] = p.inner.bth[11] })},
		{subject: "ingress", name: "label 0", caught: "W16.1", related: "W11.2 W28.1",
			out: onTunnel(func(p *packet) { setLabel(p, 0) })},
		{subject: "ingress", name: "inner label 0", caught: "W17.1", out: onTunnel(func(p *packet) {
			setLabel(p.inner,
				0)
		})},
		{subject: "ingress", name: "never forgets a flow", caught: "W13.1",
			config: []string{`idle = "3s"`, `idle = "1m"`}},
		{subject: "ingress", name: "no CNPs about its own congestion", caught: "W24.1",
			in: fcnSeen.in, out: fcnSeen.out},
		{subject: "ingress", name: "ECN of IPv4 not copied", caught: "W18.2",
			out: onTunnel(func(p *packet) {
				if !p.inner.v6 {
					p.ip[1] &^= 0x30
				}
			})},
		{subject: "ingress", name: "inner IPv4 header with a wrong checksum", caught: "W19.2",
			out: onTunnel(func(p *packet) {
				if !p.inner.v6 {
					p.inner.ip[10] ^= 1
				}
			})},
		{subject: "ingress", name: "ECN not copied", caught: "W18.1", related: "W18.2",
			out: onTunnel(func(p *packet) { p.ip[1] &^= 0x30 })},
		{subject: "ingress", name: "inner payload changed", caught: "W19.1", related: "W19.2",
			out: onTunnel(func(p *packet) { p.inner.bth[len(p.inner.bth)-1] ^= 1 })},
		{subject: "ingress", name: "no CNPs", caught: "W28.1", in: incoming(func(p *packet) []byte {
			if p.kind(&points) == kindFCN {
				return nil
			}
			return p.ip
		})},
		{subject: "ingress", name: "CNP on the side of the receiver", caught: "W28.1",
			out: func(_ *memoryRig, port int, frame []byte) []arrival {
				if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindCNP {
					port = 1
				}
				return []arrival{{port: port, frame: frame}}
			}},
		{subject: "ingress", name: "always the first flow", caught: "W26.1", out: firstQP(kindCNP),
			related: "W08.1 W03.1 W28.1"},
		{subject: "ingress", name: "a late CNP about another flow", caught: "W26.1", out: lateCNP(),
			related: "W08.1 W03.1"},
		{subject: "ingress", name: "answers about unknown labels", caught: "W26.2", in: onFCN(func(data []byte) []byte {
			return binary.BigEndian.AppendUint32(nil, knownLabel<<12|3<<9)
		}), out: keepLabel, related: "W26.1 W31.1"},
		{subject: "ingress", name: "no answers above level 4", caught: "W25.1", in: onFCN(func(data []byte) []byte {
			if data[2]>>1&7 > 4 {
				return nil
			}
			return data
		})},
		{subject: "ingress", name: "accepts any length", caught: "W31.1",
			in: onFCN(func(data []byte) []byte { return data[:4] })},
		{subject: "ingress", name: "rejects set reserved bits", caught: "W35.1", in: onFCN(func(data []byte) []byte {
			if data[3] != 0 {
				return nil
			}
			return data
		})},
		{subject: "ingress", name: "accepts a wrong checksum", caught: "P14.1",
			in: repairChecksums},
		{subject: "ingress", name: "accepts any UDP port", caught: "W30.1", in: incoming(func(p *packet) []byte {
			if p.dstPort == 1121 {
				p.upper[2], p.upper[3] = 1021>>8, 1021&0xFF
				binary.BigEndian.PutUint16(p.upper[6:], udpChecksum(p.src, p.dst, p.upper))
			}
			return p.ip
		})},
		{subject: "ingress", name: "answers any node", caught: "W37.1", config: []string{nodeAccept,
			`accept = ["::/0"]`}},
		{subject: "ingress", name: "no interval", caught: "W38.1", config: []string{`per_flow = "20ms"`, ""}},
		{subject: "ingress", name: "enabled, though it must be off", caught: "W40.1",
			profile: []string{`supports = ["fcn", "ipv4", "ipv6"]`, "supports = []"}},

		{subject: "border", name: "lets Fast CNPs in", caught: "F39.1", in: leak(1, kindFastCNP, false),
			related: "F39.2"},
		{subject: "border", name: "lets Fast CNPs out", caught: "F40.1", in: leak(0, kindFastCNP, false)},
		{subject: "border", name: "lets option 2 in", caught: "F39.2", in: leakIf(1, func(p *packet) bool {
			o := p.options(protocolOptions)
			return len(o) > 0 && len(o[0].data) > 16
		})},
		{subject: "border", name: "does not look into tunnels on the way in", caught: "F39.3", related: "F39.4",
			in: leak(1, kindFastCNP, true)},
		{subject: "border", name: "does not look into tunnels on the way out", caught: "F40.3", related: "F40.4",
			in: leak(0, kindFastCNP, true)},
		{subject: "border", name: "does not look into VXLAN", caught: "F39.4", in: leakIf(1, func(p *packet) bool {
			return p.dstPort == portVXLAN
		})},
		{subject: "border", name: "does not look into GRE", caught: "F40.4", in: leakIf(0, func(p *packet) bool {
			return p.protocol == protocolGRE
		})},
		{subject: "border", name: "lets first fragments in", caught: "F39.5", in: leakIf(1, func(p *packet) bool {
			return p.fragment
		})},
		{subject: "border", name: "lets proxy messages over IPv4 in", caught: "P40.2", in: leakIf(1, isProxy4)},
		{subject: "border", name: "lets proxy messages over IPv4 out", caught: "P41.2", in: leakIf(0, isProxy4)},
		{subject: "border", name: "lets proxy messages in", caught: "P40.1", related: "P40.2",
			in: leak(1, kindProxy, false)},
		{subject: "border", name: "lets proxy messages out", caught: "P41.1", related: "P41.2",
			in: leak(0, kindProxy, false)},
		{subject: "border", name: "lets FCNs in", caught: "W37.1", in: leak(1, kindFCN, false)},
		{subject: "border", name: "lets FCNs out", caught: "W37.2", in: leak(0, kindFCN, false)},
		{subject: "border", name: "also drops CNPs", caught: "F03.1", config: []string{"enabled = true",
			"enabled = true\ncnp = true"}},
		{subject: "border", name: "drops all destination options", caught: "F43.1",
			in: incoming(func(p *packet) []byte {
				if len(p.extensions) > 0 {
					return nil
				}
				return p.ip
			})},
		{subject: "border", name: "enabled, though it must be off", caught: "F42.1",
			profile: []string{`role = "border"`, "role = \"border\"\nsupports = []"}},
		{subject: "border", name: "answers by ICMPv6 errors, though it must be off", caught: "F42.1",
			profile: []string{`role = "border"`, "role = \"border\"\nsupports = []"}, in: prohibits},

		{subject: "sender", name: "ignores CNPs over IPv4", caught: "F11.4", in: incoming(func(p *packet) []byte {
			if !p.v6 && p.kind(&points) == kindCNP {
				return nil
			}
			return p.ip
		})},
		{subject: "sender", name: "ignores CNPs", caught: "F11.1", related: "B03.1 F11.4",
			in: incoming(func(p *packet) []byte {
				if p.kind(&points) == kindCNP {
					return nil
				}
				return p.ip
			})},
		{subject: "sender", name: "ignores Fast CNPs", caught: "F12.1", related: "F20.1 F31.1",
			in: incoming(func(p *packet) []byte {
				if p.kind(&points) == kindFastCNP && p.options(protocolOptions)[0].kind == 0x9E {
					return nil
				}
				return p.ip
			})},
		{subject: "sender", name: "slows all flows down", caught: "F11.2", in: slowsBoth(kindCNP)},
		{subject: "sender", name: "slows all flows down after a Fast CNP", caught: "F12.3", in: slowsBoth(kindFastCNP)},
		{subject: "sender", name: "never recovers", caught: "F11.3", only: "F11.3",
			config: []string{`timer = "100ms"`, `timer = "1h"`}},
		{subject: "sender", name: "accepts any queue pair", caught: "F10.1",
			in: onCNP(func(f *packet) { f.bth[5] = 0 })},
		{subject: "sender", name: "accepts a wrong ICRC", caught: "F07.1", related: "X13.1", in: repairICRC},
		{subject: "sender", name: "accepts any original destination", caught: "F12.2", in: onFastCNP(func(p *packet) {
			if o := p.options(protocolOptions)[0]; len(o.data) == 16 {
				o.data[15] &^= 0x40
			}
		})},
		{subject: "sender", name: "accepts any source", caught: "F38.1", related: "X15.1",
			config: []string{senderConfigAccept, `accept = ["::/0"]`}},
		{subject: "sender", name: "accepts tunnels", caught: "F38.2", in: incoming(func(p *packet) []byte {
			return p.innermost().ip
		})},
		{subject: "sender", name: "Not-ECT data", caught: "W09.1", out: raw(kindData, func(p *packet) { p.ip[1] = 0 })},
		{subject: "sender", name: "data with a wrong ICRC", caught: "F03.1",
			out: raw(kindData, func(p *packet) { p.data[len(p.data)-1] ^= 1 })},
		{subject: "sender", name: "transport header version 1", caught: "F02.1",
			out: rewrite(kindData, func(p *packet) { p.bth[1] |= 1 })},
		{subject: "sender", name: "no ICMPv6 errors", caught: "F30.1",
			out: onICMP(func(p *packet) []byte { return nil })},
		{subject: "sender", name: "ICMPv6 code 1", caught: "F30.1", out: onICMP(func(p *packet) []byte {
			p.upper[1] = 1
			return p.ip
		})},
		{subject: "sender", name: "ICMPv6 pointer to the header", caught: "F30.1", out: onICMP(func(p *packet) []byte {
			p.upper[7] = ipv6Size
			return p.ip
		})},
		{subject: "sender", name: "rejects set reserved octets", caught: "B03.1", in: incoming(func(p *packet) []byte {
			if p.kind(&points) == kindCNP && p.afterBTH()[0] != 0 {
				return nil
			}
			return p.ip
		})},
		{subject: "sender", name: "enabled, though it must be off", caught: "F42.1",
			profile: []string{`"option1", "option2", `, ""}},
		{subject: "pause", name: "ignores stops", caught: "X02.1", related: "X11.1", in: dropPPFC(0)},
		{subject: "pause", name: "stops are too short", caught: "X11.1", config: []string{`additive = 200_000`,
			`additive = 200_000, max_pause = "40ms"`}},
		{subject: "pause", name: "stops that never end", caught: "X14.1", out: neverResumes(), related: "X11.1 X14.2"},
		{subject: "pause", name: "ignores resumes", caught: "X14.2", in: dropPPFC(1)},
		{subject: "pause", name: "stops any queue pair", caught: "X12.1", in: onPPFC(func(p *packet) { p.bth[5] = 0 })},
		{subject: "pause", name: "accepts any length", caught: "X06.1", in: incoming(func(p *packet) []byte {
			if p.kind(&points) == kindPPFC && len(p.afterBTH()) == 28 {
				ip := slices.Clone(p.ip[:len(p.ip)-4])
				return repaired(make([]byte, ethernetSize), ip)[ethernetSize:]
			}
			return p.ip
		})},
		{subject: "pause", name: "needs no P bit", caught: "X05.1", in: onPPFC(func(p *packet) { p.bth[4] |= 0x20 })},
		{subject: "pause", name: "accepts a wrong ICRC", caught: "X13.1", in: repairICRC},
		{subject: "pause", name: "rejects set Flags", caught: "X13.2", in: incoming(func(p *packet) []byte {
			if p.kind(&points) == kindPPFC && ppfcOf(&seen{packet: p}).flags != 0 {
				return nil
			}
			return p.ip
		})},
		{subject: "pause", name: "accepts any source", caught: "X15.1", config: []string{senderConfigAccept,
			`accept = ["::/0"]`}},
		{subject: "pause", name: "alarm stops", caught: "X08.1", in: typeBecomesStop(2),
			profile: []string{`role = "pause"`, "role = \"pause\"\nsupports = [\"ppfc-stop\", \"ppfc-alarm\"]"}},
		{subject: "pause", name: "hold stops", caught: "X08.2", in: typeBecomesStop(3),
			profile: []string{`role = "pause"`, "role = \"pause\"\nsupports = [\"ppfc-stop\", \"ppfc-hold\"]"}},
		{subject: "pause", name: "enabled, though it must be off", caught: "X15.2",
			profile: []string{`role = "pause"`, "role = \"pause\"\nsupports = []"}},
	}
	all = append(all, cnpFaults("receiver", "F10.1", "F10.2", "F10.2", "W04.1")...)
	all = append(all, cnpFaults("proxy", "P08.1", "P19.1", "P19.1", "P08.2 P20.1 W03.1")[0:6]...)
	all = append(all, cnpFaults("proxy", "P08.1", "P19.1", "P19.1", "P08.2 P20.1 W03.1")[7:]...)
	return append(all, cnpFaults("ingress", "W08.1", "W27.1", "W27.2", "W26.1 W03.1")...)
}

// resumesTwice sends the resumes of the first flow of a case twice, and those of the second one never.
func resumesTwice() func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		a := arrival{port: port, frame: frame}
		p, _ := readFrame(frame, nil)
		if p == nil || p.kind(&points) != kindPPFC || ppfcOf(&seen{packet: p}).pt != 1 {
			return []arrival{a}
		}
		if p.bth[7]%2 == 0 {
			return nil
		}
		return []arrival{a, a}
	}
}

// resumesFirst sends a resume before each stop, and no other.
func resumesFirst(_ *memoryRig, port int, frame []byte) []arrival {
	p, _ := readFrame(slices.Clone(frame), nil)
	if p == nil || p.kind(&points) != kindPPFC || !isOwn(p, kindPPFC) {
		return []arrival{{port: port, frame: frame}}
	}
	switch ppfcOf(&seen{packet: p}).pt {
	case 0:
		b := p.afterBTH()
		b[len(b)-7] |= 1
		return []arrival{{port: port, frame: repaired(frame, p.ip)}, {port: port, frame: frame}}
	case 1:
		return nil
	}
	return []arrival{{port: port, frame: frame}}
}

// onlyAfterFCN drops the CNPs of the device 100 ms after the last FCN.
func onlyAfterFCN() *fault {
	var last time.Time
	return &fault{
		in: func(r *memoryRig, _ int, frame []byte) []byte {
			if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindFCN {
				last = r.clock
			}
			return frame
		},
		out: func(r *memoryRig, port int, frame []byte) []arrival {
			p, _ := readFrame(frame, nil)
			if p != nil && p.kind(&points) == kindCNP && r.clock.Sub(last) > 100*time.Millisecond {
				return nil
			}
			return []arrival{{port: port, frame: frame}}
		},
	}
}

// lateCNP sends another CNP 100 ms after one, about the queue pair of the flow before or after it.
func lateCNP() func(*memoryRig, int, []byte) []arrival {
	return func(r *memoryRig, port int, frame []byte) []arrival {
		if p, _ := readFrame(slices.Clone(frame), nil); p != nil && p.kind(&points) == kindCNP && isOwn(p, kindCNP) {
			p.bth[7] ^= 1
			r.insert(arrival{port, r.clock.Add(100 * time.Millisecond), repaired(frame, p.ip)})
		}
		return []arrival{{port: port, frame: frame}}
	}
}

// dropNotified drops packets of an opcode in front of the device, as if it did not see them.
func dropNotified(opcode uint8) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.bth != nil && p.opcode() == opcode {
			return nil
		}
		return p.ip
	})
}

// cutsLongTraces is a switch that fills the option of a long trace with zeros instead of nodes.
func cutsLongTraces() planted {
	return onLongTraces("a long trace is truncated", func(h []byte) []byte {
		option := slices.Concat([]byte{0x9E, 58, 0, 0, 0, 123, 16, 0, 0x82, 0, 0, 0}, make([]byte, 32), h[4:20])
		return slices.Concat([]byte{h[0], 7, 1, 0}, option)
	})
}

// overflows makes the rest of a long trace a second option.
func overflows() planted {
	return onLongTraces("Opt Data Len of a long trace overflows", func(h []byte) []byte {
		return slices.Concat([]byte{h[0], 3, 0x9E, 16}, h[4:20], []byte{0x3F, 10}, make([]byte, 10))
	})
}

// onLongTraces changes the Destination Options header with option 1 of Fast CNPs about long traces.
func onLongTraces(name string, change func(h []byte) []byte) planted {
	long := false
	return planted{subject: "switch", name: name, caught: "F33.2",
		in: incoming(func(p *packet) []byte {
			if p.bth != nil {
				long = len(p.extensions) > 0 && len(p.extensions[0].data) > 200
			}
			return p.ip
		}),
		out: setOption(func(h []byte) []byte {
			if !long || h[2] != 0x9E {
				return h
			}
			return change(h)
		})}
}

// acceptAnyRejection makes the device drop packets of hosts from which any ICMPv6 error came.
func acceptAnyRejection() func(*memoryRig, int, []byte) []byte {
	off := map[netip.Addr]bool{}
	return incoming(func(p *packet) []byte {
		if p.protocol == protocolICMPv6 {
			off[p.src] = true
		}
		if off[p.src] && p.bth != nil {
			return nil
		}
		return p.ip
	})
}

// keepOneInterval drops notifications within 20 ms of the last one of the device.
func keepOneInterval(k kind) func(*memoryRig, int, []byte) []arrival {
	var last time.Time
	return func(r *memoryRig, port int, frame []byte) []arrival {
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == k {
			if r.clock.Sub(last) < 20*time.Millisecond {
				return nil
			}
			last = r.clock
		}
		return []arrival{{port: port, frame: frame}}
	}
}

// doubled sends each message of a kind three times.
func doubled(k kind) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		a := arrival{port: port, frame: frame}
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == k {
			return []arrival{a, a, a}
		}
		return []arrival{a}
	}
}

// outerTuple puts the addresses of the outer header into proxy messages about tunnels of a protocol.
func outerTuple(protocol uint8) func(*memoryRig, int, []byte) []arrival {
	return rewrite(kindProxy, func(p *packet) {
		invoking := p.data[40:]
		if invoking[6] != protocol || protocol == protocolUDP && binary.BigEndian.Uint16(invoking[42:]) != portVXLAN {
			return
		}
		copy(p.data[:32], invoking[8:40])
	})
}

// fcnAboutNotECT adds an FCN about each packet with outer Not-ECT that crosses the device.
func fcnAboutNotECT(_ *memoryRig, port int, frame []byte) []arrival {
	list := []arrival{{port: port, frame: frame}}
	if p, _ := readFrame(frame, nil); p != nil && p.inner != nil && p.ecn() == 0 && port == 1 {
		m := fcnMessage{src: hostOfText("2001:db8:ffff::5"), dst: p.src, port: 1021, label: p.label, level: 3}
		list = append(list, arrival{port: 0, frame: appendEthernet(nil, testerMAC(0), deviceMAC(0), 0, m.appendIP())})
	}
	return list
}

// setECN makes data with these ECN fields look marked.
func setECN(from ...uint8) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.v6 && slices.Contains(from, p.ecn()) {
			p.ip[1] |= 0x30
		}
		return p.ip
	})
}

// guesses makes the receiver answer data of unknown connections, as it makes datagrams of them.
func guesses(_ *memoryRig, _ int, frame []byte) []byte {
	p, _ := readFrame(frame, nil)
	if p == nil || p.bth == nil || p.opcode() != 0x04 || !p.v6 {
		return frame
	}
	f := flow{src: p.src, dst: p.dst, class: ce, opcode: 0x64, destQP: p.destQP(), payload: make([]byte, 64)}
	f.headers = binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0}, p.destQP())
	return appendEthernet(nil, deviceMAC(0), testerMAC(0), 0, f.appendIP(nil))
}

// answersCNPs makes the receiver answer CNPs, as it makes datagrams of them.
func answersCNPs(_ *memoryRig, _ int, frame []byte) []byte {
	p, _ := readFrame(frame, nil)
	if p == nil || p.kind(&points) != kindCNP || !p.v6 {
		return frame
	}
	f := flow{src: p.src, dst: p.dst, class: ce, opcode: 0x64, destQP: p.destQP(), payload: make([]byte, 64)}
	f.headers = binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0}, p.destQP())
	return appendEthernet(nil, deviceMAC(0), testerMAC(0), 0, f.appendIP(nil))
}

// onProxyMessage changes proxy messages with a right checksum to the device, and repairs it.
func onProxyMessage(change func(data []byte)) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.kind(&points) == kindProxy && len(p.data) > 40+ipv6Size+udpSize+bthSize && hasChecksum(p) {
			change(p.data)
			repairChecksum(p)
		}
		return p.ip
	})
}

func hasChecksum(p *packet) bool {
	return binary.BigEndian.Uint16(p.upper[6:]) == udpChecksum(p.src, p.dst, p.upper)
}

func repairChecksum(p *packet) {
	binary.BigEndian.PutUint16(p.upper[6:], udpChecksum(p.src, p.dst, p.upper))
}

// repairChecksums repairs the checksum of messages to the device.
var repairChecksums = incoming(func(p *packet) []byte {
	if k := p.kind(&points); k == kindProxy || k == kindFCN {
		repairChecksum(p)
	}
	return p.ip
})

func dropMessages(drop func(data []byte) bool) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.kind(&points) == kindProxy && len(p.data) > 40 && drop(p.data) {
			return nil
		}
		return p.ip
	})
}

// onFCN replaces the data of FCNs to the device, and repairs length and checksum.
func onFCN(change func(data []byte) []byte) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.kind(&points) != kindFCN || !hasChecksum(p) {
			return p.ip
		}
		data := change(slices.Clone(p.data))
		if data == nil {
			return nil
		}
		return appendDatagram(nil, p.src, p.dst, 0, 0, p.srcPort, p.dstPort, data)
	})
}

// firstQP gives all notifications of a kind about the queue pairs of a case the queue pair of the first one.
func firstQP(k kind) func(*memoryRig, int, []byte) []arrival {
	var first []byte
	return rewrite(k, func(p *packet) {
		if first == nil || first[1] != p.bth[6] {
			first = slices.Clone(p.bth[5:8])
		}
		copy(p.bth[5:8], first)
	})
}

// onTunnel changes packets in tunnels.
func onTunnel(change func(p *packet)) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		frame = slices.Clone(frame)
		if p, _ := readFrame(frame, nil); p != nil && p.inner != nil && p.inner.bth != nil && port == 1 {
			change(p)
		}
		return []arrival{{port: port, frame: frame}}
	}
}

func setLabel(p *packet, label uint32) {
	if p.v6 {
		p.ip[1] = p.ip[1]&0xF0 | uint8(label>>16)
		p.ip[2], p.ip[3] = uint8(label>>8), uint8(label)
	}
}

// newLabels gives each packet another label.
func newLabels() func(*memoryRig, int, []byte) []arrival {
	n := uint32(0x20000)
	return onTunnel(func(p *packet) { n += 7; setLabel(p, n) })
}

// keepLabel keeps the label of the last packet in a tunnel in knownLabel.
func keepLabel(r *memoryRig, port int, frame []byte) []arrival {
	return onTunnel(func(p *packet) { knownLabel = p.label })(r, port, frame)
}

var knownLabel uint32

// prohibits answers notifications to the device by an ICMPv6 error: administratively prohibited (RFC 4443 section 3.1).
func prohibits(r *memoryRig, port int, frame []byte) []byte {
	if p, _ := readFrame(frame, nil); p != nil && slices.Contains(anyKind, p.kind(&points)) {
		icmp := append([]byte{1, 1, 0, 0, 0, 0, 0, 0}, p.ip...)
		r.insert(arrival{port, r.clock, appendEthernet(nil, testerMAC(port), deviceMAC(port), 0,
			icmpPacket(hostOfText("2001:db8:ffff::5"), p.src, icmp))})
	}
	return frame
}

// leak lets packets of a kind pass a border, or tunnels with them.
func leak(from int, k kind, tunnels bool) func(*memoryRig, int, []byte) []byte {
	return leakIf(from, func(p *packet) bool { return p.innermost().kind(&points) == k && (p.inner != nil) == tunnels })
}

func leakIf(from int, passes func(p *packet) bool) func(*memoryRig, int, []byte) []byte {
	return func(r *memoryRig, port int, frame []byte) []byte {
		if p, _ := readFrame(frame, []uint16{portVXLAN}); p != nil && port == from && passes(p) {
			r.insert(arrival{1 - port, r.clock, frame})
			return nil
		}
		return frame
	}
}

// repairICRC repairs the ICRC of packets to the device.
var repairICRC = incoming(func(p *packet) []byte {
	sign(p.ip)
	return p.ip
})

// onCNP changes CNPs to the device, and repairs their ICRC.
func onCNP(change func(p *packet)) func(*memoryRig, int, []byte) []byte {
	return onKind(kindCNP, change)
}

func onFastCNP(change func(p *packet)) func(*memoryRig, int, []byte) []byte {
	return onKind(kindFastCNP, change)
}

func onPPFC(change func(p *packet)) func(*memoryRig, int, []byte) []byte {
	return onKind(kindPPFC, change)
}

func onKind(k kind, change func(p *packet)) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.kind(&points) == k && p.icrc == p.computeICRC(asSent) {
			change(p)
			sign(p.ip)
		}
		return p.ip
	})
}

// slowsBoth delivers each notification about the first flow of the host for the second one as well.
func slowsBoth(k kind) func(*memoryRig, int, []byte) []byte {
	return func(r *memoryRig, port int, frame []byte) []byte {
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == k && p.computeICRC(asSent) == p.icrc {
			twin, _ := readFrame(slices.Clone(frame), nil)
			if k == kindCNP && p.destQP() == 34 {
				twin.bth[7] = 35
				twin.ip[23] = 0x11
			} else if k == kindFastCNP && p.destQP() == 17 {
				twin.bth[7] = 18
				data := twin.options(protocolOptions)[0].data
				data[len(data)-1]++
			}
			sign(twin.ip)
			r.device.receive(r, port, append(slices.Clone(frame[:ethernetSize]), twin.ip...))
		}
		return frame
	}
}

func onICMP(change func(p *packet) []byte) func(*memoryRig, int, []byte) []arrival {
	return func(_ *memoryRig, port int, frame []byte) []arrival {
		frame = slices.Clone(frame)
		if p, _ := readFrame(frame, nil); p != nil && p.protocol == protocolICMPv6 && change(p) == nil {
			return nil
		}
		return []arrival{{port: port, frame: frame}}
	}
}

// dropPPFC drops PPFCs of a type in front of the device.
func dropPPFC(pt uint8) func(*memoryRig, int, []byte) []byte {
	return incoming(func(p *packet) []byte {
		if p.kind(&points) == kindPPFC && ppfcOf(&seen{packet: p}).pt == pt {
			return nil
		}
		return p.ip
	})
}

func typeBecomesStop(pt uint8) func(*memoryRig, int, []byte) []byte {
	return onPPFC(func(p *packet) {
		if b := p.afterBTH(); len(b) == 24 && b[17]&3 == pt {
			b[17] &^= 3
		}
	})
}

// neverResumes drops the packets of a flow of the host for a second after each pause.
func neverResumes() func(*memoryRig, int, []byte) []arrival {
	last, until := map[uint32]time.Time{}, map[uint32]time.Time{}
	return func(r *memoryRig, port int, frame []byte) []arrival {
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindData {
			qp := p.destQP()
			if before, ok := last[qp]; ok && r.clock.Sub(before) > 20*time.Millisecond {
				until[qp] = r.clock.Add(time.Second)
			}
			last[qp] = r.clock
			if r.clock.Before(until[qp]) {
				return nil
			}
		}
		return []arrival{{port: port, frame: frame}}
	}
}

var printMatrix = flag.Bool("matrix", false, "write the matrix of faults in docs/conform.md again")

// Each fault is caught by the case that names its requirement, and no other MUST case fails but those that the fault
// concerns as well. docs/conform.md has the matrix.
func TestPlantedFaults(t *testing.T) {
	wiretest.Once(t)
	names := map[string]bool{}
	all := plantedFaults()
	require.GreaterOrEqual(t, len(all), 40)
	rows, texts := make([]string, len(all)), make([]string, len(all))
	t.Run("faults", func(t *testing.T) {
		for i, f := range all {
			require.False(t, names[f.subject+f.name], "%s: duplicate name", f.name)
			names[f.subject+f.name] = true
			t.Run(f.subject+"/"+strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				failing, caught := f.run(t)
				texts[i] = f.subject + ", " + f.name + "\n" + formatResult(&caught) + formatEvidence(&caught)
				require.Contains(t, failing, f.caught)
				others := slices.DeleteFunc(slices.Clone(failing), func(id string) bool { return id == f.caught })
				rows[i] = fmt.Sprintf("| %s | %s | %s | %s |\n", f.subject, f.name, f.caught,
					strings.Join(others, ", "))
			})
		}
	})
	if slices.Contains(rows, "") {
		return // only some of them have run
	}
	requireResults(t, "faults", strings.Join(texts, ""))
	matrix := "| device | fault | caught by | also fails |\n|---|---|---|---|\n" + strings.Join(rows, "")
	file := filepath.Join(wiretest.Root(t), "docs", "conform.md")
	text := string(wiretest.Must(os.ReadFile(file))(t))
	begin := strings.Index(text, "| device | fault |")
	require.Positive(t, begin, "docs/conform.md has no matrix")
	end := begin + strings.Index(text[begin:]+"\n\n", "\n\n") + 1
	end = min(end, len(text))
	if *printMatrix {
		require.NoError(t, os.WriteFile(file, []byte(text[:begin]+matrix+text[end:]), 0o644))
		return
	}
	require.Equal(t, matrix, text[begin:end], "run go test ./cmd/rocecn/internal/conform -run Planted -matrix")
}

// cases returns the cases that run: with -matrix all of the role, otherwise those that the fault concerns and all of
// the same document.
func (f *planted) cases() (ids []string) {
	if f.only != "" || *printMatrix {
		return strings.Fields(f.only)
	}
	document := strings.NewReplacer("B", "F") // rows about both are one table
	for _, c := range roleInfos[f.subject].cases() {
		if document.Replace(c.id[:1]) == document.Replace(f.caught[:1]) ||
			slices.Contains(strings.Fields(f.related), c.id) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// run returns the cases that fail, of any level, and the result of the case that names the requirement. It requires
// that each MUST among them is expected.
func (f *planted) run(t *testing.T) (failing []string, caught result) {
	t.Helper()
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == f.subject })
	s := subjects[i]
	for _, change := range []struct {
		text  *string
		pairs []string
	}{{&s.config, f.config}, {&s.profile, f.profile}} {
		for i := 0; i < len(change.pairs); i += 2 {
			require.Contains(t, *change.text, change.pairs[i])
			*change.text = strings.Replace(*change.text, change.pairs[i], change.pairs[i+1], 1)
		}
	}
	expected := append(strings.Fields(f.related), f.caught)
	results := inMemory(t, s.profile, s.model(t, s.config), &fault{in: f.in, out: f.out}, f.cases()...)
	for _, c := range roleInfos[f.subject].cases() {
		r := results[c.id]
		if r.Verdict != fail {
			continue
		}
		failing = append(failing, c.id)
		if c.level == must && !slices.Contains(expected, c.id) {
			t.Errorf("%s fails as well: expected %s, seen %s", c.id, r.Expected, r.Seen)
		}
	}
	if !slices.Contains(failing, f.caught) {
		r := results[f.caught]
		t.Errorf("%s: %s, %s", f.caught, r.Verdict, r.Seen)
	}
	for _, id := range expected {
		if !slices.Contains(failing, id) && id != f.caught {
			t.Logf("%s: listed, and does not fail: %s", id, results[id].Verdict)
		}
	}
	return failing, results[f.caught]
}
