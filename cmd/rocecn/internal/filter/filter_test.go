package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestPrints(t *testing.T) {
	qp := filter.Capture{Selection: filter.QueuePair, DestQP: 0x11}
	expression := wiretest.Must(qp.Expression(rocev2.LinkSLL))(t)
	last, err := (&filter.Capture{Selection: filter.QueuePair, DestQP: 0xFFFFFF}).Expression(rocev2.LinkSLL)
	require.NoError(t, err)
	notifications := filter.Capture{Selection: filter.Notifications, FCNPort: 4000, ProxyPort: 4001}
	program := wiretest.Must(notifications.Program(rocev2.LinkEthernet))(t)
	border := filter.Border{FCNPort: 4000, PPFC: true}
	border.CodePoints.Option1, border.CodePoints.Option2 = 0x9E, 0x9F
	borderProgram := wiretest.Must(border.Program(rocev2.LinkIP))(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"qp -qp 17 -link sll", expression + "\n"},
		{"-qp 0x11 -tcpdump qp -link sll", expression + "\n"},
		{"notifications -bpf -fcn-port 4000 -proxy-port 4001", filter.Bytecode(program) + "\n"},
		{"border", (&filter.Border{}).NFT("rocecn")},
		{"border -nft -table edge -cnp", (&filter.Border{CNP: true}).NFT("edge")},
		{"border -ip6tables -chain DOCKER-USER",
			(&filter.Border{}).IP6Tables("DOCKER-USER")},
		{"border -ip6tables -chain EDGE", (&filter.Border{}).IP6Tables("EDGE")},
		{"border -bpf -link ip -ppfc -option-types 0x9e,159 -fcn-port 4000", filter.Bytecode(borderProgram) + "\n"},
		{"border -option-types 0x9f", (&filter.Border{CodePoints: fastcnp.CodePoints{Option1: 0x9F,
			Option2: 0x9F}}).NFT("rocecn")},
		{"border -option-types 2,255", (&filter.Border{CodePoints: fastcnp.CodePoints{Option1: 2,
			Option2: 255}}).NFT("rocecn")},
		{"border -fcn-port 65535 -proxy-port 1", (&filter.Border{FCNPort: 65535, ProxyPort: 1}).NFT("rocecn")},
		{"border -fcn-port 1 -proxy-port 65535", (&filter.Border{FCNPort: 1, ProxyPort: 65535}).NFT("rocecn")},
		{"qp -qp 16777215 -link sll", last + "\n"},
		{"host", `table inet rocecn_host
delete table inet rocecn_host
table inet rocecn_host {
	chain input {
		type filter hook input priority filter; policy accept;
		exthdr dst exists udp dport 4791 log group 7 queue-threshold 1 drop
	}
}
`},
		{"host -ports swp7,swp8 -group 0 -table t", `table inet t
delete table inet t
table inet t {
	chain input {
		type filter hook input priority filter; policy accept;
		exthdr dst exists udp dport 4791 log group 0 queue-threshold 1 drop
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		oifname { "swp7", "swp8" } exthdr dst exists udp dport 4791 log group 0 queue-threshold 1 drop
	}
}
`},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, stdout, stderr := run(strings.Fields(c.args)...)
			require.Zero(t, status, c.args)
			require.Equal(t, c.want, stdout, c.args)
			require.Empty(t, stderr, c.args)
		})
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args, message string
	}{
		{"", `no filter named: want one of rocev2, notifications, ce, qp, ours, pairs, flows, border, host`},
		{"Border", `"Border": want one of rocev2, notifications, ce, qp, ours, pairs, flows, border, host`},
		{"ce qp", `arguments left over: qp`},
		{"ce -nft", `ce: rules are for the border`},
		{"ours -ip6tables", `ours: rules are for the border`},
		{"border -tcpdump", `no expression of tcpdump looks through options`},
		{"ce -bpf -tcpdump", `one of -tcpdump, -bpf, -nft and -ip6tables`},
		{"ce -link null", `-link: "null" is not one of `},
		{"qp -qp 16777216", `: want 1 to 0xffffff`},
		{"qp", `: want 1 to 0xffffff`},
		{"ce -qp 5", `-qp: for qp only`},
		{"-cnp rocev2", `-cnp: for border only`},
		{"ce -fcn-port 4000", `-fcn-port: for notifications and ours and flows and border only`},
		{"host -proxy-port 4000", `-proxy-port: for notifications and ours and flows and border only`},
		{"notifications -option-types 0x9e", `-option-types: for border only`},
		{"ours -fcn-port 65536", `1 to 65535 allowed`},
		{"border -fcn-port 4791", `4791 is the port of RoCEv2`},
		{"border -nft -proxy-port 4791 -fcn-port 4000", `4791 is the port of RoCEv2`},
		{"ours -fcn-port 4791", `4791 is the port of RoCEv2`},
		{fmt.Sprint("border -fcn-port ", proxymsg.Port), fmt.Sprint("both are ", proxymsg.Port)},
		{"border -fcn-port 0", `1 to 65535 allowed`},
		{"border -ip6tables -chain FORWARD;reboot", `-chain: "FORWARD;reboot" is not a name`},
		{"border -ip6tables -chain $(id)", `-chain: "$(id)" is not a name`},
		{"border -ip6tables -chain=", `-chain: "" is not a name`},
		{"border -ip6tables -chain=-F", `-chain: "-F" is not a name`},
		{"border -ip6tables -chain abcdefghijklmnopqrstuvwxyz012", `is not a name`},
		{"host -bpf", "host: only nftables can log"},
		{"host -group 65536", "-group 65536: 0 to 65535 allowed"},
		{`host -ports a,b"`, `-ports: "b\"" is no name of an interface`},
		{"host -ports a,", `-ports: "" is no name of an interface`},
		{"host -ports sixteenletters16", "is no name of an interface"},
		{"border -group 3", "-group: for host only"},
		{"ours -table t", "-table: for border and host only"},
		{"border -link sll", "-link: for -tcpdump and -bpf only"},
		{"border -ip6tables -link ip", "-link: for -tcpdump and -bpf only"},
		{"host -link ip", "-link: for -tcpdump and -bpf only"},
		{"border -table t -bpf", "-table: for -nft only"},
		{"border -table t -ip6tables", "-table: for -nft only"},
		{"border -chain INPUT", "-chain: for -ip6tables only"},
		{"border -table a}", `-table: "a}" is not a name`},
		{"ours -proxy-port 65536", `1 to 65535 allowed`},
		{"border -option-types 1", `invalid value "1"`},
		{"border -option-types 0,0x9e", `invalid value "0,0x9e"`},
		{"border -option-types 256", `invalid value "256"`},
		{"border -option-types 0x9e,512", `invalid value "0x9e,512"`},
		{"border -option-types 0x9e,", `invalid value "0x9e,"`},
		{"-x", `flag provided but not defined: -x`},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, stdout, stderr := run(strings.Fields(c.args)...)
			require.Equal(t, 2, status, c.args)
			require.Empty(t, stdout, c.args)
			require.Contains(t, stderr, c.message, c.args)
		})
	}
	status, _, stderr := run("-h")
	require.Zero(t, status)
	require.Contains(t, stderr, "usage: rocecn filter KIND")
}

type closed struct{ err error }

func (c closed) Write([]byte) (int, error) { return 0, c.err }

func TestOutput(t *testing.T) {
	var stderr bytes.Buffer
	require.Zero(t, Run(context.Background(), []string{"ce"}, nil, closed{io.ErrClosedPipe}, &stderr))
	require.Empty(t, stderr.String())
	require.Equal(t, 1, Run(context.Background(), []string{"ce"}, nil,
		closed{&os.PathError{Err: errors.New("disk full")}}, &stderr))
	require.Contains(t, stderr.String(), "disk full")
}
