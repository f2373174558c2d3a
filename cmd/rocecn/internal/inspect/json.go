package inspect

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// jsonPrinter prints a finding as one line of JSON. The line is put together by
// hand, in one buffer: a generic encoder would take longer than everything else
// together.
type jsonPrinter struct {
	w     io.Writer
	line  []byte
	clock clock
	names opcodeNames
}

func (p *jsonPrinter) print(f *finding) error {
	p.line = append(p.appendLine(p.line[:0], f), '\n')
	_, err := p.w.Write(p.line)
	return err
}

// appendLine appends a line. Keys without a value are absent.
func (p *jsonPrinter) appendLine(b []byte, f *finding) []byte {
	b = append(b, '{')
	if f.file != "" {
		b = append(appendString(b, `"file":"`, f.file), ',')
	}
	b = append(b, `"frame":`...)
	b = strconv.AppendInt(b, int64(f.frame), 10)
	if t := f.record.Time; !t.IsZero() {
		b = append(b, `,"time":"`...)
		b = p.clock.append(b, t, "2006-01-02T15:04:05")
		b = append(b, 'Z', '"')
	}
	b = appendText(b, `,"kind":"`, f.kind.String())
	if f.kind == message.KindError {
		b = appendString(b, `,"error":"`, f.err.Error())
	}
	if f.truncated {
		b = append(b, `,"truncated":true`...)
	}
	if f.trimmed {
		b = append(b, `,"trimmed":true`...)
	}
	b = appendLink(b, f)
	if d := f.datagram; d != nil {
		b = appendIP(b, d)
	}
	if f.packet != nil {
		b = p.appendTransport(b, f)
		if _, object, ok := formatCM(f.packet); ok {
			b = append(append(b, `,"cm":`...), object...)
		}
		b = appendSourceQP(b, f)
	}
	if len(f.ioam) > 0 {
		b = appendIOAMs(append(b, `,"ioam":`...), f.ioam)
	}
	switch m := f.message; f.kind {
	case message.KindFastCNP:
		b = appendFastCNP(b, &m.FastCNP)
	case message.KindUnknownOption:
		b = appendHexField(b, `,"unknown_option":{"option_type":"0x`, unknownOption(f.packet), 2)
		b = append(b, '}')
	case message.KindFCN:
		b = appendFCN(b, &m.FCN)
	case message.KindProxy:
		b = appendProxy(b, &m.Proxy, f.datagram)
	case message.KindPPFC:
		b = appendPPFC(b, &m.PPFC)
	case message.KindPFC:
		b = appendPFC(b, &m.PFC)
	case message.KindPause:
		b = appendUint(b, `,"pause":{"quanta":`, m.Pause.Quanta)
		b = append(b, '}')
	}
	if f.tunnels.Len() > 0 {
		b = appendTunnels(b, f.tunnels)
	}
	if f.hasOuterHeaders() {
		b = appendOuterHeaders(b, f.walked)
	}
	if f.optionsError != nil {
		b = appendString(b, `,"options_error":"`, f.optionsError.Error())
	}
	return append(b, '}')
}

// appendLink appends the addresses and the VLAN tag of the frame.
func appendLink(b []byte, f *finding) []byte {
	if f.walked == nil {
		return b
	}
	if src, dst, ok := f.walked.MACs(); ok {
		b = appendText(b, `,"src_mac":"`, macText(src))
		b = appendText(b, `,"dst_mac":"`, macText(dst))
	}
	if id, priority, ok := f.walked.VLAN(); ok {
		b = appendUint(b, `,"vlan":`, id)
		b = appendUint(b, `,"pcp":`, priority)
	}
	return b
}

func appendIP(b []byte, d *rocev2.Datagram) []byte {
	b = append(append(b, `,"ip":{"version":`...), ipVersion(d.Src)...)
	b = appendAddr(b, `,"src":"`, d.Src)
	b = appendAddr(b, `,"dst":"`, d.Dst)
	b = appendUint(b, `,"dscp":`, d.DSCP())
	b = appendUint(b, `,"ecn":`, d.ECN())
	b = appendUint(b, `,"hop_limit":`, d.HopLimit)
	if d.Src.Is6() {
		b = appendUint(b, `,"flow_label":`, d.FlowLabel)
	}
	b = appendUint(b, `},"udp":{"src":`, d.SrcPort)
	b = appendUint(b, `,"dst":`, d.DstPort)
	b = appendHexField(b, `,"checksum":"0x`, d.Checksum, 4)
	return append(b, '}')
}

