package tc

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Filters run at the place that is asked for, or the error names the qdisc that the interface needs.
func TestAttachFilter(t *testing.T) {
	for _, c := range []struct {
		name, qdisc string // qdisc that the interface already has
		where       ebpf.AttachType
		err         string
	}{
		{"ingress without a qdisc", "", ebpf.AttachTCXIngress, ""},
		{"ingress with clsact", "clsact", ebpf.AttachTCXIngress, ""},
		{"ingress with ingress", "ingress", ebpf.AttachTCXIngress, ""},
		{"egress without a qdisc", "", ebpf.AttachTCXEgress, ""},
		{"egress with clsact", "clsact", ebpf.AttachTCXEgress, ""},
		{"egress with ingress", "ingress", ebpf.AttachTCXEgress,
			"lo: qdisc ingress: want clsact (tc qdisc del dev lo ingress)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.Namespace(t, "link set lo up")
			if c.qdisc != "" {
				tc := wiretest.Tool(t, "tc")
				if out, err := exec.Command(tc, "qdisc", "add", "dev", "lo", c.qdisc).CombinedOutput(); err != nil {
					wiretest.NotInKernel(t, "CONFIG_NET_SCH_INGRESS", string(out))
				}
			}
			WithTCX = false
			defer func() { WithTCX = true }()
			program, count := counter(t)
			attached, err := Attach("lo", program, c.where, Answer)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				hint := c.err[strings.Index(c.err, "(tc ")+4 : len(c.err)-1]
				require.NoError(t, exec.Command("tc", strings.Fields(hint)...).Run())
				attached, err = Attach("lo", program, c.where, Answer)
			}
			require.NoError(t, err)
			sendDatagram(t)
			require.Equal(t, uint64(1), count())
			require.NoError(t, attached.Close())
			sendDatagram(t)
			require.Equal(t, uint64(1), count())
		})
	}
}

// counter returns a program that counts packets.
func counter(t *testing.T) (program *ebpf.Program, count func() uint64) {
	t.Helper()
	counts := wiretest.Must(ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}))(t)
	t.Cleanup(func() { counts.Close() })
	program = wiretest.Must(ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word), // key
			asm.LoadMapPtr(asm.R1, counts.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, -1).WithSymbol("end"), // go on
			asm.Return(),
		},
	}))(t)
	t.Cleanup(func() { program.Close() })
	return program, func() (n uint64) {
		require.NoError(t, counts.Lookup(uint32(0), &n))
		return n
	}
}

// sendDatagram sends a datagram to a socket of this host, and waits until it arrives.
func sendDatagram(t *testing.T) {
	t.Helper()
	to := wiretest.Must(net.ListenPacket("udp4", "127.0.0.1:0"))(t)
	defer to.Close()
	wiretest.Must(to.WriteTo([]byte{1}, to.LocalAddr()))(t)
	_, _, err := to.ReadFrom(make([]byte, 1))
	require.NoError(t, err)
}
