package run

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// For a second, or the time in ROCECN_SOAK, 50,000 packets a second cross a switch, from two senders of which one is
// not notified. Metrics and log count each of them, and the log grows by at most 10 KB a minute.
func TestFlood(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("ROCECN_SOAK"))
	if err != nil {
		lasts = time.Second
	}
	a, r, _, _ := network(t)
	config := strings.Replace(readConfig("hour"), `per_flow = "1h"`,
		"per_flow = \"1ms\"\ncapable = [{ senders = \"2001:db8:1::e/128\", capable = \"no\" }]", 1)
	agent := start(t, r, config)
	before := len(agent.log())
	out := raw(t, a)
	var packets [][]byte
	for qp := range uint32(64) {
		data := datagram(t, 100+qp)
		if qp%4 == 0 {
			data[23] = 0xE // of the source address
		}
		packets = append(packets, data)
	}
	const perSecond, interval = 50_000, 10 * time.Millisecond
	sent := 0
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(interval) {
		for due := int(time.Since(began).Seconds() * perSecond); sent < due; { // may take longer than the interval
			require.NoError(t, out.Send(packets[sent%len(packets)]))
			sent++
		}
		require.NoError(t, out.Flush())
	}
	agent.awaits(t, float64(sent), "rocecn_source_(?:packets|lost)_total", `source="port"`)
	received := agent.metric("rocecn_source_packets_total", `source="port"`)
	var notified, limited, withheld float64
	wiretest.Await(t, "a decision about each packet", func() bool {
		notified = agent.metric("rocecn_role_sent_total")
		limited = agent.metric("rocecn_role_refused_total", `reason="limited"`)
		withheld = agent.metric("rocecn_role_refused_total", `reason="not_capable"`)
		return notified+limited+withheld == received
	})
	t.Logf("%d packets in %v, %.0f of them lost; %.0f notified", sent, lasts,
		agent.metric("rocecn_source_lost_total"), notified)
	agent.terminate(t)
	sum := sumLog(agent.log())
	require.Equal(t, []float64{notified, limited, withheld},
		[]float64{float64(sum["sent "]), float64(sum["refused limited"]), float64(sum["refused not_capable"])})
	minutes := max(1, lasts.Minutes())
	require.Less(t, float64(len(agent.log())-before), 10_000*minutes)
	t.Logf("the log has %d octets", len(agent.log())-before)
}
