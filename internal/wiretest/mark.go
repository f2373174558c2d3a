package wiretest

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wire"
)

// SetECN sets the ECN field of an IP packet in place, and returns its old value.
func SetECN(t testing.TB, ip []byte, ecn uint8) (was uint8) {
	t.Helper()
	requireIP(t, ip)
	was = wire.TrafficClass(ip)
	wire.SetTrafficClass(ip, was&^3|ecn&3)
	return was & 3
}

// SetDSCP sets the DSCP of an IP packet in place, and returns its old value.
func SetDSCP(t testing.TB, ip []byte, dscp uint8) (was uint8) {
	t.Helper()
	requireIP(t, ip)
	was = wire.TrafficClass(ip)
	wire.SetTrafficClass(ip, dscp<<2|was&3)
	return was >> 2
}

func requireIP(t testing.TB, octets []byte) {
	t.Helper()
	if wire.Version(octets) == 0 {
		t.Fatalf("no IP header: % x", octets)
	}
}
