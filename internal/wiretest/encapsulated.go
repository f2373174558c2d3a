package wiretest

import (
	"fmt"
	"strings"
	"testing"
)

// An Encapsulated is a Fast CNP in an encapsulation, as an IP packet. Border, All and Rules report whether it is
// dropped by a border that looks into tunnels, by one that drops all tunnels that it cannot look into, and by rules and
// programs of the kernel; with TunnelPorts 5555.
type Encapsulated struct {
	Name               string
	IP                 []byte
	Border, All, Rules bool
}

// EncapsulatedFastCNPs returns a Fast CNP in each of 24 encapsulations. The headers are those of the documents that
// define the encapsulations.
func EncapsulatedFastCNPs(t testing.TB) (all []Encapsulated) {
	const (
		macs = `020000000002 020000000001`
		// Destination Options with option 1, UDP to 4791, a CNP
		payload = `11029e10 20010db8000400000000000000000014 01020000` +
			`c00012b700280000 8100ffff4000001100000000` + `00000000000000000000000000000000 00000000`
	)
	length := func(octets string) string {
		return fmt.Sprintf("%04x", len(strings.Join(strings.Fields(octets), ""))/2)
	}
	v6 := func(next, payload string) string {
		return `60000000` + length(payload) + next +
			`40 20010db8000000000000000000000001 20010db8000000000000000000000002` + payload
	}
	protocol := func(p, payload string) string {
		return `4500` + length(strings.Repeat(`00`, 20)+payload) + `0001 0000 40` + p + `0000 c0000201 c0000202` +
			payload
	}
	udp := func(port, payload string) string {
		return protocol(`11`, `c000`+port+length(payload+`0000000000000000`)+`0000`+payload)
	}
	fastCNP := v6(`3c`, payload)
	ethernet := macs + `86dd` + fastCNP
	v6in := func(depth int) string {
		p := fastCNP
		for range depth {
			p = v6(`29`, p)
		}
		return p
	}
	fragment := v6(`2c`, `32000001 0000002a`+`00000001 00000001`+payload) // the first, of ESP
	for _, c := range []struct {
		name, packet       string
		border, all, rules bool
	}{
		{"plain", fastCNP, true, true, true},
		{"6in4", protocol(`29`, fastCNP), true, true, true},
		{"IP in IP twice", v6in(2), true, true, true},
		{"five IPv6 headers deep", v6in(5), false, true, true},
		{"GRE", protocol(`2f`, `000086dd`+fastCNP), true, true, true},
		{"GRE with key", protocol(`2f`, `200086dd00000007`+fastCNP), true, true, true},
		{"GRE TEB", protocol(`2f`, `00006558`+ethernet), true, true, true},
		{"VXLAN 4789", udp(`12b5`, `0800000000000700`+ethernet), true, true, true},
		{"VXLAN 4789, inner tag", udp(`12b5`, `0800000000000700`+macs+`81000065 86dd`+fastCNP), true, true, true},
		{"VXLAN 8472", udp(`2118`, `0800000000000700`+ethernet), true, true, true},
		{"VXLAN-GPE", udp(`12b6`, `0c00000200000700`+fastCNP), true, true, true},
		{"Geneve", udp(`17c1`, `0000655800000700`+ethernet), true, true, true},
		{"MPLS in UDP", udp(`19eb`, `00010140`+fastCNP), true, true, true},
		{"MPLS in IP", protocol(`89`, `00010140`+fastCNP), true, true, true},
		{"GUE", udp(`17c0`, `00290000`+fastCNP), true, true, true},
		{"GTP-U", udp(`0868`, `30ff`+length(fastCNP)+`00000007`+fastCNP), true, true, true},
		{"L2TPv3", protocol(`73`, `00000007`+ethernet), false, true, false},
		{"EtherIP", protocol(`61`, `3000`+ethernet), false, true, false},
		{"SRv6 with Ethernet", v6(`8f`, ethernet), true, true, true},
		{"Teredo", udp(`0dd8`, fastCNP), false, true, false},
		{"AMT", udp(`08dc`, `0600`+fastCNP), false, true, false},
		{"FOU on a port of its own", udp(`15b3`, fastCNP), false, true, true}, // TunnelPorts
		{"ESP with null encryption", protocol(`32`, `0000000100000001`+fastCNP+`01020229`), false, true, false},
		{"a fragment of ESP", fragment, false, true, false},
	} {
		all = append(all, Encapsulated{c.name, Hex(t, c.packet), c.border, c.all, c.rules})
	}
	return all
}
