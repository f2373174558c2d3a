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
	tunnels := filter.Capture{Selection: filter.Flows, Encapsulations: &rocev2.Encapsulations{
		VXLANPorts: []uint16{5000, 5001}, FOUPorts: []uint16{5555}, CSIGTPID: 0x9902}}
	tunnelProgram := wiretest.Must(tunnels.Program(rocev2.LinkEthernet))(t)
	rules := func(name string) string { return string(wiretest.Must(os.ReadFile("testdata/" + name))(t)) }
	for _, c := range []struct{ args, want string }{
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
		{"flows -bpf -vxlan-port 5000 -vxlan-port 5001 -fou-port 5555 -csig-tpid 0x9902",
			filter.Bytecode(tunnelProgram) + "\n"},
		{"border -vxlan-port 5000 -fou-port 5555",
			(&filter.Border{TunnelPorts: []uint16{5000, 5555}}).NFT("rocecn")},
		{"host", rules("host.nft")},
		{"host -ports swp7,swp8 -group 0 -table t", rules("ports.nft")},
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
	for _, c := range wiretest.Cases(t, "usage.txt", "(nothing)", "", "$proxy", fmt.Sprint(proxymsg.Port)) {
		t.Run(c[0], func(t *testing.T) {
			status, stdout, stderr := run(strings.Fields(c[0])...)
			require.Equal(t, 2, status)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c[1])
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
