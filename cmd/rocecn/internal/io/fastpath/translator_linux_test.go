package fastpath

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// hops is a Hop-by-Hop header with a pre-allocated trace of node ids and queue depths: one hop and room for
// another.
const hops = "1103 0100 311a 0000 007b 1002 82000000 00000000 00000000 40000007 00000009"

const (
	xdpDrop uint32 = 1
	xdpPass uint32 = 2
)

// loadTranslator returns a translator that is not attached.
func loadTranslator(t *testing.T, c TranslatorConfig) *Translator {
	t.Helper()
	tr := new(Translator)
	require.NoError(t, tr.loadProgram(&c))
	t.Cleanup(func() { tr.Close() })
	require.NoError(t, tr.Accept(netip.PrefixFrom(self, 48)))
	return tr
}

// Random Fast CNPs with both options and any tags become the CNPs of cnp.AppendFor, octet for octet. Without the
// learned pair they are passed on.
func TestTranslatorIsAppendFor(t *testing.T) {
	for _, row := range []struct {
		name string
		c    TranslatorConfig
	}{
		{"default", TranslatorConfig{}},
		{"others", TranslatorConfig{
			CodePoints: fastcnp.CodePoints{Option1: 0x8E, Option2: 0x8F},
			CNP: cnp.Config{Carriage: rocev2.Carriage{
				DSCP: 46, ECN: 2, HopLimit: 9, FlowLabel: 7, SrcPort: 4444}},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			onNode(t)
			tr := loadTranslator(t, row.c)
			r := rand.New(rand.NewPCG(25, 5))
			want := Translated{}
			for i := range 2000 {
				qp, hostQP := r.Uint32N(1<<24), r.Uint32N(1<<24)
				var about rocev2.Packet
				about.Src, about.Dst = addresses[r.IntN(4)], addresses[r.IntN(4)]
				about.SrcPort, about.BTH.DestQP, about.BTH.PKey = uint16(r.Uint32()), qp, uint16(r.Uint32())
				if r.IntN(2) == 0 {
					about.NextHeader, about.Ext = ipv6opt.HopByHop, wiretest.Hex(t, hops)
				}
				ip, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{CodePoints: row.c.CodePoints})
				require.NoError(t, err)
				if i%8 == 0 { // P_Key 0, which no builder sends
					copy(ip[len(ip)-30:], []byte{0, 0})
					require.NoError(t, icrc.Write(ip, icrc.AsSent))
					about.BTH.PKey = 0
				}
				about.NextHeader, about.Ext = 17, nil
				expected := wiretest.Must(cnp.AppendFor(nil, &about, about.Dst, hostQP, row.c.CNP))(t)
				frame := ethernet(ip)
				switch r.IntN(4) {
				case 0:
					frame = append(append(bytes.Clone(frame[:12]), 0x81, 0, 0x60, 7), frame[12:]...)
				case 1:
					frame = append(append(bytes.Clone(frame[:12]), 0x88, 0xA8, 0, 9, 0x81, 0, 0x60, 7), frame[12:]...)
				}
				link := len(frame) - len(ip)

				pair := Pair{Host: about.Src, Receiver: about.Dst, ReceiverQP: qp}
				verdict, out := run(t, tr.objects.Translator, frame, nil)
				require.Equal(t, xdpPass, verdict)
				require.Equal(t, frame, out)
				want.UnknownQP++
				require.NoError(t, tr.Learn(pair, hostQP))
				padded := append(bytes.Clone(frame), make([]byte, r.IntN(3))...)
				verdict, out = run(t, tr.objects.Translator, padded, nil)
				require.Equal(t, xdpPass, verdict)
				require.Equal(t, append(bytes.Clone(frame[:link]), expected...), out, "%s %d: %x", row.name, i, frame)
				want.Translated++
				require.NoError(t, tr.Forget(pair))
			}
			require.Equal(t, want, tr.Counters())
		})
	}
}

