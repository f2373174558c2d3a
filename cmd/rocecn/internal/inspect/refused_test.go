package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// mad is the offset of the MAD in an untagged frame over IPv6: after Ethernet, IP, UDP, BTH and DETH. The CM message
// follows its 24 octets.
const mad = 14 + 40 + 8 + 12 + 8

// exchanged returns the frame of rxe-rping6.pcap with the REQ, with another
// attribute and some other octets of the message.
func exchanged(t *testing.T, attribute uint16, octets map[int]byte) []byte {
	t.Helper()
	for _, p := range wiretest.Capture(t, "rxe-rping6.pcap") {
		if len(p.Data) < mad+256 || binary.BigEndian.Uint16(p.Data[mad+16:]) != 0x10 || p.Data[mad+1] != 7 {
			continue
		}
		frame := bytes.Clone(p.Data)
		binary.BigEndian.PutUint16(frame[mad+16:], attribute)
		for at, octet := range octets {
			frame[mad+24+at] = octet
		}
		return frame
	}
	t.Fatal("no REQ")
	return nil
}

// Messages that the captures do not contain: rejected and delayed connections, and REQs of other transports. The
// communication IDs are the first two words of each message, the reason is octets 10 and 11. The transport of a REQ is
// in octet 43 and, extended, in octet 51.
func TestRefusedConnections(t *testing.T) {
	ids := map[int]byte{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 10: 0, 11: 8}
	req := exchanged(t, 0x10, nil)
	low, extended := req[mad+24+43], req[mad+24+51]
	for _, c := range []struct {
		name  string
		frame []byte
		json  string
		human string
	}{
		{"MRA", exchanged(t, 0x11, ids), `{"message":"MRA","local_comm_id":"0x01020304","remote_comm_id":"0x05060708"}`,
			"CM MRA"},
		{"REJ", exchanged(t, 0x12, ids),
			`{"message":"REJ","local_comm_id":"0x01020304","remote_comm_id":"0x05060708","reason":8,` +
				`"reason_name":"invalid service id"}`,
			"CM REJ"},
		{"of no number that is known", exchanged(t, 0x1F, nil), "", "CM "},
		{"REQ of RC", req, `{"transport":"RC"}`, "RC"},
		{"REQ of UC", exchanged(t, 0x10, map[int]byte{43: low&^6 | 2}), `{"transport":"UC"}`, "UC"},
		{"REQ of RD", exchanged(t, 0x10, map[int]byte{43: low&^6 | 4}), `{"transport":"RD"}`, "RD"},
		{"REQ of XRC", exchanged(t, 0x10, map[int]byte{43: low | 6, 51: extended&^7 | 1}), `{"transport":"XRC"}`,
			"XRC"},
		{"REQ of another one", exchanged(t, 0x10, map[int]byte{43: low | 6, 51: extended&^7 | 2}),
			`{"transport":"extended"}`, "extended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := write(t, "cm.pcapng", pcapngOf([]capture.Record{{Data: c.frame, OrigLen: uint32(len(c.frame))}}))
			out, _, status := inspect(nil, "-json", file)
			require.Zero(t, status)
			var line struct {
				CM map[string]any `json:"cm"`
			}
			require.NoError(t, json.Unmarshal([]byte(out), &line), out)
			if c.json != "" {
				var want map[string]any
				require.NoError(t, json.Unmarshal([]byte(c.json), &want))
				for key, value := range want {
					require.Equal(t, value, line.CM[key], "%s: %s", c.name, out)
				}
			}
			out, _, _ = inspect(nil, file)
			require.Contains(t, out, c.human, c.name)
		})
	}
}
