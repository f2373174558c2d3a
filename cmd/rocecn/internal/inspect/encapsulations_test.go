package inspect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// An RDMA WRITE Only of 256 octets, PSN 1000, to queue pair 0x222, with DSCP 26 and ECT(0), and its acknowledgement.
// The ICRCs are those of another implementation.
const (
	macsToB  = `020000000002 020000000001 `
	write256 = `456a013c 00014000 4011b542 c0000201 c0000202 c35012b7 01280000` +
		`0a40ffff 00000222 800003e8 00007f000003e800 00001234 00000100`
	acknowledge = `456a0030 00014000 4011b64e c0000202 c0000201 c35012b7 001c0000` +
		`1140ffff 00000111 000003e8 1f000001 66a12c99`
	outerIP = `c6336401 c6336402` // 198.51.100.1 to 198.51.100.2
)

// wholeWrite returns write256 with its payload of 0xe8 and its ICRC.
func wholeWrite(t *testing.T) string {
	return write256 + strings.Repeat("e8", 256) + writeICRC
}

const writeICRC = `f1c5dab1` // 0xb1dac5f1, least significant octet first

// Frames as operators captured them, with keys and text that inspect prints.
func TestEncapsulations(t *testing.T) {
	write := wholeWrite(t)
	for _, c := range []struct {
		name, frame string
		want        flat // these keys, "" if absent
		text        string
	}{
		{"plain", macsToB + `0800` + write, flat{"kind": "data", "src_mac": "02:00:00:00:00:01",
			"dst_mac": "02:00:00:00:00:02", "vlan": "", "outer.0.kind": "", "icrc.ok": "true"}, "icrc ok"},
		{"VLAN", macsToB + `81006064 0800` + write, flat{"kind": "data", "vlan": "100", "pcp": "3"}, "icrc ok"},
		{"ICRC of zeros", macsToB + `0800` + strings.TrimSuffix(acknowledge, `66a12c99`) + `00000000`,
			flat{"kind": "ack", "icrc.ok": "false"}, "icrc BAD"},
		{"truncated to 128 octets by a mirror", macsToB + `0800` + write[:len(write256)] + strings.Repeat("e8", 58),
			flat{"kind": "data", "truncated": "true", "trimmed": "", "payload_len": "256", "RETH.dma_len": "256",
				"icrc.ok": ""}, "truncated"},
		{"truncated in the RETH by a mirror", macsToB + `0800` + write[:strings.Index(write, "00001234")],
			flat{"kind": "data", "truncated": "true", "bth.psn": "1000", "payload_len": "256", "RETH.type": ""},
			"payload=256  truncated"},
		{"trimmed", macsToB + `0800` + strings.Replace(write256, `456a013c`, `456a0038`, 1), flat{"kind": "data",
			"trimmed": "true", "truncated": "", "payload_len": "256", "icrc.ok": ""}, "payload=256  trimmed"},
		{"mirror of type 0x8949", macsToB + `0800 45200178 00000000 042f60cd` + outerIP + `00008949` +
			strings.Repeat("00", 22) + macsToB + `0800` + write, flat{"kind": "data", "tunnels.0": "gre-8949",
			"outer.0.kind": "gre-8949", "outer.0.dscp": "8", "outer.0.ecn": "0", "icrc.ok": "true"},
			"in gre-8949 dscp=8"},
		{"ERSPAN type I, truncated to 128 octets", macsToB + `0800 45200098 00000000 042f61ad` + outerIP + `000088be` +
			macsToB + `0800` + write256 + strings.Repeat("e8", 58), flat{"kind": "data", "truncated": "true",
			"tunnels.0": "erspan1"}, "in erspan1 dscp=8"},
		{"Arista timestamp", macsToB + `d28b 0001 0020 810000004e20 0800` + write, flat{"kind": "data",
			"icrc.ok": "true", "vlan": ""}, "icrc ok"},
		{"CSIG tag", macsToB + `9900 b4a5 0800` + acknowledge, flat{"kind": "ack", "icrc.ok": "true", "vlan": ""},
			"icrc ok"},
		{"VXLAN on port 8472 with CE", macsToB + `0800 450f016e 00004000 4011e505` + outerIP +
			`d9032118 015a0000 08000000 00006400` + macsToB + `0800` + write, flat{"kind": "data", "ip.ecn": "2",
			"tunnels.0": "vxlan", "outer.0.kind": "vxlan", "outer.0.ecn": "3", "outer.0.dscp": "3"},
			"in vxlan CE dscp=3"},
		{"IP in IP", macsToB + `0800 45070150 00004000 4004e530` + outerIP + write, flat{"kind": "data",
			"tunnels.0": "", "outer.0.kind": "ipip", "outer.0.ecn": "3", "outer.0.dscp": "1"}, "in ipip CE dscp=1"},
		{"RoCEv1", macsToB + `8915 6000000000601b40` + strings.Repeat("00", 10) + `ffffc0000201` +
			strings.Repeat("00", 10) + `ffffc0000202 0a40ffff 00000222 80000000` + strings.Repeat("76", 84),
			flat{"kind": "other"}, "other: RoCEv1"},
		{"PFC", `0180c2000001 020000000003 8808 0101 0018 000000000000 ffff 0000 000000000000`,
			flat{"kind": "pfc", "src_mac": "02:00:00:00:00:03", "pfc.enabled.0": "3", "pfc.enabled.1": "4"},
			"02:00:00:00:00:03 > 01:80:c2:00:00:01  PFC"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.frame)
			out, _, status := inspect(capturing(capture.Ethernet, b), "-json", "-")
			require.Zero(t, status)
			got := lines(t, out)[0]
			for key, value := range c.want {
				require.Equal(t, value, got[key], key)
			}
			out, messages, _ := inspect(capturing(capture.Ethernet, b), "-all", "-")
			require.Contains(t, out, c.text)
			if c.name == "RoCEv1" {
				require.Contains(t, messages, "\n1 packet of RoCEv1 (EtherType 0x8915)")
			}
			out, _, _ = inspect(capturing(capture.Ethernet, b), "-all", "-link", "-")
			require.Contains(t, out, fmt.Sprintf("%s > %s", got["src_mac"], got["dst_mac"]))
		})
	}
}

