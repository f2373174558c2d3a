package cm_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The messages of the captures decode to the values of tshark and are encoded to the
// same octets.
func TestTsharkReadsTheCapturesAsWeDo(t *testing.T) {
	seen := map[cm.Attribute]int{}
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		for _, row := range wiretest.Golden(t, name) {
			if row.Has("infiniband.mad") {
				seen[compare(t, row, fmt.Sprintf("%s frame %s", name, row.Get("frame.number")))]++
			}
		}
	}
	require.Equal(t, map[cm.Attribute]int{
		cm.AttributeREQ: 3, cm.AttributeREP: 3, cm.AttributeRTU: 3, cm.AttributeDREQ: 3, cm.AttributeDREP: 3,
		cm.AttributeSIDRREQ: 1, cm.AttributeSIDRREP: 1,
	}, seen)
}

// Messages of random octets, in which no field is zero, decode to the values of tshark.
func TestTsharkReadsRandomMessagesAsWeDo(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 0))
	var frames [][]byte
	for _, c := range messages {
		for range 8 {
			h := cm.NewHeader(attribute(c.name), random.Uint64())
			h.Status, h.ClassSpecific, h.Modifier = uint16(random.Uint32()), uint16(random.Uint32()), random.Uint32()
			datagram := wiretest.Must(h.AppendBinary(nil))(t)
			for range cm.MessageSize {
				datagram = append(datagram, byte(random.Uint32()))
			}
			frames = append(frames, frame(t, datagram))
		}
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		compare(t, row, fmt.Sprintf("frame %d", i))
	}
}

func attribute(name string) cm.Attribute {
	for a := cm.AttributeREQ; a <= cm.AttributeSIDRREP; a++ {
		if a.String() == name {
			return a
		}
	}
	panic(name)
}

// frame returns an Ethernet frame that carries the datagram over RoCEv2.
func frame(t testing.TB, datagram []byte) []byte {
	b := wiretest.Hex(t,
		`020000000001 020000000002 86dd 60000000 0120 11 40
		fd770000000000000000000000000002 fd770000000000000000000000000001
		d872 12b7 0120 0000 6400ffff 00000001 80000000 80010000 00000001`)
	return append(append(b, datagram...), 0, 0, 0, 0)
}

