package neighbour

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A rig is a host that sends, with the fate of its packets.
type rig struct {
	*testing.T
	*Watch
	a, b *wiretest.Host
	out  netio.Sink
	fate Fate
}

// newRig returns hosts a and b with a cable. Only a has addresses.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, a: wiretest.NewHost(t, "a"), b: wiretest.NewHost(t, "b")}
	wiretest.Link(t, wiretest.End{Host: r.a, Device: "eth0", Addresses: []string{"192.0.2.1/24", "2001:db8:1::a/64"}},
		wiretest.End{Host: r.b, Device: "eth0"})
	wiretest.AwaitLinks(t, r.a, r.b)
	r.out = wiretest.Open(t, r.a, netio.OpenRaw, "")
	r.set("retrans_time_ms", "200")
	r.a.Do(t, func() (err error) {
		r.Watch, err = Open(0)
		return err
	})
	t.Cleanup(func() { r.Watch.Close() })
	return r
}

// set sets a parameter of a's neighbours. An address counts as unresolved after mcast_solicit requests, one in
// retrans_time_ms.
func (r *rig) set(parameter, value string) {
	r.Helper()
	r.a.Do(r.T, func() error {
		v4, v6 := "/proc/sys/net/ipv4/neigh/eth0/"+parameter, "/proc/sys/net/ipv6/neigh/eth0/"+parameter
		return errors.Join(os.WriteFile(v4, []byte(value), 0), os.WriteFile(v6, []byte(value), 0))
	})
}

// sends sends n packets, and returns the number of them that may have to wait.
func (r *rig) sends(n int, to string) (waiting int) {
	r.Helper()
	d := rocev2.Datagram{Src: ip("2001:db8:77::"), Dst: ip(to), SrcPort: 1, DstPort: 9, HopLimit: 64, Flags: 2}
	if d.Dst.Is4() {
		d.Src = ip("192.0.2.77")
	}
	b, err := d.AppendBinary(nil)
	require.NoError(r, err)
	for range n {
		require.NoError(r, r.out.Send(b))
		require.NoError(r, r.out.Flush())
		if r.RecordSent(d.Dst, packets(1)) {
			waiting++
		}
	}
	return waiting
}

// packets returns the amount of n packets of 60 octets.
func packets(n uint64) Amount { return Amount{n, 60 * n} }

// becomes waits until exactly these numbers of packets were sent and lost.
func (r *rig) becomes(sent, lost uint64) {
	r.Helper()
	wiretest.Await(r, "the fate of packets", func() bool {
		f, _, err := r.Poll(time.Now())
		require.NoError(r, err)
		r.fate.Sent, r.fate.Lost = r.fate.Sent.Add(f.Sent), r.fate.Lost.Add(f.Lost)
		return r.fate.Sent.Packets+r.fate.Lost.Packets >= sent+lost
	})
	require.Equal(r, Fate{packets(sent), packets(lost)}, r.fate)
	r.fate = Fate{}
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// Packets to an address without a host are lost. Once a host has the address, packets leave, and those that waited
// are not lost.
func TestUnresolved(t *testing.T) {
	for _, c := range []struct{ name, unresolved, address string }{
		{"IPv4", "192.0.2.2", "192.0.2.2/24"},
		{"IPv6", "2001:db8:1::b", "2001:db8:1::b/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			require.Equal(t, 5, r.sends(5, c.unresolved))
			r.becomes(0, 5)
			require.Equal(t, 3, r.sends(3, c.unresolved)) // the kernel tries again
			r.becomes(0, 3)
			r.set("mcast_solicit", "100") // long enough for the program ip on a busy machine
			require.Equal(t, 2, r.sends(2, c.unresolved))
			r.b.Run(t, "", "ip", "addr", "add", c.address, "dev", "eth0")
			r.becomes(2, 0)
			require.Zero(t, r.sends(7, c.unresolved)) // it is known now
			wiretest.NoAllocs(t, "RecordSent", func() {
				r.RecordSent(ip(c.unresolved), packets(1))
				r.RecordUnsent(ip(c.unresolved), packets(1))
			})
			r.becomes(0, 0)

			// Losing its address removes the route by that address.
			other := map[string]string{"IPv4": "198.51.100.1", "IPv6": "2001:db8:2::1"}[c.name]
			r.a.Run(t, "", "ip", "route", "add", other, "via", c.unresolved)
			wiretest.Await(t, "the route", func() bool {
				_, rerouted, err := r.Poll(time.Now())
				require.NoError(t, err)
				return rerouted
			})
			require.Equal(t, 4, r.sends(4, other)) // waiting until the route is known
			r.becomes(4, 0)
			require.Zero(t, r.sends(1, other))
			r.b.Run(t, "", "ip", "addr", "del", c.address, "dev", "eth0")
			r.a.Run(t, "", "ip", "neigh", "del", c.unresolved, "dev", "eth0")
			wiretest.Await(t, "the kernel has reported", func() bool {
				_, _, err := r.Poll(time.Now())
				require.NoError(t, err)
				return !r.destinations[ip(other)].known
			})
			r.set("mcast_solicit", "3")
			require.Equal(t, 6, r.sends(6, other))
			r.becomes(0, 6)

			// The interface goes down while packets wait.
			r.set("mcast_solicit", "100")
			require.Equal(t, 2, r.sends(2, c.unresolved))
			_, _, err := r.Poll(time.Now())
			require.NoError(t, err)
			r.a.Run(t, "", "ip", "link", "set", "eth0", "down")
			r.becomes(0, 2)
		})
	}
}

