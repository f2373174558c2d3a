package pnc

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// isisFrame, ospfv2Frame and ospfv3Frame return a frame with an IS-IS PDU or an LSA.
func isisFrame(pdu []byte) []byte {
	b := []byte{0x01, 0x80, 0xC2, 0, 0, 0x15, 2, 0, 0, 0, 0, 1, 0, 0, 0xFE, 0xFE, 3}
	binary.BigEndian.PutUint16(b[12:], uint16(3+len(pdu)))
	return append(b, pdu...)
}

func ospfv2Frame(t *testing.T, lsa []byte) []byte {
	b := wiretest.Hex(t, "01005e000005 020000000001 0800"+
		"45c0 0000 0000 0000 01 59 0000 c0000201 e0000005"+
		"02 04 0000 c0000201 00000000 0000 0000 0000000000000000 00000001")
	binary.BigEndian.PutUint16(b[14+2:], uint16(20+28+len(lsa)))
	binary.BigEndian.PutUint16(b[34+2:], uint16(28+len(lsa)))
	return append(b, lsa...)
}

func ospfv3Frame(t *testing.T, lsa []byte) []byte {
	b := wiretest.Hex(t, "333300000005 020000000001 86dd"+
		"6c000000 0000 59 01 fe800000000000000000000000000001 ff020000000000000000000000000005"+
		"03 04 0000 c0000201 00000000 0000 00 00 00000001")
	binary.BigEndian.PutUint16(b[14+4:], uint16(20+len(lsa)))
	binary.BigEndian.PutUint16(b[54+2:], uint16(20+len(lsa)))
	return append(b, lsa...)
}

