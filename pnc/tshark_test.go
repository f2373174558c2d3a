package pnc

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Frames around an IS-IS PDU, an OSPFv2 and an OSPFv3 LSA.
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
		var err error
		tlvs, err = Codes{}.AppendISIS(tlvs, a, 0)
		require.NoError(t, err)
	}
	leaked, err := LeakISIS(nil, wiretest.Hex(t, "0401 01"), addr("198.51.100.1"), addr(""))
	require.NoError(t, err)
	r := reach{metric: 30, control: controlDown | controlSubTLVs4, prefix: prefix("203.0.113.0/24"), subTLVs: leaked}
	entry := r.append(nil)
	tlvs = slices.Concat(tlvs, []byte{tlvReach4, uint8(len(entry))}, entry)

	row := wiretest.TsharkFields(t, []string{
		"isis.lsp.ext_ip_reachability.ipv4_prefix", "isis.lsp.ext_ip_reachability.metric", "isis.lsp.ipv6_reachability.ipv6_prefix",
		"isis.lsp.prefix_attribute.flags", "isis.lsp.prefix_attribute.flags.r", "_ws.malformed",
	}, isisFrame(lspOf(tlvs)))[0]
	require.Equal(t, []string{"192.0.2.0", "203.0.113.0"}, row.All("isis.lsp.ext_ip_reachability.ipv4_prefix"))
	require.Equal(t, []string{"10", "30"}, row.All("isis.lsp.ext_ip_reachability.metric"))
	require.Equal(t, []string{"2001:db8:1::"}, row.All("isis.lsp.ipv6_reachability.ipv6_prefix"))
	require.Equal(t, []string{"0x01", "0x01", "0x41"}, row.All("isis.lsp.prefix_attribute.flags"))
	require.Equal(t, []string{"0", "0", "1"}, row.All("isis.lsp.prefix_attribute.flags.r"))
	require.False(t, row.Has("_ws.malformed"))
}
