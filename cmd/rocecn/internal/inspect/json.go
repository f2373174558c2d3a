package inspect

import (
	"encoding/json"
	"io"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// jsonPrinter prints a finding as one line of JSON.
type jsonPrinter struct{ *json.Encoder }

func newJSONPrinter(w io.Writer) jsonPrinter {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return jsonPrinter{e}
}

func (p jsonPrinter) print(f *finding) error { return p.Encode(newJSONLine(f)) }

// The keys of a line, in their order. What does not apply is absent.
type jsonLine struct {
	File      string    `json:"file,omitempty"`
	Frame     int       `json:"frame"`
	Time      jsonTime  `json:"time,omitzero"`
	Kind      string    `json:"kind"`
	Error     string    `json:"error,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
	IP        *jsonIP   `json:"ip,omitempty"`
	UDP       *jsonUDP  `json:"udp,omitempty"`
	BTH       *jsonBTH  `json:"bth,omitempty"`
	Headers   []any     `json:"headers,omitempty"`
	Payload   *int      `json:"payload_len,omitempty"`
	ICRC      *jsonICRC `json:"icrc,omitempty"`
	IOAM      []any     `json:"ioam,omitempty"`

	FastCNP *jsonFastCNP `json:"fast_cnp,omitempty"`
	FCN     *jsonFCN     `json:"fcn,omitempty"`
	Proxy   *jsonProxy   `json:"proxy,omitempty"`
	PPFC    *jsonPPFC    `json:"ppfc,omitempty"`
}

type jsonIP struct {
	Version   int        `json:"version"`
	Src       netip.Addr `json:"src"`
	Dst       netip.Addr `json:"dst"`
	DSCP      uint8      `json:"dscp"`
	ECN       uint8      `json:"ecn"`
	HopLimit  uint8      `json:"hop_limit"`
	FlowLabel *uint32    `json:"flow_label,omitempty"` // IPv6 only
}

type jsonUDP struct {
	Src      uint16 `json:"src"`
	Dst      uint16 `json:"dst"`
	Checksum hex16  `json:"checksum"`
}

type jsonBTH struct {
	Opcode hex8   `json:"opcode"`
	Name   string `json:"name"`
	SE     bool   `json:"se"`
	MigReq bool   `json:"migreq"`
	Pad    uint8  `json:"pad"`
	TVer   uint8  `json:"tver"`
	PKey   hex16  `json:"pkey"`
	FECN   bool   `json:"fecn"`
	BECN   bool   `json:"becn"`
	Resv6  uint8  `json:"resv6"`
	DestQP uint32 `json:"dest_qp"`
	AckReq bool   `json:"ackreq"`
	Resv7  uint8  `json:"resv7"`
	PSN    uint32 `json:"psn"`
}

type jsonICRC struct {
	Value    hex32  `json:"value"`
	OK       bool   `json:"ok"`
	Coverage string `json:"coverage,omitempty"` // only when OK
}

// The extended headers.
type (
	jsonRDETH struct {
		Type string `json:"type"`
		EE   uint32 `json:"ee"`
	}
	jsonDETH struct {
		Type  string `json:"type"`
		QKey  hex32  `json:"qkey"`
		SrcQP uint32 `json:"src_qp"`
	}
	jsonXRCETH struct {
		Type string `json:"type"`
		SRQ  uint32 `json:"srq"`
	}
	jsonRETH struct {
		Type   string `json:"type"`
		VA     hex64  `json:"va"`
		RKey   hex32  `json:"rkey"`
		DMALen uint32 `json:"dma_len"`
	}
	jsonAtomicETH struct {
		Type    string `json:"type"`
		VA      hex64  `json:"va"`
		RKey    hex32  `json:"rkey"`
		Swap    hex64  `json:"swap"`
		Compare hex64  `json:"compare"`
	}
	jsonAETH struct {
		Type     string `json:"type"`
		Syndrome uint8  `json:"syndrome"`
		MSN      uint32 `json:"msn"`
	}
	jsonAtomicAckETH struct {
		Type     string `json:"type"`
		Original hex64  `json:"original"`
	}
	jsonImmDt struct {
		Type string `json:"type"`
		Data hex32  `json:"data"`
	}
	jsonIETH struct {
		Type string `json:"type"`
		RKey hex32  `json:"rkey"`
	}
	jsonFETH struct {
		Type        string `json:"type"`
		Selectivity uint8  `json:"selectivity"`
		Placement   uint8  `json:"placement"`
	}
)

func newJSONLine(f *finding) *jsonLine {
	line := &jsonLine{
		File: f.file, Frame: f.frame, Time: jsonTime(f.record.Time), Kind: f.kind.String(), Truncated: f.truncated, IOAM: newJSONIOAMs(f.ioam),
	}
	if f.kind == message.Broken {
		line.Error = f.err.Error()
	}
	if d := f.datagram; d != nil {
		line.IP = newJSONIP(d)
		line.UDP = &jsonUDP{d.SrcPort, d.DstPort, hex16(d.Checksum)}
	}
	if p := f.packet; p != nil {
		line.BTH = newJSONBTH(&p.BTH.Header)
		if f.kind == message.Data || f.kind == message.Ack {
			line.Headers = newJSONHeaders(&p.BTH)
			n := p.PayloadLen()
			line.Payload = &n
		}
		if !f.truncated {
			line.ICRC = &jsonICRC{Value: hex32(p.ICRC), OK: f.icrcOK}
			if f.icrcOK {
				line.ICRC.Coverage = f.coverage.String()
			}
		}
	}
	switch m := f.message; f.kind {
	case message.FastCNP:
		line.FastCNP = newJSONFastCNP(&m.FastCNP)
	case message.FCN:
		line.FCN = &jsonFCN{m.FCN.FlowLabel, m.FCN.Level, m.FCN.Reserved}
	case message.Proxy:
		line.Proxy = newJSONProxy(&m.Proxy, f.datagram)
	case message.PPFC:
		line.PPFC = newJSONPPFC(&m.PPFC)
	}
	return line
}

func newJSONIP(d *rocev2.Datagram) *jsonIP {
	ip := &jsonIP{Version: 4, Src: d.Src, Dst: d.Dst, DSCP: d.DSCP(), ECN: d.ECN(), HopLimit: d.HopLimit}
	if d.Src.Is6() {
		ip.Version = 6
		ip.FlowLabel = &d.FlowLabel
	}
	return ip
}

func newJSONBTH(h *bth.Header) *jsonBTH {
	return &jsonBTH{
		Opcode: hex8(h.Opcode), Name: h.Opcode.String(), SE: h.Solicited, MigReq: h.MigReq, Pad: h.Pad, TVer: h.TVer,
		PKey: hex16(h.PKey), FECN: h.FECN, BECN: h.BECN, Resv6: h.Resv6, DestQP: h.DestQP, AckReq: h.AckReq,
		Resv7: h.Resv7, PSN: h.PSN,
	}
}

func newJSONHeaders(h *bth.Headers) (all []any) {
	for x := range h.Present.All() {
		name := x.String()
		switch x {
		case bth.HasRDETH:
			all = append(all, jsonRDETH{name, h.RDETH.EEContext})
		case bth.HasDETH:
			all = append(all, jsonDETH{name, hex32(h.DETH.QKey), h.DETH.SrcQP})
		case bth.HasXRCETH:
			all = append(all, jsonXRCETH{name, h.XRCETH.SRQ})
		case bth.HasFETH:
			all = append(all, jsonFETH{name, h.FETH.Selectivity, h.FETH.Placement})
		case bth.HasRETH:
			all = append(all, jsonRETH{name, hex64(h.RETH.VirtualAddress), hex32(h.RETH.RKey), h.RETH.DMALength})
		case bth.HasAtomicETH:
			a := &h.AtomicETH
			all = append(all, jsonAtomicETH{name, hex64(a.VirtualAddress), hex32(a.RKey), hex64(a.SwapAdd), hex64(a.Compare)})
		case bth.HasAETH:
			all = append(all, jsonAETH{name, uint8(h.AETH.Syndrome), h.AETH.MSN})
		case bth.HasAtomicAckETH:
			all = append(all, jsonAtomicAckETH{name, hex64(h.AtomicAckETH.Original)})
		case bth.HasImmDt:
			all = append(all, jsonImmDt{name, hex32(h.ImmDt.Data)})
		case bth.HasIETH:
			all = append(all, jsonIETH{name, hex32(h.IETH.RKey)})
		}
	}
	return all
}

// jsonTime is text with microseconds, with nanoseconds where there are any.
type jsonTime time.Time

func (t jsonTime) IsZero() bool { return time.Time(t).IsZero() }

func (t jsonTime) MarshalText() ([]byte, error) {
	layout := "2006-01-02T15:04:05.000000Z"
	if time.Time(t).Nanosecond()%1000 != 0 {
		layout = "2006-01-02T15:04:05.000000000Z"
	}
	return time.Time(t).AppendFormat(make([]byte, 0, len(layout)), layout), nil
}

// Numbers that are text: 0x and all digits of their width.
type (
	hex8  uint8
	hex16 uint16
	hex24 uint32
	hex32 uint32
	hex64 uint64
)

func (v hex8) MarshalText() ([]byte, error)  { return appendHex(nil, uint64(v), 2), nil }
func (v hex16) MarshalText() ([]byte, error) { return appendHex(nil, uint64(v), 4), nil }
func (v hex24) MarshalText() ([]byte, error) { return appendHex(nil, uint64(v), 6), nil }
func (v hex32) MarshalText() ([]byte, error) { return appendHex(nil, uint64(v), 8), nil }
func (v hex64) MarshalText() ([]byte, error) { return appendHex(nil, uint64(v), 16), nil }

func appendHex(b []byte, v uint64, digits int) []byte {
	b = append(b, "0x"...)
	for digits--; digits >= 0; digits-- {
		b = append(b, "0123456789abcdef"[v>>(4*digits)&0xF])
	}
	return b
}