func TestTsharkReadsISIS(t *testing.T) {
	var tlvs []byte
	for _, a := range []Advertisement{
		{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"), Metric: 10},
		{Prefix: prefix("2001:db8:1::/64"), Proxy: addr("2001:db8:ffff::2"), Metric: 20},
	} {
		tlvs = wiretest.Must(Codes{}.AppendISIS(tlvs, a, 0))(t)
	}
	leaked := wiretest.Must(LeakISIS(nil, wiretest.Hex(t, "0401 01"), addr("198.51.100.1"), addr("")))(t)
	r := reach{metric: 30, control: controlDown | controlSubTLVs4, prefix: prefix("203.0.113.0/24"), subTLVs: leaked}
	entry := r.appendEntry(nil)
	tlvs = slices.Concat(tlvs, []byte{tlvReach4, uint8(len(entry))}, entry)

	row := wiretest.TsharkFields(t, []string{
		"isis.lsp.ext_ip_reachability.ipv4_prefix", "isis.lsp.ext_ip_reachability.metric",
		"isis.lsp.ipv6_reachability.ipv6_prefix",
		"isis.lsp.prefix_attribute.flags", "isis.lsp.prefix_attribute.flags.r", "_ws.malformed",
	}, isisFrame(lspOf(tlvs)))[0]
	require.Equal(t, []string{"192.0.2.0", "203.0.113.0"}, row.All("isis.lsp.ext_ip_reachability.ipv4_prefix"))
	require.Equal(t, []string{"10", "30"}, row.All("isis.lsp.ext_ip_reachability.metric"))
	require.Equal(t, []string{"2001:db8:1::"}, row.All("isis.lsp.ipv6_reachability.ipv6_prefix"))
	require.Equal(t, []string{"0x01", "0x01", "0x41"}, row.All("isis.lsp.prefix_attribute.flags"))
	require.Equal(t, []string{"0", "0", "1"}, row.All("isis.lsp.prefix_attribute.flags.r"))
	require.False(t, row.Has("_ws.malformed"))
}

func TestTsharkReadsOSPFv2(t *testing.T) {
	a := Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2")}
	own := wiretest.Must(Codes{}.AppendOSPFv2(nil, a))(t)
	leaked := wiretest.Must(LeakOSPFv2(nil, own, PrefixSource{}))(t)
	row := wiretest.TsharkFields(t, []string{
		"ospf.lsid_opaque_type", "ospf.tlv.extpfx.tlv_type", "ospf.tlv.extpfx.rotuetype", "ospf.prefix_length",
		"ospf.tlv.extpfx.af",
		"ospf.v3.address_prefix.ipv4", "ospf.tlv_length", "ospf.tlv_value", "_ws.malformed",
	}, ospfv2Frame(t, opaqueLSA(opaqueExtendedPrefix, own, leaked)))[0]
	require.EqualValues(t, opaqueExtendedPrefix, row.Uint("ospf.lsid_opaque_type"))
	require.Equal(t, []string{"1", "1"}, row.All("ospf.tlv.extpfx.tlv_type"))
	require.Equal(t, []string{"1", "3"}, row.All("ospf.tlv.extpfx.rotuetype"), "intra-area, inter-area")
	require.Equal(t, []string{"24", "24"}, row.All("ospf.prefix_length"))
	require.Equal(t, []string{"0", "0"}, row.All("ospf.tlv.extpfx.af"))
	require.Equal(t, []string{"192.0.2.0", "192.0.2.0"}, row.All("ospf.v3.address_prefix.ipv4"))
	require.Equal(t, []string{"24", "4", "4", "24", "4", "4"}, row.All("ospf.tlv_length"))
	require.Equal(t, []string{"20000000", "c6336402", "20000000", "c6336402"}, row.All("ospf.tlv_value"))
	require.False(t, row.Has("_ws.malformed"))
}

// tshark 4.0 decodes only the header of extended LSAs: type, scope, and the handling by
// a router that does not know them.
func TestTsharkReadsOSPFv3Header(t *testing.T) {
	a := Advertisement{Prefix: prefix("2001:db8:1::/64"), Proxy: addr("2001:db8:ffff::2"), Metric: 10}
	own := wiretest.Must(Codes{}.AppendOSPFv3(nil, a))(t)
	leaked := wiretest.Must(LeakOSPFv3(nil, own, 30, PrefixSource{}))(t)
	rows := wiretest.TsharkFields(t, []string{"ospf.v3.lsa.fc", "ospf.v3.lsa.u", "ospf.v3.lsa.s12", "ospf.lsa.length",
		"_ws.malformed"},
		ospfv3Frame(t, extendedLSA(0xA029, make([]byte, referenceLen), own)),
		ospfv3Frame(t, extendedLSA(0xA023, leaked)))
	for i, functionCode := range []uint64{functionEIntraAreaPrefix, functionEInterAreaPrefix} {
		require.Equal(t, functionCode, rows[i].Uint("ospf.v3.lsa.fc"))
		require.EqualValues(t, 1, rows[i].Uint("ospf.v3.lsa.u"), "flooded where it is not known")
		require.EqualValues(t, 1, rows[i].Uint("ospf.v3.lsa.s12"), "area scope")
		require.False(t, rows[i].Has("_ws.malformed"))
	}
}

// tshark 4.0 does not know the BGP attribute. It confirms that the octets are an optional
// transitive attribute of the right length.
func TestTsharkReadsNHC(t *testing.T) {
	value := wiretest.Must(bgp.AppendNHC(nil, NextHop{AFI: 1, SAFI: 1, Addr: addr4}, addr("198.51.100.2")))(t)
	attributes := slices.Concat(wiretest.Hex(t, "40 01 01 00 40 02 00 40 03 04 c6336407"),
		[]byte{AttributeNHCFlags, AttributeNHC, uint8(len(value))}, value)
	update := slices.Concat(wiretest.Hex(t, "ffffffffffffffffffffffffffffffff 0000 02 0000"),
		binary.BigEndian.AppendUint16(nil, uint16(len(attributes))), attributes, wiretest.Hex(t, "18 c00002"))
	binary.BigEndian.PutUint16(update[16:], uint16(len(update)))
	frame := slices.Concat(wiretest.Hex(t, "020000000002 020000000001 0800"+
		"45000000 00004000 40060000 c6336407 c6336408"+
		"00b3 c000 00000001 00000001 5018 ffff 0000 0000"), update)
	binary.BigEndian.PutUint16(frame[14+2:], uint16(40+len(update)))
	row := wiretest.TsharkFields(t, []string{"bgp.update.path_attribute.type_code", "bgp.update.path_attribute.flags",
		"bgp.update.path_attribute.length", "bgp.nlri_prefix", "_ws.malformed"}, frame)[0]
	require.Equal(t, []string{"1", "2", "3", "39"}, row.All("bgp.update.path_attribute.type_code"))
	require.Equal(t, "0xc0", row.All("bgp.update.path_attribute.flags")[3])
	require.Equal(t, "16", row.All("bgp.update.path_attribute.length")[3])
	require.Equal(t, "192.0.2.0", row.Get("bgp.nlri_prefix"))
	require.False(t, row.Has("_ws.malformed"))
}
