//go:build linux

package bgptest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The network of the trial. A router reports its routes to the agent by BMP. It learns those of origin directly, and
// those of another origin from BIRD, in its own AS.
//
//	origin AS 65001 ── 10.1.0.0/24 ── router AS 65002 ── BMP ── agent
//	                                     │
//	other AS 65003 ── 10.4.0.0/24 ── BIRD AS 65002 (10.5.0.0/24)
const (
	otherAS                                  = 65003
	otherAddr, birdToOther                   = "10.4.0.1", "10.4.0.2"
	birdToRouter, routerToBird               = "10.5.0.1", "10.5.0.2"
	otherAddr6, birdToOther6                 = "2001:db8:d::1", "2001:db8:d::2"
	station                                  = "11019"
	sender, senderNet                        = "fd77::2", "fd77::/64"
	proxyOfNet, proxyOfSender, proxyAfterAll = "2001:db8:ffff::11", "2001:db8:ffff::22", "2001:db8:ffff::33"
	listedProxy                              = "2001:db8:ffff::99"
	moveTime                                 = holdTime / 2     // less, as a withdrawn route must not be held
	holdTime                                 = 10 * time.Second // routing_hold, longer than a router takes to reconnect
)

func TestBMPFromFRR(t *testing.T) {
	home, router := wiretest.Home(t), wiretest.NewHost(t, "router")
	wiretest.Link(t,
		wiretest.End{Host: home, Device: "origin", Addresses: []string{originAddr + "/24", originAddr6 + "/64"}},
		wiretest.End{Host: router, Device: "origin",
			Addresses: []string{transitToOrigin + "/24", transitToOrigin6 + "/64"}})
	n := newTrial(t, home, router)
	frr := wiretest.StartFRR(t, router, wiretest.Daemon{Name: "bgpd", Args: []string{"-M", "bmp"},
		Config: fmt.Sprintf(`router bgp %d
 bgp router-id %s
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor %s remote-as %d
 neighbor %[3]s passive
 neighbor %[5]s remote-as %[1]d
 neighbor %[5]s passive
 bmp targets agent
  bmp monitor ipv4 unicast pre-policy
  bmp monitor ipv6 unicast pre-policy
  bmp connect %[6]s port %s min-retry 100 max-retry 200
 exit
 address-family ipv6 unicast
  neighbor %[3]s activate
  neighbor %[3]s soft-reconfiguration inbound
  neighbor %[5]s activate
  neighbor %[5]s soft-reconfiguration inbound
 exit-address-family
`, transitAS, transitToOrigin, originAddr, originAS, birdToRouter, originAddr, station)})
	n.testMoves(t)
	n.testReconnection(t, func() {
		configure := func(command string) {
			frr.Output(t, fmt.Sprintf("configure terminal\nrouter bgp %d\nbmp targets agent\n%s", transitAS, command))
		}
		connect := "bmp connect " + originAddr + " port " + station + " min-retry 100 max-retry 200"
		configure("no " + connect)
		configure(connect)
	})
	n.testLoss(t, func() { frr.Kill(t, "bgpd") })
}

func TestBMPFromGoBGP(t *testing.T) {
	home := wiretest.Home(t)
	for _, a := range []string{originAddr + "/32", transitToOrigin + "/32", originAddr6 + "/128"} {
		home.Run(t, "", "ip", "addr", "add", a, "dev", "lo")
		t.Cleanup(func() { home.Run(t, "", "ip", "addr", "del", a, "dev", "lo") })
	}
	n := newTrial(t, home, home)
	router := newSpeaker(t, transitAS, transitToOrigin, transitToOrigin, routerToBird)
	router.neighbour(t, transitToOrigin, originAddr, originAS, true)
	router.neighbour(t, routerToBird, birdToRouter, transitAS, true)
	connect := func() {
		require.NoError(t, router.bgp.AddBmp(context.Background(), &api.AddBmpRequest{Address: "127.0.0.1",
			Port: 11019, Policy: api.AddBmpRequest_MONITORING_POLICY_LOCAL}))
	}
	disconnect := func() {
		require.NoError(t, router.bgp.DeleteBmp(context.Background(), &api.DeleteBmpRequest{Address: "127.0.0.1",
			Port: 11019}))
	}
	connect()
	n.testMoves(t)
	n.testReconnection(t, func() {
		disconnect()
		connect()
	})
	n.testLoss(t, disconnect)
}

// A trial is an agent that notifies the proxies of a sender, with the routers around it.
type trial struct {
	origin, other *speaker
	agent         *agent
}

