package inspect

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
)

// summaryKinds are all of them, in the order of the summary.
var summaryKinds = []message.Kind{
	message.KindData, message.KindAck, message.KindCNP, message.KindFastCNP, message.KindPPFC, message.KindFCN,
	message.KindProxy,
	message.KindUnknownOption, message.KindPFC, message.KindPause, message.KindOther, message.KindError,
}

// summary counts the findings of all files.
type summary struct {
	packets   int
	first     time.Time // earliest and latest packet
	last      time.Time
	kinds     [message.KindUnknownOption + 1]int
	right     [icrc.Skipped + 1]int // ICRCs, by their coverage
	wrong     int
	truncated int
	trimmed   int
	rocev1    int // of kind other
	cut       int // of kind error, but only for want of octets that the capture cut
	needed    int // the snap length with which they could be read
	live      bool
	dropped   uint64 // by the kernel, of a live capture
}

func (s *summary) add(f *finding) {
	s.packets++
	if t := f.record.Time; !t.IsZero() {
		if s.first.IsZero() || t.Before(s.first) {
			s.first = t
		}
		if t.After(s.last) {
			s.last = t
		}
	}
	s.kinds[f.kind]++
	if f.kind == message.KindOther && f.walked != nil && f.walked.EtherType() == wire.EtherRoCEv1 {
		s.rocev1++
	}
	if f.needed != 0 {
		s.needed = max(s.needed, f.needed)
		if f.kind == message.KindError {
			s.cut++
		}
	}
	switch {
	case f.trimmed:
		s.trimmed++
	case f.truncated:
		s.truncated++
	case f.packet == nil:
	case f.icrcOK:
		s.right[f.coverage]++
	default:
		s.wrong++
	}
}

// addAll adds the counts of other findings.
func (s *summary) addAll(o *summary) {
	s.packets += o.packets
	if !o.first.IsZero() && (s.first.IsZero() || o.first.Before(s.first)) {
		s.first = o.first
	}
	if o.last.After(s.last) {
		s.last = o.last
	}
	for i, n := range o.kinds {
		s.kinds[i] += n
	}
	for i, n := range o.right {
		s.right[i] += n
	}
	s.wrong += o.wrong
	s.truncated += o.truncated
	s.trimmed += o.trimmed
	s.rocev1 += o.rocev1
	s.cut += o.cut
	s.needed = max(s.needed, o.needed)
}

// print writes the summary:
//
//	253 packets: 72 data, 22 ack, 159 other
//	ICRC: 92 right, 2 wrong; truncated packets: 0; errors: 0
//	from 2026-11-21 09:50:36 to 2026-11-21 09:50:59 UTC
func (s *summary) print(w io.Writer) {
	var found []string
	for _, k := range summaryKinds {
		n := s.kinds[k]
		if k == message.KindError {
			n -= s.cut
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, k))
		}
	}
	if s.cut > 0 {
		found = append(found, fmt.Sprintf("%d truncated by the snapshot length", s.cut))
	}
	if len(found) == 0 {
		found = []string{"none"}
	}
	right, how := s.right[icrc.AsSent], ""
	for c := icrc.Without; c <= icrc.Skipped; c++ {
		if n := s.right[c]; n > 0 {
			right += n
			how += fmt.Sprintf(" (%d %s)", n, coverageText(c))
		}
	}
	fmt.Fprintf(w, "%s: %s\n", cli.Count(s.packets, "packet"), strings.Join(found, ", "))
	fmt.Fprintf(w, "ICRC: %d right%s, %d wrong; truncated packets: %d; errors: %d\n",
		right, how, s.wrong, s.truncated, s.kinds[message.KindError]-s.cut)
	if s.rocev1 > 0 {
		fmt.Fprintf(w, "%s of RoCEv1 (EtherType 0x8915), which is not decoded\n", cli.Count(s.rocev1, "packet"))
	}
	if s.trimmed > 0 {
		fmt.Fprintf(w, "trimmed by a switch: %d\n", s.trimmed)
	}
	switch {
	case s.cut > 0:
		fmt.Fprintf(w, "truncated before the end of the headers: %d, and possibly other traffic; "+
			"capture with -s %d or more\n", s.cut, s.needed)
	case s.needed > 0:
		fmt.Fprintf(w, "other traffic may be truncated before the end of its headers; capture with -s %d or more\n",
			s.needed)
	}
	if s.live {
		fmt.Fprintf(w, "dropped by the kernel: %d\n", s.dropped)
	}
	if !s.first.IsZero() {
		fmt.Fprintf(w, "from %s to %s UTC\n", s.first.Format(time.DateTime), s.last.Format(time.DateTime))
	}
}
