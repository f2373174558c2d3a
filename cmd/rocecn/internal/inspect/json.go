package inspect

import (
	"io"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rocecn/rocecn/bth"
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
	p.line = append(p.append(p.line[:0], f), '\n')
	_, err := p.w.Write(p.line)
	return err
}

// append appends a line. What does not apply is absent.
func (p *jsonPrinter) append(b []byte, f *finding) []byte {
	b = append(b, '{')
	if f.file != "" {
		b = append(b, `"file":`...)
		b = appendString(b, f.file)
		b = append(b, ',')
	}
	b = append(b, `"frame":`...)
	b = strconv.AppendInt(b, int64(f.frame), 10)
	if t := f.record.Time; !t.IsZero() {
		b = append(b, `,"time":"`...)
		b = p.clock.append(b, t, "2006-01-02T15:04:05")
		b = append(b, 'Z', '"')
	}
	b = append(b, `,"kind":"`...)
	b = append(b, f.kind.String()...)
	b = append(b, '"')
	if f.kind == message.Broken {
		b = append(b, `,"error":`...)
		b = appendString(b, f.err.Error())
	}
	if f.truncated {
		b = append(b, `,"truncated":true`...)
	}
	if d := f.datagram; d != nil {
		b = appendIP(b, d)
	}
	if f.packet != nil {
		b = p.appendTransport(b, f)
		b = appendCM(b, f.packet)
		b = appendSourceQP(b, f)
	}
	if len(f.ioam) > 0 {
		b = append(b, `,"ioam":`...)
		b = appendIOAMs(b, f.ioam)
	}
	switch m := f.message; f.kind {
	case message.FastCNP:
		b = appendFastCNP(b, &m.FastCNP)
	case message.UnknownOption:
		b = appendHexField(b, `,"unknown_option":{"option_type":`, uint64(unknownOption(f.packet)), 2)
		b = append(b, '}')
	case message.FCN:
		b = appendFCN(b, &m.FCN)
	case message.Proxy:
		b = appendProxy(b, &m.Proxy, f.datagram)
	case message.PPFC:
		b = appendPPFC(b, &m.PPFC)
	case message.PFC:
		b = appendPFC(b, &m.PFC)
	case message.Pause:
		b = appendUint(b, `,"pause":{"quanta":`, m.Pause.Quanta)
		b = append(b, '}')
	}
	if f.tunnels.Len() > 0 {
		b = appendTunnels(b, f.tunnels)
	}
	if f.optionsError != nil {
		b = append(b, `,"options_error":`...)
		b = appendString(b, f.optionsError.Error())
	}
	return append(b, '}')
}

func appendIP(b []byte, d *rocev2.Datagram) []byte {
	is6 := d.Src.Is6()
	if is6 {
		b = append(b, `,"ip":{"version":6`...)
	} else {
		b = append(b, `,"ip":{"version":4`...)
	}
	b = appendAddr(b, `,"src":`, d.Src)
	b = appendAddr(b, `,"dst":`, d.Dst)
	b = appendUint(b, `,"dscp":`, d.DSCP())
	b = appendUint(b, `,"ecn":`, d.ECN())
	b = appendUint(b, `,"hop_limit":`, d.HopLimit)
	if is6 {
		b = appendUint(b, `,"flow_label":`, d.FlowLabel)
	}
	b = appendUint(b, `},"udp":{"src":`, d.SrcPort)
	b = appendUint(b, `,"dst":`, d.DstPort)
	b = appendHexField(b, `,"checksum":`, uint64(d.Checksum), 4)
	return append(b, '}')
}

