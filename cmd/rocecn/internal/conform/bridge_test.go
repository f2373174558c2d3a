package conform

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bridgePorts are the ports of a tester between a host in VLAN 7 and its receivers, which use no VLAN.
const bridgePorts = `
[[port]]
interface = "t0"
side = "sender"
address = "2001:db8:c::9"
vlan = 7
[[port]]
interface = "t1"
side = "receiver"
`

// Ports in a VLAN send and receive frames with its tag only: each case has the same verdict as without VLANs, with a
// device that also sends each frame without a tag, in another VLAN, and with two tags.
func TestVLAN(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			profile := strings.ReplaceAll(s.profile, "[[port]]\n", "[[port]]\nvlan = 7\n")
			results := inMemory(t, profile, s.model(t, s.config), &fault{
				in: func(_ *memoryRig, _ int, frame []byte) []byte {
					require.Equal(t, []byte{0x81, 0, 0, 7}, frame[12:16])
					return slices.Delete(frame, 12, 16)
				},
				out: func(_ *memoryRig, port int, frame []byte) (all []arrival) {
					for _, tags := range [][]uint16{{}, {8}, {8, 7}, {7}} {
						f := slices.Clone(frame)
						for _, vlan := range tags {
							f = slices.Insert(f, 12, binary.BigEndian.AppendUint16([]byte{0x81, 0}, vlan)...)
						}
						all = append(all, arrival{port: port, frame: f})
					}
					return all
				},
			})
			notPassed(t, results, s.inapt)
		})
	}
}

// A tester that is a bridge forwards each frame of both sides once, unchanged except for its VLAN, and its cases have
// the same verdicts as beside the receiver.
func TestBridge(t *testing.T) {
	for _, name := range []string{"sender", "pause"} {
		t.Run(name, func(t *testing.T) {
			s := subjectOf(name)
			m := s.model(t, s.config).(*hostModel)
			b := &bridged{hostModel: m}
			arp := slices.Concat([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 2, 0, 0x81, 0, 0, 7},
				[]byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 20))
			asked := false
			profile := strings.Replace(s.profile, hostPort, bridgePorts, 1)
			results := inMemory(t, profile, b, &fault{out: func(r *memoryRig, port int, frame []byte) []arrival {
				if port == 1 {
					return []arrival{{port: 1, frame: frame}}
				}
				frame = slices.Insert(slices.Clone(frame), 12, 0x81, 0, 0, 7)
				b.sent = append(b.sent, frame)
				all := []arrival{{port: 0, frame: frame}}
				if !asked {
					asked = true
					b.sent = append(b.sent, arp)
					all = append(all, arrival{port: 0, frame: arp})
				}
				return all
			}})
			notPassed(t, results, s.inapt)
			require.Greater(t, len(b.sent), 1000)
			require.Equal(t, b.answered, b.answers)
			missing := 0 // in flight when a case or the run ends
			for i, frame := range b.sent {
				want := slices.Delete(slices.Clone(frame), 12, 16)
				if len(b.crossed) > 0 && bytes.Equal(b.crossed[0], want) {
					b.crossed = b.crossed[1:]
				} else {
					missing++
					require.Greater(t, i, 0)
				}
			}
			require.Empty(t, b.crossed)
			require.Less(t, missing, 10)
		})
	}
}

// The tag of another VLAN has the priority of the frame.
func TestReplaceTag(t *testing.T) {
	addresses := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	plain := slices.Concat(addresses, []byte{0x86, 0xDD, 0x60})
	tagged := func(a, b byte) []byte { return slices.Concat(addresses, []byte{0x81, 0, a, b, 0x86, 0xDD, 0x60}) }
	for _, c := range []struct {
		name     string
		frame    []byte
		from, to uint16
		want     []byte
	}{
		{"same VLAN", tagged(0xB0, 7), 7, 7, tagged(0xB0, 7)},
		{"another VLAN", tagged(0xB0, 7), 7, 0x123, tagged(0xB1, 0x23)},
		{"no longer in a VLAN", tagged(0xB0, 7), 7, 0, plain},
		{"now in a VLAN", plain, 0, 0x123, tagged(1, 0x23)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, replaceTag(c.frame, c.from, c.to))
		})
	}
}

// bridged is a host with a receiver at the other port of the tester, which answers each frame of data.
type bridged struct {
	*hostModel
	sent, crossed     [][]byte // frames of the host, and those at the receiver
	answers, answered int      // frames of the receiver, and those at the host
}

func (b *bridged) receive(r *memoryRig, port int, frame []byte) {
	if port == 1 {
		b.crossed = append(b.crossed, slices.Clone(frame))
		if p, _ := readFrame(frame, nil); p != nil && p.kind(&points) == kindData {
			b.answers++
			f := flow{src: p.dst, dst: p.src, opcode: 0x11, destQP: 34, headers: []byte{0x1F, 0, 0, 1}, psn: p.psn()}
			r.emit(1, appendEthernet(nil, deviceMAC(0), mac{2, 0, 0, 0, 9, 9}, 0, f.appendIP(nil)), 0)
		}
		return
	}
	if p, vlans := readFrame(frame, nil); vlans == 1 {
		if p.kind(&points) == kindAck {
			b.answered++
		}
		frame = slices.Delete(slices.Clone(frame), 12, 16)
		b.hostModel.receive(r, port, frame)
	}
}