// Each octet that the ICRC covers is checked, and no other one. The source is checked first.
func TestTranslatorRejects(t *testing.T) {
	onNode(t)
	tr := loadTranslator(t, TranslatorConfig{})
	for _, ext := range []string{"", hops} {
		var about rocev2.Packet
		about.Src, about.Dst, about.BTH.DestQP, about.BTH.PKey = sender, target, 0x123456, 0xFFFF
		about.NextHeader, about.Ext = 17, wiretest.Hex(t, ext)
		if ext != "" {
			about.NextHeader = ipv6opt.HopByHop
		}
		ip, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{})
		require.NoError(t, err)
		require.NoError(t, tr.Learn(Pair{Host: sender, Receiver: target, ReceiverQP: 0x123456}, 7))
		want := tr.Counters()
		counts := func(counter *uint64, ip []byte, what any) (out []byte) {
			verdict, out := run(t, tr.objects.Translator, ethernet(ip), nil)
			if counter != nil {
				*counter++
			}
			require.Equal(t, want, tr.Counters(), "%v", what)
			switch counter {
			case &want.Translated:
				require.Equal(t, xdpPass, verdict)
			case &want.Passed, &want.UnknownQP, nil:
				require.Equal(t, xdpPass, verdict)
				require.Equal(t, ethernet(ip), out)
			default:
				require.Equal(t, xdpDrop, verdict)
			}
			return out
		}
		udp := len(ip) - 40
		whole := counts(&want.Translated, ip, "whole")
		for at := range ip {
			changed := bytes.Clone(ip)
			changed[at] ^= 1
			counter := &want.ICRC
			switch {
			case at < 4, at == 7, at == udp+12: // masked
				require.Equal(t, whole, counts(&want.Translated, changed, at))
				continue
			case at == 4, at == 5, at == udp+4, at == udp+5, at == udp+6, at == udp+7: // lengths, checksum
				counter = &want.Passed
			case at == 6, at == 40, at == udp+2, at == udp+3, at == udp+8: // not a Fast CNP
				counter = nil
			case at >= 8 && at < 14: // the source's prefix
				counter = &want.Denied
			case at == 41:
				counter = nil // another place of UDP
			case at == 42 || at == 43, ext != "" && (at == 44 || at == 45):
				counter = &want.Passed // the option
			}
			counts(counter, changed, at)
		}
		for n := 46; n < len(ip); n++ {
			counts(nil, ip[:n], n)
		}

		changed := bytes.Clone(ip) // a PPFC; the ICRC does not cover its bit
		changed[udp+12] |= 0x20
		counts(&want.Passed, changed, "PPFC")
		changed[8] = 0xFF
		counts(&want.Denied, changed, "PPFC from elsewhere")

		changed = bytes.Clone(ip) // a flow to an address that no CNP can come from
		original := bytes.Index(changed[40:], target.AsSlice()) + 40
		copy(changed[original:], netip.IPv6Loopback().AsSlice())
		require.NoError(t, icrc.Write(changed, icrc.AsSent))
		counts(&want.UnknownQP, changed, "to ::1")
		require.NoError(t, tr.Learn(Pair{Host: sender, Receiver: netip.IPv6Loopback(), ReceiverQP: 0x123456}, 7))
		counts(&want.Address, changed, "to ::1")
		require.NoError(t, tr.Forget(Pair{Host: sender, Receiver: netip.IPv6Loopback(), ReceiverQP: 0x123456}))
	}
	require.ErrorIs(t, tr.Learn(Pair{Host: sender}, 7), errAddress)
	require.ErrorIs(t, tr.Accept(netip.Prefix{}), errPrefix)
}

// Fast CNPs for a host arrive as CNPs, with and without XDP in the host's driver.
func TestTranslatorInFrontOfAHost(t *testing.T) { testInFront(t, "1500") }

// The driver has no XDP for jumbo frames, like many others.
func TestTranslatorJumbo(t *testing.T) { testInFront(t, "9000") }

