package inspect

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The Wireshark plugin shows the values of the JSON lines, in every capture.
func TestWiresharkPluginAgrees(t *testing.T) {
	var files []string
	for _, name := range wiretest.Captures(t, "*.pcap") {
		files = append(files, wiretest.Path(t, name))
	}
	kinds := pluginAgrees(t, files...)
	for _, kind := range []string{"data", "ack", "cnp", "fastcnp", "ppfc", "fcn", "proxy", "unknown_option", "error"} {
		require.NotZero(t, kinds[kind], kind)
	}
}

// The plugin agrees on damaged frames, and never fails with a Lua error.
func TestWiresharkPluginAgreesOnDamagedFrames(t *testing.T) {
	f := wiretest.NewFrames(18)
	var frames []capture.Record
	for _, name := range []string{"messages.pcap", "fastcnp.pcap", "ioam-linux618-room.pcap", "ioam-linux618-two.pcap",
		"ioam-linux61-encap-oss-inline.pcap"} {
		for _, p := range wiretest.Capture(t, name) {
			for range 20 {
				b := f.Mutate(p.Data)
				frames = append(frames, capture.Record{Data: b, OrigLen: uint32(len(b) + f.IntN(2)*f.IntN(3)*100)})
			}
		}
	}
	for range 1000 {
		b := f.Mutate(f.Ethernet(f.IntN(3), f.IP()))
		frames = append(frames, capture.Record{Data: b, OrigLen: uint32(len(b))})
	}
	for i := range frames {
		frames[i].Time = time.Unix(int64(i), 0)
	}
	pluginAgrees(t, wiretest.File(t, "damaged.pcapng", pcapngOf(frames)))
}

// They do in IOAM options that are no traces, with fields that are known and
// others, whole and cut.
func TestWiresharkPluginAgreesOnOtherIOAM(t *testing.T) {
	var frames []capture.Record
	options := func(kind, at, low, high int) { // all values of the octets at and at + 1
		for v := range 64 {
			for words := range 7 {
				data := make([]byte, 6+4*words)
				for i := range data {
					data[i] = byte(0x40 + i)
				}
				data[0], data[1] = 0, byte(kind)
				data[at] = byte(v%low) << high
				data[at+1] = byte(v / low)
				option := slices.Concat([]byte{59, 0, 1, 0, 0x11, byte(len(data))}, data)
				option = append(option, make([]byte, -len(option)&7)...)
				option[1] = byte(len(option)/8 - 1)
				ip := datagram(9, nil)[:40]
				ip[5], ip[6] = byte(len(option)), 0
				link := []byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xDD")
				frame := slices.Concat(link, ip, option)
				frames = append(frames, capture.Record{Data: frame, OrigLen: uint32(len(frame)),
					Time: time.Unix(int64(len(frames)), 0)})
			}
		}
	}
	options(2, 4, 2, 0)  // proof of transit: types 0 and 1
	options(3, 4, 16, 4) // edge-to-edge: the four bits that are known, and two that are not
	options(4, 4, 2, 0)  // direct export: flags
	options(5, 4, 2, 0)
	pluginAgrees(t, wiretest.File(t, "ioam.pcapng", pcapngOf(frames)))
}

// Through VXLAN and IP in IP both see the same packet.
func TestWiresharkPluginAgreesInTunnels(t *testing.T) {
	link := []byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xDD")
	src, dst := netip.MustParseAddr("2001:db8:fe::1"), netip.MustParseAddr("2001:db8:fe::9")
	var frames []capture.Record
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		for _, tunnel := range []encap.Tunnel{&encap.IPInIPv6{Src: src, Dst: dst},
			&encap.VXLAN{Src: src, Dst: dst, VNI: 7, Ethernet: p.Data[:14]}} {
			var f rocev2.Frame
			f.Decode(p.Data, rocev2.DecodeOptions{})
			ip := f.Outer().IP()
			if ip == nil || f.Truncated() {
				continue // one that is broken so early that no tunnel takes it
			}
			frame, err := tunnel.Append(link[:14:14], ip, 1)
			require.NoError(t, err)
			frames = append(frames, capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: p.Time})
		}
	}
	kinds := pluginAgrees(t, wiretest.File(t, "tunnels.pcapng", pcapngOf(frames)))
	require.NotZero(t, kinds["fastcnp"])
}

