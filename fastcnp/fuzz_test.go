package fastcnp

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func FuzzOption(f *testing.F) {
	a := receiver.As16()
	f.Add(a[:])
	f.Add(option2Data(0, 0, 0, 1, 1<<3, 0, 0x80, 0, 0, 0, 64, 0, 0, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Option
		if err := o.Decode(b); err != nil {
			require.Equal(t, Option{}, o)
			return
		}
		for range o.Trace.Nodes() {
		}
		out, err := o.AppendBinary(nil)
		if len(b) > 255 { // over Opt Data Len
			require.ErrorIs(t, err, ErrTooLong)
			return
		}
		require.NoError(t, err)
		require.Equal(t, b, out)
	})
}

// byParts encodes a Fast CNP by other functions: Option.AppendBinary, and packages
// ipv6opt and rocev2 for the header and the packet.
func byParts(t *testing.T, n *Notification, as rocev2.Carriage, coverage icrc.Coverage) []byte {
	data := wiretest.Must(n.Option.AppendBinary(nil))(t)
	w := ipv6opt.Begin(nil, 17)
	require.NoError(t, w.Add(n.OptionType, 4, 4-2*int(n.Option.Number), data))
	p := rocev2.Packet{BTH: bth.Headers{Header: n.CNP.Header}, Payload: n.CNP.Reserved[:], Coverage: coverage}
	if p.BTH.PKey == 0 {
		p.BTH.PKey = bth.DefaultPKey
	}
	require.NoError(t, answer.Carry(&p.Datagram, n.Src, n.Dst, &as))
	p.DstPort, p.NextHeader, p.Ext = rocev2.Port, 60, w.Finish()
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// FuzzPacket decodes any IP packet. A Fast CNP is encoded from its fields and decodes to
// the same fields; another RoCEv2 packet over IPv6 is answered by a Fast CNP, which
// decodes. Both have the octets of byParts.
func FuzzPacket(f *testing.F) {
	f.Add(build(f, 60, wiretest.Hex(f, option1Header)), uint8(0), false, uint8(0))
	f.Add(congested(f, 0, hopByHop(f, trace(1, 4, 2))).IP, uint8(LongTraceReject), true, uint8(icrc.Without))
	f.Add(congested(f, 0, hopByHop(f, trace(1, 61, 20))).IP, uint8(LongTraceTrim), false, uint8(icrc.Skipped))
	f.Add(congested(f, 0, nil).IP, uint8(LongTraceFallBack), true, uint8(icrc.AsSent))
	f.Add(congested(f, 43, routing(f)).IP, uint8(LongTraceFallBack), true, uint8(icrc.AsSent))
	f.Fuzz(func(t *testing.T, b []byte, long uint8, checksum bool, coverage uint8) {
		var p rocev2.Packet
		if p.DecodeIP(b) != nil {
			return
		}
		cfg := Config{Long: LongTrace(long % 3), Coverage: icrc.Coverage(coverage % 3)}
		cfg.Carriage.Checksum = checksum
		n, err := FromPacket(&p, CodePoints{})
		if err == nil {
			_ = n.Validate()
			for range n.Option.Trace.Nodes() {
			}
		} else {
			require.Equal(t, Notification{}, n)
			out, _, err := AppendFor(nil, &p, loopback, nil, cfg)
			if p.Src.Is4() {
				require.ErrorIs(t, err, ErrIPv4)
				return
			}
			switch {
			case err == nil:
			case err == rocev2.ErrNotification:
				require.Equal(t, bth.CNP, p.BTH.Opcode)
				return
			case err == rocev2.ErrAcknowledgement:
				require.True(t, p.BTH.Opcode.IsAcknowledge())
				return
			case err == rocev2.ErrNotReachable:
				require.True(t, rocev2.CheckAnswerable(p.Src) != nil || rocev2.CheckAnswerable(p.FinalDst()) != nil)
				return
			case err == rocev2.ErrTunnelled:
				require.NotEmpty(t, p.Outer)
				return
			default:
				require.ErrorIs(t, err, ErrTooLong)
				require.NotEqual(t, LongTraceFallBack, cfg.Long)
				return
			}
			congested := p
			require.NoError(t, p.DecodeIP(out))
			n = wiretest.Must(FromPacket(&p, CodePoints{}))(t)
			require.Equal(t, Notification{
				Src: loopback, Dst: congested.Src, CNP: cnp.New(congested.BTH.DestQP, congested.BTH.PKey),
				Option: Option{Number: n.Option.Number, OriginalDst: congested.FinalDst(), Reserved: n.Option.Reserved,
					Trace: n.Option.Trace},
				OptionType: [...]ipv6opt.Type{1: Option1Type, 2: Option2Type}[n.Option.Number], Offset: n.Offset,
			}, n)
			cfg.Carriage.SrcPort = congested.SrcPort
			require.Equal(t, byParts(t, &n, cfg.Carriage, cfg.Coverage), out)
		}
		out, err := n.AppendPacket(nil, Config{Carriage: cfg.Carriage})
		if rocev2.CheckAnswerable(n.Src) != nil || rocev2.CheckAnswerable(n.Dst) != nil ||
			rocev2.CheckAnswerable(n.Option.OriginalDst) != nil {
			require.ErrorIs(t, err, rocev2.ErrNotReachable)
			return
		}
		require.NoError(t, err)
		require.Equal(t, byParts(t, &n, cfg.Carriage, icrc.AsSent), out)
		var q rocev2.Packet
		require.NoError(t, q.DecodeIP(out))
		again := wiretest.Must(FromPacket(&q, CodePoints{}))(t)
		n.Offset, again.Offset = 0, 0
		if n.CNP.PKey == 0 { // stands for the default partition
			n.CNP.PKey = bth.DefaultPKey
		}
		require.Equal(t, n, again)
	})
}

func FuzzFromICMP(f *testing.F) {
	f.Add(problem(2, 42, build(f, 60, wiretest.Hex(f, option1Header))))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := FromICMP(b, CodePoints{})
		if err != nil {
			require.Equal(t, Notification{}, n)
			return
		}
		require.Contains(t, []ipv6opt.Type{Option1Type, Option2Type}, n.OptionType)
	})
}