// newTrial starts all except the router that reports to the agent.
func newTrial(t *testing.T, home, router *wiretest.Host) *trial {
	bird := wiretest.NewHost(t, "bird")
	wiretest.Link(t,
		wiretest.End{Host: home, Device: "other", Addresses: []string{otherAddr + "/24", otherAddr6 + "/64"}},
		wiretest.End{Host: bird, Device: "other", Addresses: []string{birdToOther + "/24", birdToOther6 + "/64"}})
	wiretest.Link(t,
		wiretest.End{Host: router, Device: "bird", Addresses: []string{routerToBird + "/24"}},
		wiretest.End{Host: bird, Device: "router", Addresses: []string{birdToRouter + "/24"}})
	wiretest.StartBIRD(t, bird, fmt.Sprintf(`router id %s;
protocol device {}
protocol bgp toOther { local %[1]s as %d; neighbor %s as %d; passive; ipv4 { import all; export none; };
	ipv6 { import all; export none; }; }
protocol bgp toRouter { local %[5]s as %[2]d; neighbor %[6]s as %[2]d; direct;
	connect delay time 1; connect retry time 1; error wait time 1, 1; ipv4 { import none; export all; };
	ipv6 { import none; export all; }; }
`, birdToOther, transitAS, otherAddr, otherAS, birdToRouter, routerToBird))
	n := &trial{newSpeaker(t, originAS, originAddr), newSpeaker(t, otherAS, otherAddr), startAgent(t, home)}
	n.origin.neighbour(t, originAddr, transitToOrigin, transitAS, false)
	n.other.neighbour(t, otherAddr, birdToOther, transitAS, false)
	return n
}

// testMoves moves the sender's route.
func (n *trial) testMoves(t *testing.T) {
	n.agent.await(t, "no routes yet: the list", listedProxy, 10*time.Second)
	n.origin.announce(t, senderNet, originAddr6, attribute(t, originAddr6, proxyOfNet))
	n.agent.await(t, "the first route, when all sessions are up", proxyOfNet, wiretest.Timeout)

	// The first route through BIRD may wait for its sessions. The prefix is not the sender's.
	n.other.announce(t, "fd78::/64", otherAddr6, attribute(t, otherAddr6, proxyAfterAll))
	n.agent.awaitTable(t, 2)

	for _, c := range []struct {
		event string
		cause func()
		proxy string
	}{
		{"a longer prefix through BIRD", func() {
			n.other.announce(t, sender+"/128", otherAddr6, attribute(t, otherAddr6, proxyOfSender))
		}, proxyOfSender},
		{"it is withdrawn", func() { n.other.withdraw(t, sender+"/128") }, proxyOfNet},
		{"another proxy for the same prefix", func() {
			n.origin.announce(t, senderNet, originAddr6, attribute(t, originAddr6, proxyAfterAll))
		}, proxyAfterAll},
		{"the route without a proxy", func() { n.origin.announce(t, senderNet, originAddr6, nil) }, listedProxy},
		{"with a proxy again", func() {
			n.origin.announce(t, senderNet, originAddr6, attribute(t, originAddr6, proxyOfNet))
		}, proxyOfNet},
	} {
		c.cause()
		n.agent.await(t, c.event, c.proxy, moveTime)
	}
}

// testReconnection ends the session and begins another: the proxy is known all the time, and after holdTime from the
// new session.
func (n *trial) testReconnection(t *testing.T, reconnect func()) {
	sessions := n.agent.listSessions()
	reconnect()
	wiretest.Await(t, "the router connects again", func() bool {
		again := n.agent.listSessions()
		return again != "" && again != sessions
	})
	end := time.Now().Add(holdTime + time.Second)
	for time.Now().Before(end) {
		n.agent.await(t, "", proxyOfNet, time.Millisecond)
		time.Sleep(10 * time.Millisecond)
	}
	n.agent.awaitTable(t, 2)
}

// testLoss ends the session: the proxy is kept for holdTime.
func (n *trial) testLoss(t *testing.T, lose func()) {
	began := time.Now()
	lose()
	n.agent.await(t, "the session is lost", listedProxy, holdTime+wiretest.Timeout)
	require.GreaterOrEqual(t, time.Since(began), holdTime)
}

// attribute returns the attribute that names a proxy of IPv6 routes.
func attribute(t *testing.T, nextHop, proxy string) []byte {
	return wiretest.Must(codes.AppendNHC(nil, pnc.NextHop{AFI: 2, SAFI: 1, Addr: netip.MustParseAddr(nextHop)},
		netip.MustParseAddr(proxy), others...))(t)
}

// An agent is `rocecn run` as a switch. Congested packets of the sender come all the time.
type agent struct {
	mu       sync.Mutex
	notified netip.Addr // destination of the latest notification
}

