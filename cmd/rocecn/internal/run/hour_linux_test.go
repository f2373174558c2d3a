package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// isStatus is the value of isAgent with which the test program runs the command status.
const isStatus = "status"

// An operator answers five questions about congestion at a switch by the log, /status and rocecn status alone. The
// output and the answers are those of docs/running.md.
func TestOperatorsHour(t *testing.T) {
	a, r, _, _ := network(t)
	a.Run(t, "", "ip", "addr", "add", "2001:db8:1::e/64", "dev", "a0", "nodad")
	// One sender understands Fast CNPs: it does not reject them, as the host of the other one does.
	a.Run(t, "", "ip6tables", "-A", "OUTPUT", "-s", "2001:db8:1::a", "-p", "icmpv6", "--icmpv6-type",
		"parameter-problem", "-j", "DROP")
	agent := start(t, r, readConfig("hour"))
	out := raw(t, a)
	packets := 0
	congest := func(last byte, qp uint32, n int) {
		data := datagram(t, qp)
		data[23] = last // of the source address
		for range n {
			sends(t, out, data)
		}
		packets += n
		agent.awaits(t, float64(packets), "rocecn_source_packets_total", `source="port"`)
	}
	congest(0xA, 17, 40)
	congest(0xA, 18, 10)
	congest(0xE, 21, 1)
	congest(0xE, 22, 1)
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	congest(0xE, 21, 5)
	wiretest.Await(t, "the host and its packets in /status", func() bool {
		status := agent.get("/status")
		return strings.Contains(status, `"host": "2001:db8:1::e"`) && strings.Contains(status, `"not_capable": 5`) &&
			strings.Contains(status, `"reason": "not_capable"`) &&
			strings.Count(status, `"refused": 6`) >= 2 // the host and its flow, in a list that is made each second
	})
	shown := normalize(showStatus(t, agent))
	agent.terminate(t)

	page := string(wiretest.Must(os.ReadFile(filepath.Join(wiretest.Root(t), "docs", "running.md")))(t))
	_, page, ok := strings.Cut(page, "\n## Read a running agent\n")
	require.True(t, ok)
	_, block, ok := strings.Cut(page, "    $ rocecn status '[::1]:9479'\n")
	require.True(t, ok)
	block, table, ok := strings.Cut(block, "\n| question | answer | from |\n|---|---|---|\n")
	require.True(t, ok)
	require.Equal(t, strings.TrimRight(block, "\n"), strings.TrimRight(indentLines(shown), "\n"))

	sum := sumLog(agent.log())
	told := regexp.MustCompile(`(?m)^    (2001:db8:1::\w+)\n      notified (\d+)`).FindAllStringSubmatch(shown, -1)
	rejecting := regexp.MustCompile(`(?m)^    (\S+): since`).FindStringSubmatch(shown)
	flows := regexp.MustCompile(`(?m)^    (\S+) > \S+ qp (\d+)\n`).FindAllStringSubmatch(shown, -1)
	limited := regexp.MustCompile(`rejected: limited (\d+), not_capable (\d+)`).FindStringSubmatch(shown)
	require.Len(t, told, 2)
	require.Len(t, flows, 4)
	var hit []string
	for _, f := range flows {
		hit = append(hit, fmt.Sprintf("qp %s of `%s`", f[2], f[1]))
	}
	answers := [][2]string{
		{"Which senders were notified?", fmt.Sprintf("`%s`, `%s`", told[0][1], told[1][1])},
		{"Number of notifications?", fmt.Sprintf("%s and %s; %d in the log", told[0][2], told[1][2], sum["sent "])},
		{"Which hosts reject?", fmt.Sprintf("`%s`, which got no Fast CNP for %s packets (%d in the log)", rejecting[1],
			limited[2], sum["refused not_capable"])},
		{"Which flows are affected?", strings.Join(hit, ", ")},
		{"Number withheld by a limit?", fmt.Sprintf("%s Fast CNPs (%d in the log), by `per_flow`", limited[1],
			sum["refused limited"])},
	}
	rows := strings.Split(table, "\n")
	for i, answer := range answers {
		cells := strings.Split(strings.Trim(rows[i], "| "), " | ")
		require.Equal(t, answer[:], cells[:2])
	}
}

// showStatus returns the output of rocecn status on the host of an agent.
func showStatus(t *testing.T, a *agent) string {
	t.Helper()
	self := wiretest.Must(os.Executable())(t)
	var output []byte
	a.host.Do(t, func() (err error) {
		cmd := exec.Command(self, a.monitor)
		cmd.Env = append(os.Environ(), isAgent+"="+isStatus)
		output, err = cmd.CombinedOutput()
		return err
	})
	return string(output)
}

// normalize replaces the times in the output of rocecn status.
func normalize(text string) string {
	for _, c := range [][2]string{
		{`\b\d+s ago`, "2s ago"}, {`since \d\d:\d\d:\d\d`, "since 12:00:00"}, {`in (1h0m0s|59m\d+s)`, "in 59m58s"},
		{`up, packets (\d+), lost 0`, "up, packets $1, lost 0"},
	} {
		text = regexp.MustCompile(c[0]).ReplaceAllString(text, c[1])
	}
	return text
}

// indentLines indents each line by four columns, as a block of code in a document.
func indentLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = "    " + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// sumLog returns the sums of the lines about decisions, by action and reason.
func sumLog(log string) map[string]int {
	sum := map[string]int{}
	line := regexp.MustCompile(`(?m)msg=decisions role=\S+ action=(\S+)(?: reason=(\S+))?(?: kind=\S+)? count=(\d+)`)
	for _, m := range line.FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(m[3])
		sum[m[1]+" "+m[2]] += n
	}
	return sum
}