// Vectors that are acceptable are deviations in the plugin, and invalid ones are errors. Valid ones are neither.
func TestWiresharkPluginNamesDeviations(t *testing.T) {
	type vector struct{ Comment, Octets, Result, Error string }
	var frames []capture.Record
	var vectors []vector
	for _, format := range []struct {
		name  string
		frame func(octets []byte) []byte
	}{
		{"cnp", func(b []byte) []byte { return datagram(4791, append(b, 0, 0, 0, 0)) }},
		{"ppfc", func(b []byte) []byte { return datagram(4791, append(b, 0, 0, 0, 0)) }},
		{"fastcnp", func(b []byte) []byte { return b }},
		{"fcn", func(b []byte) []byte { return datagram(fcn.Port, b) }},
		{"proxy", func(b []byte) []byte { return datagram(proxymsg.Port, b) }},
	} {
		content, err := os.ReadFile(wiretest.Path(t, "vectors", format.name+".json"))
		require.NoError(t, err)
		var file struct{ Tests []vector }
		require.NoError(t, json.Unmarshal(content, &file))
		for _, v := range file.Tests {
			octets, err := hex.DecodeString(v.Octets)
			require.NoError(t, err)
			if v.Error == "other" { // no error of the packet
				continue
			}
			frame := append([]byte("\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x86\xDD"), format.frame(octets)...)
			frames = append(frames, capture.Record{Data: frame, OrigLen: uint32(len(frame)),
				Time: time.Unix(int64(len(frames)), 0)})
			vectors = append(vectors, v)
		}
	}
	vectorType := fmt.Sprint(uint8(fastcnp.ExperimentalType)) // in the vectors of fastcnp
	file := wiretest.File(t, "vectors.pcapng", pcapngOf(frames))
	for i, got := range plugin(t, file, "-o", "rocecn.option1:"+vectorType,
		"-o", "rocecn.option2:"+vectorType) {
		result := "valid"
		switch {
		case got["error"] != nil:
			result = "invalid"
		case got["deviation"] != nil:
			result = "acceptable"
		}
		require.Equal(t, vectors[i].Result, result, "%s\n%v", vectors[i].Comment, got)
	}
}

// datagram returns an IPv6 packet with UDP data.
func datagram(port uint16, data []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(8+len(data)))
	b = append(b, 17, 64)
	for _, a := range []string{"2001:db8:ffff::5", "2001:db8:1::1"} {
		b = append(b, netip.MustParseAddr(a).AsSlice()...)
	}
	b = be.AppendUint16(be.AppendUint16(b, 49152), port)
	b = be.AppendUint16(b, uint16(8+len(data)))
	return append(append(b, 0, 0), data...)
}

// As JSON each level of the plugin's tree has a key of its own, so that readers of
// JSON, which keep one value a key, lose none: only nodes of a trace repeat theirs.
func TestWiresharkPluginJSON(t *testing.T) {
	script := wiretest.Path(t, "..", "wireshark", "rocecn.lua")
	dir := t.TempDir()
	levels := map[string]int{}
	file := mergeCaptures(t, []string{wiretest.Path(t, "messages.pcap"), wiretest.Path(t, "fastcnp.pcap"),
		wiretest.Path(t, "tour.pcap")})
	cmd := exec.Command(wiretest.Tool(t, "tshark"), "-n", "-r", file, "-X", "lua_script:"+script, "-T", "json")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+dir, "WIRESHARK_CONFIG_DIR="+dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	keysOf(t, json.NewDecoder(bytes.NewReader(out)), func(key string, times, depth int) {
		if key == "rocecn" || strings.HasPrefix(key, "rocecn.") {
			require.True(t, times == 1 || key == "rocecn.ioam.node", "%d times %s", times, key)
			levels[key]++
		}
		if key == "rocecn" {
			require.Equal(t, 4, depth) // [ { "_source": { "layers": { "rocecn"
		}
	})
	for _, key := range []string{"rocecn", "rocecn.bth", "rocecn.fastcnp", "rocecn.ioam", "rocecn.ioam.node",
		"rocecn.ppfc", "rocecn.fcn", "rocecn.proxy", "rocecn.proxy.invoking"} {
		require.NotZero(t, levels[key], key)
	}
}

// keysOf reads a value, and calls report for each key of each object in it with its number of occurrences and its
// depth.
func keysOf(t *testing.T, d *json.Decoder, report func(key string, times, depth int)) {
	t.Helper()
	var value func(depth int)
	value = func(depth int) {
		token, err := d.Token()
		require.NoError(t, err)
		times := map[string]int{}
		switch token {
		case json.Delim('{'), json.Delim('['):
			for d.More() {
				if token == json.Delim('{') {
					key, err := d.Token()
					require.NoError(t, err)
					times[key.(string)]++
				}
				value(depth + 1)
			}
			_, err = d.Token()
			require.NoError(t, err)
		}
		for key, n := range times {
			report(key, n, depth+1)
		}
	}
	value(0)
}

// pluginAgrees compares plugin and JSON lines, and returns the number of packets of each kind. Tshark reads all
// files as one, as it takes longer to start than to read them.
func pluginAgrees(t *testing.T, files ...string) (kinds map[string]int) {
	t.Helper()
	var want []string
	in := map[int]string{} // file that begins with a frame
	for _, file := range files {
		out, _, status := inspect(nil, "-json", file)
		require.Zero(t, status)
		in[len(want)] = file
		want = slices.AppendSeq(want, strings.Lines(out))
	}
	got := plugin(t, mergeCaptures(t, files))
	require.Len(t, got, len(want))
	kinds = map[string]int{}
	file, first := "", 0
	for i, line := range want {
		if name := in[i]; name != "" {
			file, first = filepath.Base(name), i
		}
		fields := fieldsOf(t, line)
		if all := fields["kind"]; all != nil {
			kinds[all[0]]++
			if all[0] == "error" { // the plugin may stop before the truncated part
				delete(fields, "truncated")
				delete(got[i], "truncated")
			}
		}
		delete(got[i], "deviation")
		require.Equal(t, fields, got[i], "%s, frame %d\n%s", file, i-first+1, line)
	}
	return kinds
}

