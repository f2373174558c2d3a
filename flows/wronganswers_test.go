package flows

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// The decoder verifies the ICRC of answers and of notifications, and the UDP checksum of messages
// without ICRC. Those of truncated packets are not known.
func TestDecodeWrongAnswers(t *testing.T) {
	var frames [][]byte
	for _, name := range []string{"messages.pcap", "rxe-perf4.pcap", "fastcnp.pcap"} {
		for _, r := range wiretest.Capture(t, name) {
			frames = append(frames, r.Data)
		}
	}
	kinds := map[kind]int{}
	for _, b := range frames {
		var d Decoder
		var p Packet
		if !d.Decode(&p, b, rocev2.DecodeOptions{}) || p.kind < answerKind || p.kind == pfcKind || p.icrcWrong {
			continue
		}
		var u rocev2.Datagram
		var f rocev2.Frame
		f.Decode(b, rocev2.DecodeOptions{})
		require.NoError(t, f.Inner().Datagram(&u, p.ports()...))
		if u.Checksum == 0 && (p.kind == fcnKind || p.kind == proxyKind) {
			continue
		}
		kinds[p.kind]++
		last, right := &u.Data[int(u.Length)-8-1], bytes.Clone(b)
		*last ^= 1
		at := 0 // of this octet in the frame
		for b[at] == right[at] {
			at++
		}
		d.Decode(&p, b, rocev2.DecodeOptions{})
		require.True(t, p.icrcWrong, "kind %d", p.kind)
		d.NoICRC = true
		d.Decode(&p, b, rocev2.DecodeOptions{})
		require.False(t, p.icrcWrong, "kind %d", p.kind)
		d.NoICRC = false
		if d.Decode(&p, b[:at], rocev2.DecodeOptions{AllowTruncated: true}) {
			require.False(t, p.icrcWrong, "kind %d", p.kind)
		}
		*last ^= 1
	}
	for _, k := range []kind{answerKind, cnpKind, fastKind, ppfcKind, fcnKind, proxyKind} {
		require.NotZero(t, kinds[k], "kind %d", k)
	}
}

// ports returns the UDP ports of the packet's kind.
func (p *Packet) ports() []uint16 {
	switch p.kind {
	case fcnKind:
		return []uint16{fcn.Port}
	case proxyKind:
		return []uint16{1021, 1022}
	}
	return []uint16{rocev2.Port}
}

// An answer with a wrong ICRC counts as wrong and nowhere else.
func TestWrongAnswers(t *testing.T) {
	answer := func(op bth.Opcode, syndrome bth.Syndrome, psn uint32) func(s *script) Packet {
		return func(s *script) Packet {
			return Packet{kind: answerKind, pkt: observation{Opcode: op, Flow: s.keyBA(), PSN: psn, Syndrome: syndrome}}
		}
	}
	notice := func(k kind) func(s *script) Packet {
		return func(s *script) Packet {
			return Packet{kind: k, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: s.keyAB(), nHops: 1,
				queue: QueueDepth{1, 2, true}}
		}
	}
	for _, c := range []struct {
		name   string
		packet func(s *script) Packet
		want   WrongAnswers
	}{
		{"ACK", answer(bth.RCAcknowledge, 0x1F, 11), WrongAnswers{ACKs: 1}},
		{"sequence NAK", answer(bth.RCAcknowledge, 0x60, 11), WrongAnswers{NAKs: 1}},
		{"NAK remote access", answer(bth.RCAcknowledge, 0x62, 11), WrongAnswers{NAKs: 1}},
		{"RNR NAK", answer(bth.RCAcknowledge, 0x2E, 11), WrongAnswers{RNRNAKs: 1}},
		{"reserved syndrome", answer(bth.RCAcknowledge, 0x40, 11), WrongAnswers{}},
		{"READ response", answer(bth.RCRDMAReadResponseOnly, 0x1F, 11), WrongAnswers{}},
		{"CNP", notice(cnpKind), WrongAnswers{CNPs: 1}},
		{"Fast CNP", notice(fastKind), WrongAnswers{FastCNPs: 1}},
		{"PPFC", notice(ppfcKind), WrongAnswers{PPFC: 1}},
		{"proxy message", notice(proxyKind), WrongAnswers{Proxy: 1}},
		{"FCN", func(s *script) Packet {
			p := notice(fcnKind)(s)
			p.ingress, p.label = [16]byte{1}, 7
			return p
		}, WrongAnswers{FCN: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.Table = New(Config{Evidence: true, Series: true})
			s.exchangeCM(7, 10, 1024)
			s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 10,
				AckReq: true, Payload: 100}, tunnelled: true, ingress: [16]byte{1}, label: 7, trafficClass: 3})
			s.sendOnly(11, 13)
			before := s.onlyFlow()
			p := c.packet(s)
			p.icrcWrong = true
			s.observe(p)
			got := s.onlyFlow()
			require.Equal(t, c.want, got.Wrong)
			require.Equal(t, c.want.Total(), got.Evidence.Sign(SignWrongAnswer).Count)
			got.Wrong, *got.Evidence.Sign(SignWrongAnswer) = WrongAnswers{}, Sign{}
			require.Equal(t, before, got, "nothing else changed")
			require.Empty(t, s.Snapshot().Unpaired)
			p.icrcWrong = false
			s.observe(p)
			require.NotEqual(t, before, s.onlyFlow(), "the same answer with a right ICRC")
		})
	}
}

// Answers with a wrong ICRC teach no queue pairs, and complete no message.
func TestTrafficWithWrongAnswers(t *testing.T) {
	for seed := range uint64(20) {
		made := traffic.Generate(seed, traffic.Options{Clean: true, NoCM: true, Connections: 3})
		table, answers := New(Config{}), uint64(0)
		var d Decoder
		var p Packet
		for i, f := range made.Frames {
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			if p.kind == answerKind {
				p.icrcWrong = true
				if roles[p.pkt.Opcode].acknowledge {
					answers++
				}
			}
			table.Observe(&p, uint64(i+1), f.Time)
		}
		all, wrong := table.Snapshot(), uint64(0)
		for _, f := range all.Flows {
			require.True(t, isManagement(f.DestQP) || f.SrcQPFrom == 0, "seed %d: %v", seed, f.FlowKey)
			require.Zero(t, f.ACKs+f.PSN.Unseen+f.PSN.Lost)
			require.Nil(t, f.RTT)
		}
		for _, u := range all.Unpaired {
			require.Zero(t, u.ACKs)
			wrong += u.Wrong.ACKs
		}
		require.Equal(t, answers, wrong, "seed %d", seed)
	}
}

// A message with a wrong checksum that is about no known flow is counted with its frame.
func TestStrayWrongAnswer(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Evidence: true})
	for range 3 {
		s.observe(Packet{kind: fcnKind, pkt: observation{Flow: s.keyBA()}, ingress: [16]byte{1}, label: 7,
			icrcWrong: true})
	}
	all := s.Snapshot().Unpaired
	require.Len(t, all, 1)
	require.EqualValues(t, 3, all[0].Wrong.FCN)
	require.EqualValues(t, 3, all[0].WrongAnswer.Count)
	require.EqualValues(t, 1, all[0].WrongAnswer.First)
}
