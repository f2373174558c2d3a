package play

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expectations of testdata/*.golden, and testdata/fastcnp.pcap")

// TestGolden plays the cases of testdata/ROLE.golden. The first lines of each file explain the format. Each case has
// a configuration and frames, and the lines, packets and summary that the role writes for them. Run with -update to
// rewrite these results, and read the difference.
func TestGolden(t *testing.T) {
	for _, role := range roles.Names() {
		if role == "echo" {
			continue
		}
		t.Run(role, func(t *testing.T) {
			g := readGolden(t, role)
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					got := g.play(t, role, c)
					if *update {
						c.want = got
					}
					require.Equal(t, strings.Join(c.want, "\n"), strings.Join(got, "\n"))
				})
			}
			if *update {
				g.write(t, role)
			}
		})
	}
}

// A golden is a file of cases.
type golden struct {
	head    []string          // lines before the first case
	packets map[string]string // octets in hexadecimal digits, by name
	names   map[string]string // the reverse
	cases   []*goldenCase
}

// A goldenCase is one run of a role.
type goldenCase struct {
	name, config string
	link         uint32
	frames       []capture.Record
	unordered    bool     // packets of OUT with the same time
	given, want  []string // lines of the file
}

func readGolden(t testing.TB, role string) *golden {
	t.Helper()
	octets := wiretest.Must(os.ReadFile(wiretest.OwnPath(t, role+".golden")))(t)
	g := &golden{packets: map[string]string{}, names: map[string]string{}}
	var c *goldenCase
	for line := range strings.Lines(string(octets)) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "packet":
			name, digits, _ := strings.Cut(value, " ")
			g.packets[name], g.names[digits] = digits, name
		case "==":
			c = &goldenCase{name: value, link: capture.Raw}
			g.cases = append(g.cases, c)
		case "config":
			c.config = value
		case "link":
			require.Equal(t, "ethernet", value, line)
			c.link = capture.Ethernet
		case "unordered":
			c.unordered = true
		case "frame":
			c.frames = append(c.frames, g.parseFrame(t, c.link, value)...)
		case "line", "out", "summary", "error":
			c.want = append(c.want, line)
			continue
		default:
			require.True(t, line == "" || line[0] == '#', "%s: %q", role, line)
		}
		if c == nil {
			g.head = append(g.head, line)
		} else if line != "" {
			c.given = append(c.given, line)
		}
	}
	return g
}

// parseFrame returns the records for TIME PACKET [of LENGTH] [times N].
func (g *golden) parseFrame(t testing.TB, link uint32, text string) []capture.Record {
	t.Helper()
	words := append(strings.Fields(text), "")
	at, err := time.ParseDuration(words[0])
	require.NoError(t, err, text)
	digits := words[1]
	if named, ok := g.packets[digits]; ok {
		digits = named
	}
	octets, err := hex.DecodeString(digits)
	require.NoError(t, err, text)
	r, times := capture.Record{Link: link, Time: noon.Add(at), Data: octets, OrigLen: uint32(len(octets))}, 1
	for options := words[2:]; len(options) > 1; options = options[2:] {
		n, err := strconv.Atoi(options[1])
		require.NoError(t, err, text)
		switch options[0] {
		case "of":
			r.OrigLen = uint32(n)
		case "times":
			times = n
		default:
			t.Fatalf("%q: want of or times", text)
		}
	}
	return slices.Repeat([]capture.Record{r}, times)
}

// play returns the result of a case: the error, or lines, packets and summary.
func (g *golden) play(t testing.TB, role string, c *goldenCase) (got []string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	to := filepath.Join(t.TempDir(), "out.pcap")
	args := []string{"-role", role, "-config", file(t, c.config), "-", to}
	in := captureOf(c.link, time.Nanosecond, c.frames...)
	status := Run(t.Context(), args, bytes.NewReader(in), &stdout, &stderr)
	if status == 2 {
		_, message, _ := strings.Cut(strings.TrimSpace(stderr.String()), "config.json: ")
		require.Empty(t, stdout.String())
		require.NoFileExists(t, to)
		return []string{"error " + message}
	}
	require.Zero(t, status, stderr.String())
	lines := slices.Collect(strings.Lines(stdout.String()))
	if c.unordered {
		slices.Sort(lines)
	}
	for _, line := range lines {
		got = append(got, "line "+roundRates(strings.TrimSuffix(line, "\n")))
	}
	octets := wiretest.Must(os.ReadFile(to))(t)
	out := records(t, octets)
	if c.unordered {
		slices.SortFunc(out, func(a, b capture.Record) int {
			return cmp.Or(a.Time.Compare(b.Time), bytes.Compare(a.Data, b.Data))
		})
	}
	for _, r := range out {
		require.Equal(t, capture.Raw, r.Link)
		got = append(got, "out "+g.formatPacket(&r, c.frames))
	}
	for line := range strings.Lines(stderr.String()) {
		got = append(got, "summary "+strings.TrimSuffix(line, "\n"))
	}
	return got
}

// formatPacket returns the time and the octets of a packet of OUT. The octets of a named packet are its name, those of
// the frame that caused it are "frame N", also at the end of others.
func (g *golden) formatPacket(r *capture.Record, frames []capture.Record) string {
	text, octets := hex.EncodeToString(r.Data), r.Data
	if name := g.names[text]; name != "" {
		text = name
	}
	for i, f := range frames {
		if len(f.Data) > 0 && f.Time.Equal(r.Time) && bytes.HasSuffix(octets, f.Data) {
			text = fmt.Sprintf("%x frame %d", octets[:len(octets)-len(f.Data)], i+1)
			break
		}
	}
	text = r.Time.Sub(noon).String() + " " + strings.TrimSpace(text)
	if int(r.OrigLen) != len(octets) {
		text += fmt.Sprintf(" of %d", r.OrigLen)
	}
	return text
}

var rate = regexp.MustCompile(`"rate_bps":(\d+)`)

// roundRates rounds rates to eight digits: the last ones differ between processors that multiply and add in one step
// and others.
func roundRates(line string) string {
	return rate.ReplaceAllStringFunc(line, func(m string) string {
		v, _ := strconv.ParseFloat(m[len(`"rate_bps":`):], 64)
		unit := math.Pow10(max(0, int(math.Log10(max(v, 1)))-7))
		return fmt.Sprintf(`"rate_bps":%.0f`, math.Round(v/unit)*unit)
	})
}

func (g *golden) write(t testing.TB, role string) {
	t.Helper()
	f := wiretest.Must(os.Create(wiretest.OwnPath(t, role+".golden")))(t)
	w := bufio.NewWriter(f)
	for _, line := range g.head {
		fmt.Fprintln(w, line)
	}
	for i, c := range g.cases {
		if i > 0 {
			fmt.Fprintln(w)
		}
		for _, line := range slices.Concat(c.given, c.want) {
			fmt.Fprintln(w, line)
		}
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
}