// compare fails the test unless the datagram in the row decodes to the values of
// tshark. It returns the attribute of the message.
func compare(t *testing.T, row wiretest.Row, where string) cm.Attribute {
	t.Helper()
	datagram := row.Octets("infiniband.mad")
	var h cm.Header
	octets, err := h.Decode(datagram)
	require.NoError(t, err, where)
	number := func(want any, field string) {
		t.Helper()
		require.EqualValues(t, want, row.Uint(field), "%s: %s", where, field)
	}
	flag := func(want bool, field string) {
		t.Helper()
		require.Equal(t, want, row.Bool(field), "%s: %s", where, field)
	}
	number(h.BaseVersion, "infiniband.mad.baseversion")
	number(h.Class, "infiniband.mad.mgmtclass")
	number(h.ClassVersion, "infiniband.mad.classversion")
	number(h.Method, "infiniband.mad.method")
	number(h.Status, "infiniband.mad.status")
	number(h.ClassSpecific, "infiniband.mad.classspecific")
	number(h.TransactionID, "infiniband.mad.transactionid")
	number(uint16(h.Attribute), "infiniband.mad.attributeid")
	number(h.Modifier, "infiniband.mad.attributemodifier")
	headers := carrier(uint32(row.Uint("infiniband.bth.destqp")), uint32(row.Uint("infiniband.deth.srcqp")),
		uint32(row.Uint("infiniband.deth.q_key")))
	headers.Opcode = bth.Opcode(row.Uint("infiniband.bth.opcode"))
	require.True(t, carried(headers, datagram, len(datagram)), where)

	var m message
	switch h.Attribute {
	case cm.AttributeREQ:
		var r cm.REQ
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.req")
		number(r.ServiceID, "infiniband.cm.req.serviceid")
		number(r.LocalCAGUID, "infiniband.cm.req.localcaguid")
		number(r.LocalQKey, "infiniband.cm.req.localqkey")
		number(r.LocalQPN, "infiniband.cm.req.localqpn")
		number(r.ResponderResources, "infiniband.cm.req.responderres")
		number(r.LocalEECN, "infiniband.cm.req.localeecn")
		number(r.InitiatorDepth, "infiniband.cm.req.initdepth")
		number(r.RemoteEECN, "infiniband.cm.req.remoteeecn")
		number(r.RemoteResponseTimeout, "infiniband.cm.req.remoteresptout")
		number(r.TransportType, "infiniband.cm.req.transpsvctype")
		flag(r.EndToEndFlowControl, "infiniband.cm.req.e2eflowctrl")
		number(r.StartingPSN, "infiniband.cm.req.startpsn")
		number(r.LocalResponseTimeout, "infiniband.cm.req.localresptout")
		number(r.RetryCount, "infiniband.cm.req.retrcount")
		number(r.PKey, "infiniband.cm.req.pkey")
		number(r.PathMTU, "infiniband.cm.req.pppmtu")
		flag(r.RDCExists, "infiniband.cm.req.rdcexist")
		number(r.RNRRetryCount, "infiniband.cm.req.rnrretrcount")
		number(r.MaxCMRetries, "infiniband.cm.req.maxcmretr")
		flag(r.SRQ, "infiniband.cm.req.srq")
		number(r.ExtendedTransport, "infiniband.cm.req.ext_transport")
		for _, p := range []struct {
			path cm.Path
			name string
		}{{r.Primary, "prim_"}, {r.Alternate, "alt_"}} {
			t.Run(p.name, func(t *testing.T) {
				field := "infiniband.cm.req." + p.name
				number(p.path.LocalLID, field+"locallid")
				number(p.path.RemoteLID, field+"remotelid")
				require.Equal(t, p.path.LocalGID, gid(row, field+"localgid"), where)
				require.Equal(t, p.path.RemoteGID, gid(row, field+"remotegid"), where)
				// tshark takes the flow label for the upper 12 bits of its 20
				number(p.path.FlowLabel>>8, field+"flowlabel")
				number(p.path.TrafficClass, field+"tfcclass")
				number(p.path.HopLimit, field+"hoplim")
				number(p.path.SL, field+"sl")
				flag(p.path.SubnetLocal, field+"subnetlocal")
				number(p.path.Reserved2, field+"reserved1")
				number(p.path.AckTimeout, field+"localacktout")
			})
		}
		number(r.Primary.Reserved3, "infiniband.cm.req.prim_reserved2")
		protocol, port, ok := r.ServiceID.IP()
		require.Equal(t, ok, row.Has("infiniband.cm.req.ip_cm"), where)
		if !ok {
			require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.req.private"), where)
			break
		}
		number(protocol, "infiniband.cm.req.serviceid.protocol")
		number(port, "infiniband.cm.req.serviceid.dport")
		var d cm.IPData
		private, err := d.Decode(r.PrivateData[:])
		require.NoError(t, err, where)
		require.NoError(t, d.Validate(), where)
		number(d.MajorVersion, "infiniband.cm.req.ip_cm.majv")
		number(d.MinorVersion, "infiniband.cm.req.ip_cm.minv")
		number(d.IPVersion, "infiniband.cm.req.ip_cm.ipv")
		number(d.Reserved, "infiniband.cm.req.ip_cm.reserved")
		number(d.SrcPort, "infiniband.cm.req.ip_cm.sport")
		require.Equal(t, d.Src.String(), row.Get("infiniband.cm.req.ip_cm.sip4")+
			row.Get("infiniband.cm.req.ip_cm.sip6"), where)
		require.Equal(t, d.Dst.String(), row.Get("infiniband.cm.req.ip_cm.dip4")+
			row.Get("infiniband.cm.req.ip_cm.dip6"), where)
		require.Equal(t, private, row.Octets("infiniband.cm.req.ip_cm.private"), where)
	case cm.AttributeREP:
		var r cm.REP
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.rep")
		number(r.RemoteCommID, "infiniband.cm.rep.remotecommid")
		number(r.LocalQKey, "infiniband.cm.rep.localqkey")
		number(r.LocalQPN, "infiniband.cm.rep.localqpn")
		number(r.LocalEECN, "infiniband.cm.rep.localeecn")
		number(r.StartingPSN, "infiniband.cm.rep.startpsn")
		number(r.ResponderResources, "infiniband.cm.rep.respres")
		number(r.InitiatorDepth, "infiniband.cm.rep.initdepth")
		number(r.TargetAckDelay, "infiniband.cm.rep.tgtackdelay")
		number(r.FailoverAccepted, "infiniband.cm.rep.failoveracc")
		flag(r.EndToEndFlowControl, "infiniband.cm.rep.e2eflowctrl")
		number(r.RNRRetryCount, "infiniband.cm.rep.rnrretrcount")
		flag(r.SRQ, "infiniband.cm.rep.srq")
		number(r.Reserved4, "infiniband.cm.rep.reserved")
		number(r.LocalCAGUID, "infiniband.cm.rep.localcaguid")
		require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.rep.private"), where)
	case cm.AttributeREJ:
		var r cm.REJ
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.rej.localcommid")
		number(r.RemoteCommID, "infiniband.cm.rej.remotecommid")
		number(r.Message, "infiniband.cm.rej.msgrej")
		number(r.InfoLen, "infiniband.cm.rej.rejinfolen")
		number(r.Reserved2, "infiniband.cm.rej.reserved1")
		number(uint16(r.Reason), "infiniband.cm.rej.reason")
		require.Equal(t, r.Info[:], row.Octets("infiniband.cm.rej.ari"), where)
		require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.rej.private"), where)
	case cm.AttributeRTU:
		var r cm.RTU
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.rtu.localcommid")
		number(r.RemoteCommID, "infiniband.cm.rtu.remotecommid")
		require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.rtu.private"), where)
	case cm.AttributeDREQ:
		var r cm.DREQ
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.dreq.localcommid")
		number(r.RemoteCommID, "infiniband.cm.dreq.remotecommid")
		number(r.RemoteQPN, "infiniband.cm.req.remoteqpneecn")
		require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.dreq.private"), where)
	case cm.AttributeDREP:
		var r cm.DREP
		m = &r
		require.NoError(t, decode(m, octets), where)
		number(r.LocalCommID, "infiniband.cm.drsp.localcommid")
		number(r.RemoteCommID, "infiniband.cm.drsp.remotecommid")
		require.Equal(t, r.PrivateData[:], row.Octets("infiniband.cm.drsp.private"), where)
	default: // tshark decodes only the header
		m = map[cm.Attribute]message{cm.AttributeMRA: &cm.MRA{}, cm.AttributeSIDRREQ: &cm.SIDRREQ{},
			cm.AttributeSIDRREP: &cm.SIDRREP{}}[h.Attribute]
		require.NotNil(t, m, where)
		require.NoError(t, decode(m, octets), where)
	}
	again := wiretest.Must(h.AppendBinary(nil))(t)
	again = wiretest.Must(m.AppendBinary(again))(t)
	require.Equal(t, datagram, again, where)
	return h.Attribute
}