func testInFront(t *testing.T, mtu string) {
	t.Helper()
	node, host := wiretest.NewHost(t, "node"), wiretest.NewHost(t, "host")
	wiretest.Link(t, wiretest.End{Host: node, Device: "eth0", Addresses: []string{"2001:db8:1::1/64"}},
		wiretest.End{Host: host, Device: "eth0", Addresses: []string{sender.String() + "/64"}})
	for _, h := range []*wiretest.Host{node, host} {
		wiretest.AwaitLinks(t, h)
		h.Run(t, "", "ip", "link", "set", "eth0", "mtu", mtu)
	}
	tr := wiretest.Open(t, host, OpenTranslator, TranslatorConfig{Interfaces: []string{"eth0"}})
	in := wiretest.Open(t, host, netio.OpenPackets, netio.PacketConfig{Interface: "eth0", Direction: netio.In})
	require.NoError(t, tr.Accept(netip.PrefixFrom(self, 128)))
	raw := wiretest.Open(t, node, netio.OpenRaw, "")
	const n = 100
	var want [][]byte
	for qp := range uint32(n) {
		var about rocev2.Packet
		about.Src, about.Dst, about.BTH.DestQP, about.BTH.PKey = sender, target, qp, 0xFFFF
		ip, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{})
		require.NoError(t, err)
		packet := wiretest.Must(cnp.AppendFor(nil, &about, target, qp+1000, cnp.Config{}))(t)
		want = append(want, packet)
		require.NoError(t, tr.Learn(Pair{Host: sender, Receiver: target, ReceiverQP: qp}, qp+1000))
		require.NoError(t, raw.Send(ip))
	}
	require.NoError(t, raw.Flush())
	missing := n
	readPackets(t, in, func(p *rocev2.Packet) bool {
		at := binary.BigEndian.Uint32(p.Data[4:])&0xFFFFFF - 1000
		require.Equal(t, want[at], p.IP)
		want[at] = nil
		missing--
		return missing == 0
	})
	require.Equal(t, Translated{Translated: n}, tr.Counters())
	require.NoError(t, host.Try(func() error {
		later, err := OpenTranslator(TranslatorConfig{Interfaces: []string{"nowhere"}})
		if err == nil {
			err = later.Close()
		}
		return err
	}))
	err := host.Try(func() error {
		_, err := OpenTranslator(TranslatorConfig{Interfaces: []string{"eth0"}})
		return err
	})
	require.ErrorIs(t, err, ErrTaken)
	require.ErrorContains(t, err, "eth0: ")
	require.Equal(t, err.Error(), host.Try(func() error {
		return TryTranslator(TranslatorConfig{Interfaces: []string{"eth0"}})
	}).Error())
	host.Run(t, "", "ip", "tuntap", "add", "tun0", "mode", "tun")
	require.ErrorIs(t, host.Try(func() error {
		_, err := OpenTranslator(TranslatorConfig{Interfaces: []string{"tun0"}})
		return err
	}), errEthernet)
	require.ErrorIs(t, host.Try(func() error {
		return TryTranslator(TranslatorConfig{Interfaces: []string{"tun0"}})
	}), errEthernet)
	host.Do(t, forward)
	require.ErrorIs(t, host.Try(func() error {
		return TryAnswerer(AnswererConfig{Self: self, Ports: []Port{{Name: "tun0"}}})
	}), errEthernet)
	require.ErrorIs(t, host.Try(func() error {
		_, err := OpenAnswerer(AnswererConfig{Self: self, Ports: []Port{{Name: "tun0"}}})
		return err
	}), errEthernet)
	require.NoError(t, host.Try(func() error {
		return TryTranslator(TranslatorConfig{Interfaces: []string{"eth1", "eth7"}})
	}))
	_, err = OpenTranslator(TranslatorConfig{CNP: cnp.Config{Carriage: rocev2.Carriage{Checksum: true}}})
	require.ErrorIs(t, err, errChecksum)
}

// Options restrict translation to one host, accept the receiver of a flow as a source, drop Fast CNPs within a
// window, and drop those that cannot be translated.
func TestTranslatorChoices(t *testing.T) {
	onNode(t)
	fast := func(host, receiver, from netip.Addr) []byte {
		var about rocev2.Packet
		about.Src, about.Dst, about.BTH.DestQP, about.BTH.PKey = host, receiver, 0x123456, 0xFFFF
		ip, _, err := fastcnp.AppendFor(nil, &about, from, nil, fastcnp.Config{})
		require.NoError(t, err)
		return ethernet(ip)
	}
	tr := loadTranslator(t, TranslatorConfig{Host: sender, Receivers: true, Drop: true, Window: time.Hour})
	pair := Pair{Host: sender, Receiver: target, ReceiverQP: 0x123456}
	want := Translated{}
	shows := func(frame []byte, verdict uint32, counter *uint64) {
		t.Helper()
		if counter != nil {
			*counter++
		}
		got, _ := run(t, tr.objects.Translator, frame, nil)
		require.Equal(t, []any{verdict, want}, []any{got, tr.Counters()})
	}
	shows(fast(target, sender, self), xdpPass, nil)             // another host's
	shows(fast(target, sender, target), xdpPass, nil)           // likewise, from a source that is not accepted
	shows(fast(sender, target, self), xdpDrop, &want.UnknownQP) // of a switch
	shows(fast(sender, target, target), xdpDrop, &want.UnknownQP)
	require.NoError(t, tr.Learn(pair, 7))
	shows(fast(sender, target, target), xdpPass, &want.Translated) // of the receiver
	shows(fast(sender, target, self), xdpDrop, &want.Again)
	require.NoError(t, tr.Learn(pair, 8))
	shows(fast(sender, target, self), xdpPass, &want.Translated)
	stranger := netip.MustParseAddr("2001:db8:4::f")
	shows(fast(sender, target, stranger), xdpDrop, &want.Denied)
	broken := fast(sender, target, stranger)
	broken[14+42] ^= 1 // the option type
	shows(broken, xdpDrop, &want.Denied)
	broken = fast(sender, target, self)
	broken[14+42] ^= 1
	shows(broken, xdpDrop, &want.Passed)

	tr = loadTranslator(t, TranslatorConfig{Window: time.Nanosecond})
	want = Translated{}
	require.NoError(t, tr.Learn(pair, 7))
	shows(fast(sender, target, target), xdpDrop, &want.Denied)
	shows(fast(sender, target, self), xdpPass, &want.Translated)
	shows(fast(sender, target, self), xdpPass, &want.Translated)
	require.ErrorIs(t, TryTranslator(TranslatorConfig{Host: netip.MustParseAddr("192.0.2.1")}), errAddress)
}