const agentConfig = `
[agent]
http = "127.0.0.1:9479"

[source.queue]
type = "packet"
interfaces = ["queue"]
direction = "in"

[source.routers]
type = "bmp"
listen = ":%s"
accept = ["10.0.0.0/8", "127.0.0.0/8"]

[sink.net]
type = "packet"
interface = "queue"
neighbour = "%s"

[role.switch]
enabled = true
sources = ["queue"]
observe = ["routers"]
sink = "net"
self = ["2001:db8:ffff::5"]
methods = [{ senders = "::/0", method = "proxy" }]
proxies_from = "routing"
routing_hold = "%v"
pnc_code = %d
proxies = [{ senders = "::/0", proxy = "%s" }]
marking = "elsewhere"
limits = "none"
`

// startAgent builds the program and starts the agent on a host.
func startAgent(t *testing.T, h *wiretest.Host) *agent {
	program, config := filepath.Join(t.TempDir(), "rocecn"), filepath.Join(t.TempDir(), "agent.toml")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/rocecn")
	build.Dir = "../.."
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	fabric := wiretest.NewHost(t, "fabric")
	wiretest.Link(t, wiretest.End{Host: h, Device: "queue"}, wiretest.End{Host: fabric, Device: "fabric"})
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, agentConfig, station, linkAddress(t, fabric, "fabric"),
		holdTime, codes.NHC, listedProxy), 0o600))
	h.Start(t, program, "run", "-config", config)

	a := &agent{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	queue := linkAddress(t, h, "queue")
	var in netio.Source
	var out netio.Sink
	fabric.Do(t, func() (err error) {
		if in, err = netio.OpenPackets(netio.PacketConfig{Interface: "fabric", Direction: netio.In}); err != nil {
			return err
		}
		out, err = netio.OpenPort("fabric", queue)
		return err
	})
	running.Go(func() {
		defer in.Close()
		_ = netio.Run(ctx, nil, func(_ []byte, _ int, p *netio.Packet) []byte {
			if len(p.Data) > 54 && p.Data[12] == 0x86 && p.Data[13] == 0xDD && p.Data[20] == 17 { // UDP over IPv6
				a.mu.Lock()
				a.notified = netip.AddrFrom16([16]byte(p.Data[38:54]))
				a.mu.Unlock()
			}
			return nil
		}, in)
	})
	packet := congestedPacket(t)
	running.Go(func() {
		defer out.Close()
		for ctx.Err() == nil {
			_ = out.Send(packet)
			_ = out.Flush()
			time.Sleep(2 * time.Millisecond)
		}
	})
	return a
}

// linkAddress returns the MAC address of a device.
func linkAddress(t *testing.T, h *wiretest.Host, device string) (address net.HardwareAddr) {
	h.Do(t, func() error {
		i, err := net.InterfaceByName(device)
		if err == nil {
			address = i.HardwareAddr
		}
		return err
	})
	return address
}

// congestedPacket returns a packet with data of the sender.
func congestedPacket(t *testing.T) []byte {
	var p rocev2.Packet
	for _, c := range wiretest.Capture(t, "rxe-verbs6.pcap") {
		if p.DecodeEthernet(c.Data) == nil && p.BTH.Opcode.Operation() == bth.OpSendOnly &&
			p.Src == netip.MustParseAddr(sender) {
			return c.Data[14:]
		}
	}
	t.Fatal("rxe-verbs6 has no data of " + sender)
	return nil
}

// await waits until the latest notification went to a proxy, at most for a time.
func (a *agent) await(t *testing.T, event, proxy string, limit time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		a.mu.Lock()
		notified := a.notified
		a.mu.Unlock()
		took := time.Since(began)
		if notified == netip.MustParseAddr(proxy) {
			if event == "" {
				return
			}
			t.Logf("%v after %s: %s", took.Round(time.Millisecond), event, proxy)
			return
		}
		require.Less(t, took, limit, "%s: notifications go to %v, want %s", event, notified, proxy)
		time.Sleep(time.Millisecond)
	}
}

// awaitTable waits until the agent has a number of advertisements, none of a lost session.
func (a *agent) awaitTable(t *testing.T, n int) {
	wiretest.Await(t, fmt.Sprintf("the agent has %d advertisements", n), func() bool {
		r := a.fetchRouting()
		return r.Proxies == n && r.Held == 0
	})
}

// routing is a part of the agent's status.
type routing struct {
	Proxies, Held int
	Routers       []struct{ Since string }
}

// fetchRouting returns the state of the source of type bmp, or the zero value if there is none yet.
func (a *agent) fetchRouting() (r routing) {
	answer, err := http.Get("http://127.0.0.1:9479/status")
	if err != nil {
		return r
	}
	defer answer.Body.Close()
	var status struct{ Routing []routing }
	if json.NewDecoder(answer.Body).Decode(&status) == nil && len(status.Routing) == 1 {
		r = status.Routing[0]
	}
	return r
}

// listSessions returns the times at which the connected routers have connected.
func (a *agent) listSessions() (since string) {
	for _, r := range a.fetchRouting().Routers {
		since += r.Since
	}
	return since
}