// Packets that need no neighbour do not wait: to this host, by a device without hardware addresses, by a tunnel,
// to an unreachable destination, or rejected by the kernel.
func TestPacketsWithoutNeighbour(t *testing.T) {
	r := newRig(t)
	r.a.Run(t, "", "ip", "link", "set", "lo", "up")
	r.a.Run(t, "", "ip", "tuntap", "add", "tun0", "mode", "tun")
	r.a.Run(t, "", "ip", "link", "set", "tun0", "up")
	r.a.Run(t, "", "ip", "route", "add", "2001:db8:3::/64", "dev", "tun0")
	r.a.Run(t, "", "ip", "route", "add", "198.51.100.0/24", "dev", "tun0")
	r.a.Run(t, "", "ip", "route", "add", "2001:db8:4::/64", "encap", "seg6", "mode", "encap", "segs", "2001:db8:1::b",
		"dev", "eth0")
	for _, to := range []string{"2001:db8:1::a", "2001:db8:3::1", "198.51.100.1", "2001:db8:4::1"} {
		if to == "2001:db8:3::1" || to == "198.51.100.1" { // without a reader the kernel rejects it
			require.True(t, r.RecordSent(ip(to), packets(1)))
		} else {
			require.Equal(t, 1, r.sends(1, to))
		}
		r.becomes(1, 0)
		require.False(t, r.RecordSent(ip(to), packets(1)), to)
	}
	require.True(t, r.RecordSent(ip("2001:db8:5::1"), packets(1)))
	require.True(t, r.RecordSent(ip("2001:db8:5::1"), packets(1)))
	require.True(t, r.RecordUnsent(ip("2001:db8:5::1"), packets(1)))
	r.becomes(1, 0)
	require.False(t, r.RecordUnsent(ip("2001:db8:5::1"), packets(1)))
	require.False(t, r.RecordUnsent(ip("2001:db8:5::2"), packets(1)))
}

// A neighbour entry that has expired before the query, as happens when there are too many, counts as not found.
// Packets that the kernel rejected cause no query.
func TestLetGo(t *testing.T) {
	r := newRig(t)
	for _, to := range []string{"192.0.2.9", "2001:db8:1::9"} {
		require.True(t, r.RecordSent(ip(to), packets(1)))
		refused := ip("2001:db8:1::1000")
		for range 3 * maxRequests {
			require.True(t, r.RecordSent(refused, packets(1)))
			require.True(t, r.RecordUnsent(refused, packets(1)))
			refused = refused.Next()
		}
		f, _, err := r.Poll(time.Now())
		require.NoError(t, err)
		require.Equal(t, Fate{Lost: packets(1)}, f)
		require.Len(t, r.destinations, 1, "only the sent ones")
		r.forgetRoutes()
	}
	require.True(t, r.RecordSent(ip("2001:db8:1::1000"), packets(1)))
	r.becomes(0, 1)
}

// Packets beyond the maximum of destinations count as sent until the next Poll.
func TestMaximum(t *testing.T) {
	r := newRig(t)
	a := ip("2001:db8:9::")
	for range maxDestinations {
		require.True(t, r.RecordSent(a, packets(1)))
		a = a.Next()
	}
	require.False(t, r.RecordSent(a, packets(1)))
	r.becomes(maxDestinations, 0) // there is no route to them, so nothing waits
	require.Less(t, len(r.destinations), maxDestinations)
	require.True(t, r.RecordSent(a, packets(1)))
	require.False(t, r.RecordSent(netip.MustParseAddr("2001:db8:9::"), packets(1)))
}

// Any octets are decoded to their end.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0, 2, 0, 0, 0, 0x20, 0, 0, 1, 8, 0, 1, 0, 192, 0, 2, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, _, ok := decodeNeighbour(b); ok {
			require.True(t, h.address.IsValid())
		}
	})
}
