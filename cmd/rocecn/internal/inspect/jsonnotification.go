package inspect

import (
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

func appendFastCNP(b []byte, n *fastcnp.Notification) []byte {
	o := &n.Option
	b = appendUint(b, `,"fast_cnp":{"option":`, o.Number)
	b = appendHexField(b, `,"option_type":"0x`, n.OptionType, 2)
	b = appendAddr(b, `,"original_dst":"`, o.OriginalDst)
	b = appendText(b, `,"origin":"`, n.Origin().String())
	if o.Number == 2 {
		b = appendUint(b, `,"ioam":{"type":`, o.Trace.OptType)
		b = appendTrace(b, &o.Trace)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendFCN(b []byte, m *fcn.Message) []byte {
	b = appendUint(b, `,"fcn":{"flow_label":`, m.FlowLabel)
	b = appendUint(b, `,"level":`, m.Level)
	b = appendUint(b, `,"reserved":`, m.Reserved)
	return append(b, '}')
}

func appendProxy(b []byte, m *proxymsg.Message, d *rocev2.Datagram) []byte {
	b = append(append(b, `,"proxy":{"family":`...), ipVersion(m.Src)...)
	b = appendAddr(b, `,"src":"`, m.Src)
	b = appendAddr(b, `,"dst":"`, m.Dst)
	b = appendUint(b, `,"protocol":`, m.Protocol)
	b = appendUint(b, `,"src_port":`, m.SrcPort)
	b = appendUint(b, `,"dst_port":`, m.DstPort)
	b = appendUint(b, `,"level":`, m.Level)
	b = appendUint(b, `,"invoking_len":`, uint(invokingLen(m, d)))
	if h, err := m.BTH(); err == nil {
		b = appendUint(b, `,"invoking_dest_qp":`, h.DestQP)
	}
	return append(b, '}')
}

// invokingLen returns the length in octets of the invoking packet as sent in d, including octets that the capture
// truncated.
func invokingLen(m *proxymsg.Message, d *rocev2.Datagram) int {
	return len(m.Invoking) + int(d.Length) - 8 - len(d.Data)
}

func appendPPFC(b []byte, n *ppfc.Notification) []byte {
	b = appendText(b, `,"ppfc":{"type":"`, n.Type.String())
	b = appendAddr(b, `,"address":"`, n.Congested)
	b = appendUint(b, `,"port":`, n.Port)
	b = appendUint(b, `,"pause_us":`, uint64(n.Pause.Microseconds()))
	b = appendUint(b, `,"flags":`, n.Flags)
	return append(b, '}')
}

func appendPFC(b []byte, p *pfc.PFC) []byte {
	b = append(b, `,"pfc":{"enabled":[`...)
	for priority := range p.All() {
		b = append(b, byte('0'+priority), ',')
	}
	b = append(endList(b), `,"quanta":[`...)
	for _, quanta := range p.Quanta {
		b = append(appendUint(b, "", quanta), ',')
	}
	return append(endList(b), '}')
}
