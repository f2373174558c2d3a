package fastpath

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A packet that leaves by a VLAN has its tag outside its data until the device inserts it. The Fast CNP about it
// leaves by another interface, without a tag.
func TestAnswererVLAN(t *testing.T) {
	ports := []Port{{"out", from(1)}}
	b := newBottleneck(t, AnswererConfig{Ports: ports})
	require.NoError(t, b.answerer.Close())
	tag, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{0x81, 0x00}))),
			asm.Mov.Imm(asm.R3, 100),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // go on
			asm.Return(),
		},
	})
	require.NoError(t, err)
	defer tag.Close()
	b.node.Do(t, func() error { // the program attached first runs first
		link, err := tc.Attach("out", tag, ebpf.AttachTCXEgress, 1)
		require.NoError(t, err)
		t.Cleanup(func() { link.Close() })
		b.answerer, err = OpenAnswerer(AnswererConfig{Self: self, Ports: ports})
		return err
	})
	defer b.answerer.Close()
	require.NoError(t, b.answerer.SetSender(netip.PrefixFrom(unknown, 128), NotifyAndMark))
	before := b.backlog(t)
	first, second := data(t, stranger, 1, 64), data(t, unknown, 2, 64)
	b.send(t, first, second)
	b.await(t, before+uint64(2*14+len(first)+len(second)))
	wiretest.Await(t, "the copy has been seen", func() bool { return b.answerer.Counters().Sent == 1 })
	readPackets(t, b.start, func(p *rocev2.Packet) bool {
		if p.BTH.Opcode != bth.CNP {
			return false
		}
		var about rocev2.Packet
		require.NoError(t, about.DecodeIP(second))
		want, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{})
		require.NoError(t, err)
		require.Equal(t, want, p.IP)
		require.Len(t, p.Link, 14)
		return true
	})
}