// appendTransport appends BTH, extended headers, length of the payload and
// ICRC.
func (p *jsonPrinter) appendTransport(b []byte, f *finding) []byte {
	h := &f.packet.BTH
	b = appendHexField(b, `,"bth":{"opcode":"0x`, h.Opcode, 2)
	b = appendText(b, `,"name":"`, p.names.name(h.Opcode))
	b = appendBool(b, `,"se":`, h.Solicited)
	b = appendBool(b, `,"migreq":`, h.MigReq)
	b = appendUint(b, `,"pad":`, h.Pad)
	b = appendUint(b, `,"tver":`, h.TVer)
	b = appendHexField(b, `,"pkey":"0x`, h.PKey, 4)
	b = appendBool(b, `,"fecn":`, h.FECN)
	b = appendBool(b, `,"becn":`, h.BECN)
	b = appendUint(b, `,"resv6":`, h.Resv6)
	b = appendUint(b, `,"dest_qp":`, h.DestQP)
	b = appendBool(b, `,"ackreq":`, h.AckReq)
	b = appendUint(b, `,"resv7":`, h.Resv7)
	b = appendUint(b, `,"psn":`, h.PSN)
	b = append(b, '}')
	if f.kind == message.KindData || f.kind == message.KindAck {
		b = appendHeaders(b, h)
		b = appendUint(b, `,"payload_len":`, uint(f.packet.PayloadLen()))
	}
	if f.packet.Truncated {
		return b
	}
	b = appendHexField(b, `,"icrc":{"value":"0x`, f.packet.ICRC, 8)
	b = appendBool(b, `,"ok":`, f.icrcOK)
	if f.icrcOK {
		b = appendText(b, `,"coverage":"`, f.coverage.String())
	}
	return append(b, '}')
}

// appendHeaders appends the extended headers, if there are any.
func appendHeaders(b []byte, h *bth.Headers) []byte {
	if h.Present == 0 {
		return b
	}
	b = append(b, `,"headers":[`...)
	for x := range h.Present.All() {
		b = appendText(b, `{"type":"`, x.String())
		switch x {
		case bth.HasRDETH:
			b = appendUint(b, `,"ee":`, h.RDETH.EEContext)
		case bth.HasDETH:
			b = appendHexField(b, `,"qkey":"0x`, h.DETH.QKey, 8)
			b = appendUint(b, `,"src_qp":`, h.DETH.SrcQP)
		case bth.HasXRCETH:
			b = appendUint(b, `,"srq":`, h.XRCETH.SRQ)
		case bth.HasFETH:
			b = appendUint(b, `,"selectivity":`, h.FETH.Selectivity)
			b = appendUint(b, `,"placement":`, h.FETH.Placement)
		case bth.HasRETH:
			b = appendHexField(b, `,"va":"0x`, h.RETH.VirtualAddress, 16)
			b = appendHexField(b, `,"rkey":"0x`, h.RETH.RKey, 8)
			b = appendUint(b, `,"dma_len":`, h.RETH.DMALength)
		case bth.HasAtomicETH:
			b = appendHexField(b, `,"va":"0x`, h.AtomicETH.VirtualAddress, 16)
			b = appendHexField(b, `,"rkey":"0x`, h.AtomicETH.RKey, 8)
			b = appendHexField(b, `,"swap":"0x`, h.AtomicETH.SwapAdd, 16)
			b = appendHexField(b, `,"compare":"0x`, h.AtomicETH.Compare, 16)
		case bth.HasAETH:
			b = appendUint(b, `,"syndrome":`, h.AETH.Syndrome)
			b = appendUint(b, `,"msn":`, h.AETH.MSN)
		case bth.HasAtomicAckETH:
			b = appendHexField(b, `,"original":"0x`, h.AtomicAckETH.Original, 16)
		case bth.HasImmDt:
			b = appendHexField(b, `,"data":"0x`, h.ImmDt.Data, 8)
		case bth.HasIETH:
			b = appendHexField(b, `,"rkey":"0x`, h.IETH.RKey, 8)
		}
		b = append(b, '}', ',')
	}
	return endList(b)
}