// gid returns a GID, which tshark prints as an address, as an IPv4 address in
// another field, or as octets.
func gid(row wiretest.Row, field string) netip.Addr {
	if field == "infiniband.cm.req.alt_localgid" || field == "infiniband.cm.req.alt_remotegid" {
		return netip.AddrFrom16([16]byte(row.Octets(field)))
	}
	if v4 := field + "_ipv4"; row.Has(v4) {
		return netip.AddrFrom16(addr(row.Get(v4)).As16())
	}
	return addr(row.Get(field))
}

// The queue pair of a datagram service, in the octets of two frames of rxe-udaddy6.
func TestSIDRInACapture(t *testing.T) {
	rows := wiretest.Golden(t, "rxe-udaddy6.pcap")
	var req cm.SIDRREQ
	require.NoError(t, decode(&req, rows[30].Octets("infiniband.mad")[cm.HeaderSize:]))
	protocol, port, ok := req.ServiceID.IP()
	require.True(t, ok)
	require.EqualValues(t, 17, protocol)
	require.EqualValues(t, 7174, port)
	require.EqualValues(t, 0xFFFF, req.PKey)
	var d cm.IPData
	_, err := d.Decode(req.PrivateData[:])
	require.NoError(t, err)
	require.Equal(t, cm.IPData{IPVersion: 6, SrcPort: 0xC0DE, Src: addr("fd77::2"), Dst: addr("fd77::1")}, d)

	var rep cm.SIDRREP
	require.NoError(t, decode(&rep, rows[33].Octets("infiniband.mad")[cm.HeaderSize:]))
	require.Equal(t, cm.SIDRREP{RequestID: req.RequestID, QPN: 0x11, ServiceID: req.ServiceID, QKey: 0x01234567}, rep)
}
