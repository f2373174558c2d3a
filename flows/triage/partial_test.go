package triage_test

import (
	"compress/gzip"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// recordsOf returns the records of a capture in testdata/real.
func recordsOf(t *testing.T, name string) (all []capture.Record) {
	t.Helper()
	f := wiretest.Must(os.Open(wiretest.Path(t, "real", name+".pcap.gz")))(t)
	defer f.Close()
	z := wiretest.Must(gzip.NewReader(f))(t)
	r := wiretest.Must(capture.Open(z))(t)
	var record capture.Record
	for r.Next(&record) == nil {
		one := record
		one.Data = slices.Clone(record.Data)
		all = append(all, one)
	}
	return all
}

func explainRecords(all []capture.Record) []triage.Verdict {
	table := flows.New(flows.Config{Evidence: true})
	var d flows.Decoder
	var p flows.Packet
	for i := range all {
		d.Decode(&p, all[i].Data, all[i].Options())
		table.Observe(&p, uint64(i+1), all[i].Time)
	}
	return triage.Explain(table.Snapshot())
}

// duplicateAll returns a capture with each packet twice, as from a mirror of two ports.
func duplicateAll(all []capture.Record) (out []capture.Record) {
	for _, one := range all {
		later := one
		later.Time = one.Time.Add(2 * time.Microsecond)
		out = append(out, one, later)
	}
	slices.SortStableFunc(out, func(a, b capture.Record) int { return a.Time.Compare(b.Time) })
	return out
}

// selectSource returns the packets from an address.
func selectSource(all []capture.Record, addr string) (out []capture.Record) {
	for _, one := range all {
		if a, ok := netip.AddrFromSlice(one.Data[26:30]); ok && a.String() == addr {
			out = append(out, one)
		}
	}
	return out
}

// causesOf returns the causes with the parties, or with a question mark and the first suspect.
func causesOf(all []triage.Verdict) (out []string) {
	for _, v := range all {
		blame := v.Party
		if blame == "" && len(v.Suspects) > 0 {
			blame = "?" + v.Suspects[0]
		}
		out = append(out, strings.TrimSpace(v.Cause.String()+" "+blame))
	}
	return out
}

// Captures with missing or duplicated packets give no unfounded verdicts.
func TestPartialCaptures(t *testing.T) {
	rnr := recordsOf(t, "s4-rnr.eth1") // nothing was lost
	all := explainRecords(rnr[len(rnr)/2:])
	require.Equal(t, []string{"receiver not ready 10.2.0.1"}, causesOf(all))

	all = explainRecords(selectSource(rnr, "10.1.0.1"))
	require.Equal(t, []string{"repeats"}, causesOf(all))
	require.Contains(t, all[0].Text,
		"1528 packets were retransmitted (the cause is unknown because the capture contains no answers)")
	require.NotContains(t, all[0].Text, "lost")

	once := recordsOf(t, "sR4-redect-q4.eth1")
	require.Equal(t, causesOf(explainRecords(once)), causesOf(explainRecords(duplicateAll(once))))
}

// Texts about losses contain no count of 0 and no unknown loss.
func TestTextsAboutLoss(t *testing.T) {
	all := verdictsOf(t, "real/w4-uc-loss2.eth1.pcap.gz")
	require.Len(t, all, 1)
	require.Contains(t, all[0].Text, ": 4 packets did not arrive, and without answers it is unknown")
	require.NotContains(t, all[0].Text, " 0 ")

	all = verdictsOf(t, "tour.pcap")
	require.Equal(t, triage.CauseRetransmitted, all[0].Cause)
	require.Contains(t, all[0].Text,
		": 1 packet was retransmitted (the cause is unknown because no answer could be matched to this flow)")
	require.NotContains(t, all[0].Text, " 0 ")
	require.True(t, strings.HasSuffix(all[0].Filter, "&& frame.number == 9"), all[0].Filter)

	all = verdictsOf(t, "real/r6-loss2.eth1.pcap.gz")
	require.Contains(t, all[0].Text, ": 10 packets were retransmitted. The lost packets left gaps here: they were "+
		"lost before this capture point.")
	require.NotContains(t, all[0].Text, " 0 ")
}