func appendTunnels(b []byte, t rocev2.Tunnels) []byte {
	b = append(b, `,"tunnels":[`...)
	for tunnel := range t.All() {
		b = append(appendText(b, `"`, tunnel.String()), ',')
	}
	return endList(b)
}

// appendOuterHeaders appends ECN and DSCP of the IP header of each tunnel, except labels after the link-layer header.
func appendOuterHeaders(b []byte, f *rocev2.Frame) []byte {
	b = append(b, `,"outer":[`...)
	for tunnel, ip := range f.OuterHeaders() {
		b = appendText(b, `{"kind":"`, tunnel.String())
		if len(ip) > 0 {
			b = appendUint(b, `,"ecn":`, wire.TrafficClass(ip)&3)
			b = appendUint(b, `,"dscp":`, wire.TrafficClass(ip)>>2)
		}
		b = append(b, '}', ',')
	}
	return endList(b)
}

// The following append a key, as it stands before its value, and the value. Of
// a value in quotes the first one, and the 0x of a number, belong to the key.

type unsigned interface {
	~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func appendUint[T unsigned](b []byte, key string, v T) []byte {
	return strconv.AppendUint(append(b, key...), uint64(v), 10)
}

func appendBool(b []byte, key string, v bool) []byte { return strconv.AppendBool(append(b, key...), v) }

func appendAddr(b []byte, key string, a netip.Addr) []byte {
	return append(a.AppendTo(append(b, key...)), '"')
}

// appendHexField is for numbers that are text, with all digits of their width.
func appendHexField[T unsigned](b []byte, key string, v T, digits int) []byte {
	return append(appendHex(b, key, uint64(v), digits), '"')
}

// appendOctets is for octets as hex without 0x.
func appendOctets(b []byte, key string, octets []byte) []byte {
	return append(hex.AppendEncode(append(b, key...), octets), '"')
}

// appendText is for text that needs no escaping.
func appendText(b []byte, key, text string) []byte {
	return append(append(append(b, key...), text...), '"')
}

// appendString appends any text. Invalid UTF-8, as in file names, becomes the replacement character.
func appendString(b []byte, key, text string) []byte {
	b = append(b, key...)
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7F:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// endList ends a list and removes the comma after its last element.
func endList(b []byte) []byte { return append(bytes.TrimSuffix(b, []byte{','}), ']') }

// appendHex is for the lowest hexadecimal digits of a number.
func appendHex(b []byte, key string, v uint64, digits int) []byte {
	b = append(b, key...)
	for digits--; digits >= 0; digits-- {
		b = append(b, "0123456789abcdef"[v>>(4*digits)&0xF])
	}
	return b
}

// ipVersion returns the version of IP that has such addresses.
func ipVersion(a netip.Addr) string {
	if a.Is6() {
		return "6"
	}
	return "4"
}

// A clock appends times, with microseconds or, where there are any, with
// nanoseconds. It knows the text of the second before.
type clock struct {
	second int64
	text   []byte

	aligned bool // times stand below one another: once there were nanoseconds, all have them
	nano    bool // there were, and aligned is set
}

func (c *clock) append(b []byte, t time.Time, layout string) []byte {
	if unix := t.Unix(); c.text == nil || unix != c.second {
		c.second, c.text = unix, t.AppendFormat(c.text[:0], layout)
	}
	b = append(append(b, c.text...), '.')
	fraction, digits := t.Nanosecond(), 9
	if fraction%1000 != 0 {
		c.nano = c.aligned
	} else if !c.nano {
		fraction, digits = fraction/1000, 6
	}
	b = append(b, "000000000"[:digits]...)
	for i := len(b) - 1; fraction > 0; i-- {
		b[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	return b
}

// opcodeNames are the names of the opcodes that were met so far.
type opcodeNames [256]string

func (n *opcodeNames) name(o bth.Opcode) string {
	if n[o] == "" {
		n[o] = o.String()
	}
	return n[o]
}
