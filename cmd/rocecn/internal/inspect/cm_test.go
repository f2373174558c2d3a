package inspect

import (
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// cm adds the fields of a CM message that tshark decodes. It decodes only the header of SIDR messages: those two are
// given here, taken from their octets.
func (l tsharkLine) cm() {
	if !l.Has("infiniband.mad") {
		return
	}
	l.hexadecimal("cm.transaction", "infiniband.mad.transactionid", 16)
	ids := func(message string) {
		l.hexadecimal("cm.local_comm_id", "infiniband.cm."+message+".localcommid", 8)
		l.hexadecimal("cm.remote_comm_id", "infiniband.cm."+message+".remotecommid", 8)
	}
	switch l.Uint("infiniband.mad.attributeid") {
	case 0x10:
		l.flat["cm.message"] = "REQ"
		l.hexadecimal("cm.local_comm_id", "infiniband.cm.req", 8)
		l.hexadecimal("cm.service_id", "infiniband.cm.req.serviceid", 16)
		l.number("cm.local_qp", "infiniband.cm.req.localqpn")
		l.number("cm.starting_psn", "infiniband.cm.req.startpsn")
		l.flat["cm.transport"] = []string{"RC", "UC", "RD"}[l.Uint("infiniband.cm.req.transpsvctype")]
		l.hexadecimal("cm.pkey", "infiniband.cm.req.pkey", 4)
		l.flat["cm.mtu"] = []string{"", "256", "512", "1024", "2048", "4096"}[l.Uint("infiniband.cm.req.pppmtu")]
		l.flat["cm.local_gid"] = l.Get("infiniband.cm.req.prim_localgid") +
			l.Get("infiniband.cm.req.prim_localgid_ipv4")
		l.flat["cm.remote_gid"] = l.Get("infiniband.cm.req.prim_remotegid") +
			l.Get("infiniband.cm.req.prim_remotegid_ipv4")
		l.number("cm.ip_cm.version", "infiniband.cm.req.ip_cm.ipv")
		l.number("cm.ip_cm.src_port", "infiniband.cm.req.ip_cm.sport")
		l.flat["cm.ip_cm.src"] = l.Get("infiniband.cm.req.ip_cm.sip4") + l.Get("infiniband.cm.req.ip_cm.sip6")
		l.flat["cm.ip_cm.dst"] = l.Get("infiniband.cm.req.ip_cm.dip4") + l.Get("infiniband.cm.req.ip_cm.dip6")
	case 0x13:
		l.flat["cm.message"] = "REP"
		l.hexadecimal("cm.local_comm_id", "infiniband.cm.rep", 8)
		l.hexadecimal("cm.remote_comm_id", "infiniband.cm.rep.remotecommid", 8)
		l.number("cm.local_qp", "infiniband.cm.rep.localqpn")
		l.number("cm.starting_psn", "infiniband.cm.rep.startpsn")
	case 0x14:
		l.flat["cm.message"] = "RTU"
		ids("rtu")
	case 0x15:
		l.flat["cm.message"] = "DREQ"
		ids("dreq")
		l.number("cm.remote_qp", "infiniband.cm.req.remoteqpneecn")
	case 0x16:
		l.flat["cm.message"] = "DREP"
		ids("drsp")
	case 0x17:
		l.add("cm", map[string]any{
			"message": "SIDR_REQ", "request_id": "0xa301dd86", "service_id": "0x0000000001111c06", "pkey": "0xffff",
			"ip_cm.version": "6", "ip_cm.src_port": "49374", "ip_cm.src": "fd77::2", "ip_cm.dst": "fd77::1",
		})
	case 0x18:
		l.add("cm", map[string]any{
			"message": "SIDR_REP", "request_id": "0xa301dd86", "service_id": "0x0000000001111c06",
			"status": "0", "status_name": "valid", "qp": "17", "qkey": "0x01234567",
		})
	}
}

// With -pairs every line has the sender's queue pair, as soon as it is known.
func TestPairs(t *testing.T) {
	known := map[string]map[string]int{}
	for _, capture := range wiretest.Captures(t, "rxe-*.pcap") {
		known[capture] = map[string]int{}
		out, _, status := inspect(nil, "-json", "-pairs", wiretest.Path(t, capture))
		require.Zero(t, status)
		for _, line := range lines(t, out) {
			if line["kind"] == "other" {
				require.NotContains(t, line, "src_qp_from")
				continue
			}
			if line["src_qp_from"] != "" { // the same numbers at both ends of all connections of these captures
				require.Equal(t, line["bth.dest_qp"], line["src_qp"])
			}
			known[capture][line["src_qp_from"]]++
		}
		without, _, _ := inspect(nil, "-json", wiretest.Path(t, capture))
		require.NotContains(t, without, "src_qp_from")
	}
	require.Equal(t, map[string]map[string]int{
		"rxe-perf4.pcap":     {"": 36, "ud": 10, "votes": 42},
		"rxe-rping6.pcap":    {"cm": 24, "ud": 5},
		"rxe-ucmatose4.pcap": {"cm": 24, "ud": 10},
		"rxe-udaddy6.pcap":   {"ud": 8},
		"rxe-verbs6.pcap":    {"": 47, "ud": 3, "votes": 44},
		"rxe-vlan4.pcap":     {"": 5, "ud": 3, "votes": 42},
	}, known)

	out, _, _ := inspect(nil, "-pairs", wiretest.Path(t, "rxe-rping6.pcap"))
	all := strings.Split(out, "\n")
	require.Contains(t, all[len(all)-5], "RC SEND Only")
	require.Contains(t, all[len(all)-5], "qp=0x000011 from=0x000011 (cm) psn=2740758")
}

// The REP of an XRC queue pair names it as EE context, and no LocalQPN.
func TestREPOfXRC(t *testing.T) {
	header := cm.NewHeader(cm.AttributeREP, 1)
	payload := wiretest.Must(header.AppendBinary(nil))(t)
	payload = wiretest.Must((&cm.REP{LocalEECN: 0x1234, StartingPSN: 5, SRQ: true}).AppendBinary(payload))(t)
	p := rocev2.Packet{Payload: payload}
	p.BTH.Opcode, p.BTH.DestQP = bth.UDSendOnly, cm.QP
	p.BTH.DETH.SrcQP, p.BTH.DETH.QKey = cm.QP, cm.QKey
	text, object, ok := formatCM(&p)
	require.True(t, ok)
	require.Contains(t, text, "CM REP from qp=0x001234 expects psn=5 first")
	require.Contains(t, object, `"local_qp":4660`)
}