// mergeCaptures returns a file with the frames of one file after those of another.
func mergeCaptures(t *testing.T, files []string) string {
	t.Helper()
	all := filepath.Join(t.TempDir(), "all.pcapng")
	args := append([]string{"-a", "-w", all}, files...)
	require.NoError(t, exec.Command(wiretest.Tool(t, "mergecap"), args...).Run())
	return all
}

// pluginOnly are fields of the plugin that the JSON lines omit.
var pluginOnly = []string{"cnp.reserved", "ioam.free", "ioam.undefined"}

// plugin runs tshark with the plugin and the given options, without any other configuration. It returns the values of
// each field of each packet. Error texts are replaced by a constant.
func plugin(t *testing.T, path string, options ...string) (packets []map[string][]string) {
	t.Helper()
	script := wiretest.Path(t, "..", "wireshark", "rocecn.lua")
	source, err := os.ReadFile(script)
	require.NoError(t, err)
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^define\("\w+", "([\w.]+)"`).FindAllSubmatch(source, -1) {
		if name := string(match[1]); !slices.Contains(pluginOnly, name) {
			names = append(names, name)
		}
	}
	require.NotEmpty(t, names)
	names = append(names, "deviation")

	args := []string{"-n", "-r", path, "-X", "lua_script:" + script,
		"-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=|", "-e", "_ws.lua.error"}
	for _, name := range names {
		args = append(args, "-e", "rocecn."+name)
	}
	args = append(args, options...)
	dir := t.TempDir()
	cmd := exec.Command(wiretest.Tool(t, "tshark"), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "HOME="+dir, "WIRESHARK_CONFIG_DIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.NotContains(t, stderr.String(), "rocecn.lua")

	for line := range strings.Lines(string(out)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 1+len(names))
		require.Empty(t, columns[0], "packet %d", len(packets)+1)
		fields := map[string][]string{}
		for i, name := range names {
			if columns[1+i] == "" {
				continue
			}
			for value := range strings.SplitSeq(columns[1+i], "|") {
				add(fields, name, value)
			}
		}
		packets = append(packets, fields)
	}
	return packets
}

// fieldsOf returns the values in a JSON line as the plugin names them.
func fieldsOf(t *testing.T, line string) map[string][]string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var all map[string]any
	require.NoError(t, d.Decode(&all))
	fields := map[string][]string{}
	if slices.Contains([]any{"other", "pfc", "pause"}, all["kind"]) {
		delete(all, "kind") // Wireshark knows these
		delete(all, "truncated")
	}
	flattenInto(fields, "fastcnp", all["fast_cnp"])
	flattenInto(fields, "unknown_option", all["unknown_option"])
	for _, key := range []string{"kind", "truncated", "trimmed", "error", "options_error", "bth", "payload_len", "icrc",
		"ioam", "fcn", "proxy", "ppfc"} {
		flattenInto(fields, key, all[key])
	}
	return fields
}

func flattenInto(fields map[string][]string, path string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for key, value := range v {
			flattenInto(fields, path+"."+key, value)
		}
	case []any:
		for _, value := range v {
			flattenInto(fields, path, value)
		}
	default:
		name := strings.Replace(strings.Replace(path, "fastcnp.ioam", "ioam", 1), "ioam.nodes", "ioam", 1)
		value := fmt.Sprint(v)
		switch name {
		case "ioam.sequence":
			if strings.HasPrefix(value, "0x") {
				name += "64"
			}
		case "ioam.sequence_32": // beside one of 64 bits
			name = "ioam.sequence"
		case "ppfc.address", "proxy.src", "proxy.dst":
			if netip.MustParseAddr(value).Is4() {
				name += "_v4"
			}
		}
		add(fields, name, value)
	}
}

// add adds a value, with numbers and flags in the same form for tshark and JSON.
func add(fields map[string][]string, name, value string) {
	switch name {
	case "error", "options_error":
		fields[name] = []string{"there"}
		return
	case "ioam.error":
		value = "there"
	case "ioam.data", "ioam.snapshot.data":
		if value == "" {
			return
		}
	default:
		if n, err := strconv.ParseUint(value, 0, 64); err == nil {
			value = fmt.Sprint(n)
		} else if a, err := netip.ParseAddr(value); err == nil {
			value = a.String()
		} else if flag, err := strconv.ParseBool(value); err == nil {
			value = map[bool]string{false: "0", true: "1"}[flag]
		}
	}
	fields[name] = append(fields[name], value)
}