// The flags name ports and the TPID that nothing in a frame identifies.
func TestEncapsulationFlags(t *testing.T) {
	write := wiretest.Hex(t, macsToB+`0800 450f016e 00004000 4011e505`+outerIP+
		`d9032119 015a0000 08000000 00006400`+macsToB+`0800`+wholeWrite(t)) // VXLAN on port 8473
	csig := wiretest.Hex(t, macsToB+`88b5 b4a5 0800`+acknowledge)
	fou := wiretest.Hex(t, macsToB+`0800 4500004c 00004000 4011e505`+outerIP+`c00115b3 00380000`+acknowledge)
	for _, c := range []struct {
		name, kind string
		frame      []byte
		flags      []string
	}{
		{"VXLAN", "data", write, []string{"-vxlan-port", "8473"}},
		{"VXLAN, two ports", "data", write, []string{"-vxlan-port", "9000", "-vxlan-port", "8473"}},
		{"CSIG", "ack", csig, []string{"-csig-tpid", "0x88b5"}},
		{"FOU", "ack", fou, []string{"-fou-port", "5555"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _, status := inspect(capturing(capture.Ethernet, c.frame), append(c.flags, "-json", "-")...)
			require.Zero(t, status)
			require.Equal(t, c.kind, lines(t, out)[0]["kind"])
			out, _, _ = inspect(capturing(capture.Ethernet, c.frame), "-json", "-")
			require.Equal(t, "other", lines(t, out)[0]["kind"])
		})
	}
	for _, flags := range [][]string{{"-vxlan-port", "0"}, {"-vxlan-port", "4791"}, {"-fou-port", "65536"},
		{"-csig-tpid", "0x10000"}, {"-csig-tpid", "x"}} {
		_, messages, status := inspect(nil, append(flags, "-")...)
		require.Equal(t, 2, status, flags)
		require.Contains(t, messages, flags[0])
	}
}

// The plugin agrees on packets that a device cut or a switch trimmed, plain and in tunnels and mirrors.
func TestWiresharkPluginAgreesOnCutFrames(t *testing.T) {
	whole := wiretest.Hex(t, wholeWrite(t))
	ack := wiretest.Hex(t, acknowledge)
	var frames []capture.Record
	add := func(around string, ip []byte) {
		b := append(wiretest.Hex(t, around), ip...)
		frames = append(frames, capture.Record{Data: b, OrigLen: uint32(len(b))})
	}
	for n := 28; n < 100; n += 3 {
		add(macsToB+`0800`, whole[:n])
		trimmed := bytes.Clone(whole[:n])
		binary.BigEndian.PutUint16(trimmed[2:], uint16(n))
		add(macsToB+`0800`, trimmed)
		add(macsToB+`0800 450f016e 00004000 4011e505`+outerIP+`d90312b5 015a0000 08000000 00006400`+macsToB+`0800`,
			whole[:n])
		mirror := fmt.Sprintf(`%s0800 4520%04x 00000000 042f0000 %s 100088be 00000001 10000000 00000000 %s0800`,
			macsToB, 20+8+8+14+n, outerIP, macsToB)
		add(mirror, whole[:n])
		if n < len(ack) {
			add(macsToB+`0800`, ack[:n])
		}
	}
	kinds := pluginAgrees(t, wiretest.File(t, "cut.pcapng", pcapngOf(frames)))
	require.NotZero(t, kinds["data"])
	require.NotZero(t, kinds["ack"])
}
