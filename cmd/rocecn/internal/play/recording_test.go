package play

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

const routingSwitch = `{"enabled": true, "self": ["2001:db8:ffff::5"],
	"methods": [{"senders": "::/0", "method": "proxy"}], "proxies": [{"senders": "::/0", "proxy": "2001:db8:ffff::99"}],
	"proxies_from": "routing", "pnc_code": 65281, "routing_hold": "2s"}`

// Messages of BMP (RFC 7854) about the prefix of the sender, 2001:db8:1::/64, with the proxy 2001:db8:ffff::11 or
// ::22, or withdrawn.
const (
	routeTo11 = "ffffffffffffffffffffffffffffffff 0070 02 0000 0059 40010100 4002060201 0000fde9" +
		"c02728 0002 01 10 20010db8000000000000000000000001 ff01 0010 20010db8ffff00000000000000000011" +
		"800e1e 0002 01 10 20010db8000000000000000000000001 00 40 20010db800010000"
	withdrawal  = "ffffffffffffffffffffffffffffffff 0026 02 0000 000f 800f0c 0002 01 40 20010db800010000"
	termination = "03 0000000c 05 0001 0002 0000"
)

var routeTo22 = strings.Replace(routeTo11, "0011800e", "0022800e", 1)

// reportAt returns a Route Monitoring message with a BGP message and a time, which may be zero.
func reportAt(at time.Time, update string) []byte {
	m := unhex("03 00000000 00  00 00 0000000000000000 000000000000000000000000 c6336401 0000fde9 c6336401" +
		"00000000 00000000" + update)
	if !at.IsZero() {
		binary.BigEndian.PutUint32(m[40:], uint32(at.Unix()))
		binary.BigEndian.PutUint32(m[44:], uint32(at.Nanosecond()/1000))
	}
	binary.BigEndian.PutUint32(m[1:], uint32(len(m)))
	return m
}

func unhex(text string) []byte {
	octets, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return octets
}

// A capture has a frame in each of five seconds from noon. Each row has a recorded stream, and the last octet of the
// proxy of each frame.
func TestRecording(t *testing.T) {
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	for _, c := range []struct {
		name     string
		messages [][]byte
		proxies  string
		note     string
	}{
		{"routes from before", [][]byte{reportAt(at(-3600), routeTo11)}, "11 11 11 11 11", ""},
		{"a route moves", [][]byte{reportAt(at(-1), routeTo11), reportAt(at(1.5), routeTo22)}, "11 11 22 22 22", ""},
		{"it is withdrawn", [][]byte{reportAt(at(-1), routeTo11), reportAt(at(3), withdrawal)}, "11 11 11 99 99", ""},
		{"the order of messages stays", [][]byte{
			reportAt(at(-1), routeTo11), reportAt(at(2), routeTo22), reportAt(at(1), withdrawal),
		}, "11 11 99 99 99", ""},
		{"no times", [][]byte{
			reportAt(time.Time{}, routeTo11), reportAt(time.Time{}, routeTo22),
		}, "22 22 22 22 22", ""},
		{"no time follows the message before", [][]byte{
			reportAt(at(-1), routeTo11), reportAt(at(2), withdrawal), reportAt(time.Time{}, routeTo22),
		}, "11 11 22 22 22", ""},
		{"a stream that begins later", [][]byte{reportAt(at(86400), withdrawal), reportAt(at(86401), routeTo22)},
			"22 22 22 22 22", "begins after the capture, so all its messages come before the first frame"},
		{"kept for two seconds after the end of the session", [][]byte{
			reportAt(at(-1), routeTo11), reportAt(at(1), routeTo11), unhex(termination),
		}, "11 11 11 99 99", ""},
		{"no message", nil, "99 99 99 99 99", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := wiretest.File(t, "routers.bmp", bytes.Join(c.messages, nil))
			p := packet(t)
			var stdout, stderr bytes.Buffer
			args := []string{"-role", "switch", "-config", file(t, routingSwitch), "-bmp", stream, "-"}
			in := bytes.NewReader(every(time.Second, p, p, p, p, p))
			status := Run(t.Context(), args, in, &stdout, &stderr)
			require.Zero(t, status, stderr.String())
			var proxies []string
			for line := range strings.Lines(stdout.String()) {
				_, proxy, _ := strings.Cut(line, `"to":"2001:db8:ffff::`)
				proxies = append(proxies, proxy[:2])
			}
			require.Equal(t, c.proxies, strings.Join(proxies, " "))
			require.Equal(t, c.note != "", strings.Contains(stderr.String(), "-bmp"), stderr.String())
			require.Contains(t, stderr.String(), c.note)
		})
	}
}

func TestRecordingErrors(t *testing.T) {
	in := every(time.Second, packet(t))
	config, folder := file(t, routingSwitch), t.TempDir()
	good, cut, other := filepath.Join(folder, "good"), filepath.Join(folder, "cut"), filepath.Join(folder, "other")
	message := reportAt(noon.Add(-time.Second), routeTo11)
	require.NoError(t, os.WriteFile(good, message, 0o600))
	require.NoError(t, os.WriteFile(cut, append(message, message[:9]...), 0o600))
	require.NoError(t, os.WriteFile(other, in, 0o600))
	list := strings.Replace(routingSwitch, `"routing", "pnc_code": 65281, "routing_hold": "2s"`, `"config"`, 1)
	for _, c := range []struct {
		name    string
		args    []string
		status  int
		message string
		lines   int
	}{
		{"no file", []string{"-role", "switch", "-config", config, "-bmp", folder + "/none", "-"}, 2,
			"-bmp " + folder + "/none: no such file or directory", 0},
		{"another role", []string{"-role", "border", "-config", file(t, `{}`), "-bmp", good, "-"}, 2,
			`want a switch with proxies_from = "routing"`, 0},
		{"proxies of a list", []string{"-role", "switch", "-config", file(t, list), "-bmp", good, "-"}, 2,
			`want a switch with proxies_from = "routing"`, 0},
		{"the output is the stream", []string{"-role", "switch", "-config", config, "-bmp", good, "-", good}, 2,
			"the BMP stream that is read cannot be written", 0},
		{"a truncated stream", []string{"-role", "switch", "-config", config, "-bmp", cut, "-"}, 1,
			"-bmp " + cut + ": unexpected EOF", 1},
		{"no stream", []string{"-role", "switch", "-config", config, "-bmp", other, "-"}, 1, "BMP version", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.status, Run(t.Context(), c.args, bytes.NewReader(in), &stdout, &stderr))
			require.Contains(t, stderr.String(), c.message)
			require.Equal(t, c.lines, strings.Count(stdout.String(), "\n"))
		})
	}
	require.Equal(t, message, wiretest.Must(os.ReadFile(good))(t))
}