// appendTransport appends BTH, extended headers, length of the payload and
// ICRC.
func (p *jsonPrinter) appendTransport(b []byte, f *finding) []byte {
	h := &f.packet.BTH
	b = appendHexField(b, `,"bth":{"opcode":`, uint64(h.Opcode), 2)
	b = append(b, `,"name":"`...)
	b = append(b, p.names.name(h.Opcode)...)
	b = appendBool(b, `","se":`, h.Solicited)
	b = appendBool(b, `,"migreq":`, h.MigReq)
	b = appendUint(b, `,"pad":`, h.Pad)
	b = appendUint(b, `,"tver":`, h.TVer)
	b = appendHexField(b, `,"pkey":`, uint64(h.PKey), 4)
	b = appendBool(b, `,"fecn":`, h.FECN)
	b = appendBool(b, `,"becn":`, h.BECN)
	b = appendUint(b, `,"resv6":`, h.Resv6)
	b = appendUint(b, `,"dest_qp":`, h.DestQP)
	b = appendBool(b, `,"ackreq":`, h.AckReq)
	b = appendUint(b, `,"resv7":`, h.Resv7)
	b = appendUint(b, `,"psn":`, h.PSN)
	b = append(b, '}')
	if f.kind == message.Data || f.kind == message.Ack {
		b = appendHeaders(b, h)
		b = appendUint(b, `,"payload_len":`, uint(f.packet.PayloadLen()))
	}
	if f.truncated {
		return b
	}
	b = appendHexField(b, `,"icrc":{"value":`, uint64(f.packet.ICRC), 8)
	b = appendBool(b, `,"ok":`, f.icrcOK)
	if f.icrcOK {
		b = append(b, `,"coverage":"`...)
		b = append(b, f.coverage.String()...)
		b = append(b, '"')
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
		b = append(b, `{"type":"`...)
		b = append(b, x.String()...)
		switch x {
		case bth.HasRDETH:
			b = appendUint(b, `","ee":`, h.RDETH.EEContext)
		case bth.HasDETH:
			b = appendHexField(b, `","qkey":`, uint64(h.DETH.QKey), 8)
			b = appendUint(b, `,"src_qp":`, h.DETH.SrcQP)
		case bth.HasXRCETH:
			b = appendUint(b, `","srq":`, h.XRCETH.SRQ)
		case bth.HasFETH:
			b = appendUint(b, `","selectivity":`, h.FETH.Selectivity)
			b = appendUint(b, `,"placement":`, h.FETH.Placement)
		case bth.HasRETH:
			b = appendHexField(b, `","va":`, h.RETH.VirtualAddress, 16)
			b = appendHexField(b, `,"rkey":`, uint64(h.RETH.RKey), 8)
			b = appendUint(b, `,"dma_len":`, h.RETH.DMALength)
		case bth.HasAtomicETH:
			b = appendHexField(b, `","va":`, h.AtomicETH.VirtualAddress, 16)
			b = appendHexField(b, `,"rkey":`, uint64(h.AtomicETH.RKey), 8)
			b = appendHexField(b, `,"swap":`, h.AtomicETH.SwapAdd, 16)
			b = appendHexField(b, `,"compare":`, h.AtomicETH.Compare, 16)
		case bth.HasAETH:
			b = appendUint(b, `","syndrome":`, uint8(h.AETH.Syndrome))
			b = appendUint(b, `,"msn":`, h.AETH.MSN)
		case bth.HasAtomicAckETH:
			b = appendHexField(b, `","original":`, h.AtomicAckETH.Original, 16)
		case bth.HasImmDt:
			b = appendHexField(b, `","data":`, uint64(h.ImmDt.Data), 8)
		case bth.HasIETH:
			b = appendHexField(b, `","rkey":`, uint64(h.IETH.RKey), 8)
		}
		b = append(b, '}', ',')
	}
	b[len(b)-1] = ']'
	return b
}

func appendTunnels(b []byte, t rocev2.Tunnels) []byte {
	b = append(b, `,"tunnels":[`...)
	for tunnel := range t.All() {
		b = append(b, '"')
		b = append(b, tunnel.String()...)
		b = append(b, '"', ',')
	}
	b[len(b)-1] = ']'
	return b
}

// The following append a key, as it stands before its value, and the value.

func appendUint[T uint | uint8 | uint16 | uint32 | uint64](b []byte, key string, v T) []byte {
	return strconv.AppendUint(append(b, key...), uint64(v), 10)
}

func appendBool(b []byte, key string, v bool) []byte {
	return strconv.AppendBool(append(b, key...), v)
}

func appendAddr(b []byte, key string, a netip.Addr) []byte {
	b = append(append(b, key...), '"')
	return append(a.AppendTo(b), '"')
}

// appendHexField is for numbers that are text: 0x and all digits of their
// width.
func appendHexField(b []byte, key string, v uint64, digits int) []byte {
	b = append(append(b, key...), '"')
	return append(appendHex(b, v, digits), '"')
}

// appendOctets is for octets as hex without 0x.
func appendOctets(b []byte, key string, octets []byte) []byte {
	b = append(append(b, key...), '"')
	for _, o := range octets {
		b = append(b, hexDigits[o>>4], hexDigits[o&0xF])
	}
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

func appendHex(b []byte, v uint64, digits int) []byte {
	b = append(b, "0x"...)
	for digits--; digits >= 0; digits-- {
		b = append(b, hexDigits[v>>(4*digits)&0xF])
	}
	return b
}

// appendString appends text as JSON has it. What is no UTF-8, as in names of
// files, becomes the replacement character.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7F:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&0xF])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
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
