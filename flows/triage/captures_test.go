package triage_test

import (
	"compress/gzip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// verdictsOf returns the verdicts about a capture in testdata.
func verdictsOf(t *testing.T, name string) []triage.Verdict {
	t.Helper()
	f := wiretest.Must(os.Open(wiretest.Path(t, name)))(t)
	defer f.Close()
	var r capture.Reader
	if strings.HasSuffix(name, ".gz") {
		z := wiretest.Must(gzip.NewReader(f))(t)
		r = wiretest.Must(capture.Open(z))(t)
	} else {
		r = wiretest.Must(capture.Open(f))(t)
	}
	table := flows.New(flows.Config{Evidence: true})
	var d flows.Decoder
	var p flows.Packet
	var record capture.Record
	for n := uint64(1); r.Next(&record) == nil; n++ {
		d.Decode(&p, record.Data, record.Options())
		table.Observe(&p, n, record.Time)
	}
	return triage.Explain(table.Snapshot())
}

// Captures without a problem have no verdict.
func TestCleanCaptures(t *testing.T) {
	for _, name := range []string{
		"rxe-perf4.pcap", "rxe-rping6.pcap", "rxe-vlan4.pcap", "rxe-ucmatose4.pcap", "rxe-udaddy6.pcap",
		"real/atomic4.eth0.pcap.gz", "real/atomic4.eth1.pcap.gz", "real/nvme4.eth0.pcap.gz", "real/nvme4.eth1.pcap.gz",
		"real/rping6.eth0.pcap.gz", "real/rping6.eth1.pcap.gz",
		"real/write4-dup.eth0.pcap.gz", "real/write4-dup.eth1.pcap.gz", // copies, by their Identification
		"real/sR4-redect-q4.eth0.pcap.gz", // before the queue that marks
	} {
		require.Empty(t, verdictsOf(t, name), name)
	}
}

// The verdicts about real hosts name the problem that was caused: see testdata/real.
func TestRealCaptures(t *testing.T) {
	const receiver = "10.2.0.1"
	for _, c := range []struct {
		name string
		want []string
	}{
		{"real/s4-rnr.eth0.pcap.gz", []string{"receiver not ready " + receiver}},
		{"real/s4-rnr.eth1.pcap.gz", []string{"receiver not ready " + receiver}},
		{"real/sR4-redect-q4.eth1.pcap.gz", []string{"no CNP ?" + receiver}},
		{"real/write4-red-ect.eth1.pcap.gz", []string{"no CNP ?" + receiver,
			"timeout ?the path from this capture point to 10.1.0.1"}},
		{"real/write4-loss1.eth0.pcap.gz", []string{"retransmission storm"}},
		{"real/write4-loss1.eth1.pcap.gz", []string{"retransmission storm"}},
		// ACKs were lost before eth0 and after eth1.
		{"real/w6-ackloss3.eth0.pcap.gz", []string{"timeout ?the path of the answers from fd02::1"}},
		{"real/w6-ackloss3.eth1.pcap.gz", []string{"timeout ?the path from this capture point to fd01::1"}},
		{"real/w4-uc-loss2.eth0.pcap.gz", nil},
		{"real/w4-uc-loss2.eth1.pcap.gz", []string{"loss"}},
		{"real/r6-loss2.eth0.pcap.gz", []string{"loss"}},
		{"real/r6-loss2.eth1.pcap.gz", []string{"loss"}},
		{"real/w4-reddrop-q4.eth0.pcap.gz", []string{"retransmission storm"}},
		{"real/w4-reddrop-q4.eth1.pcap.gz", []string{"retransmission storm"}},
		{"real/write6-q8-loss1.eth1.pcap.gz", []string{"retransmission storm"}},
		{"real/send4-reorder.eth1.pcap.gz", []string{"reordering"}},
		{"rxe-verbs6.pcap", []string{"receiver not ready fd77::1", "corrupt ?a link or node before the capture point",
			"refused ?the request of fd77::2"}}, // soft-RoCE's FLUSH
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, causesOf(verdictsOf(t, c.name)))
		})
	}
}
