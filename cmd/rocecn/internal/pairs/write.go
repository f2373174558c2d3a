package pairs

import (
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

// evidenceText returns the evidence for the pair, or the reason why there is none.
func (r *row) evidenceText() string {
	switch {
	case r.pair.From != 0:
		return r.pair.From.String()
	case r.ambiguous:
		return "ambiguous"
	}
	return "unknown"
}

// writeTable writes the rows for people.
func writeTable(w io.Writer, rows []*row) error {
	if len(rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FLOW\tQP\tFROM QP\tBY\tTRANSPORT\tMTU\tPKEY\tPACKETS\tFIRST\tLAST")
	for _, r := range rows {
		from, mtu := "-", "-"
		if r.pair.From != 0 {
			from = fmt.Sprintf("0x%06x", r.pair.SrcQP)
		}
		if r.pair.MTU != 0 {
			mtu = fmt.Sprint(r.pair.MTU)
		}
		fmt.Fprintf(table, "%v > %v\t0x%06x\t%s\t%s\t%v\t%s\t0x%04x\t%d\t%s\t%s\n", r.flow.Src, r.flow.Dst,
			r.flow.DestQP, from, r.evidenceText(), r.pair.Transport, mtu, r.pair.PKey, r.packets, formatTime(r.first),
			formatTime(r.last))
	}
	return table.Flush()
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04:05.000000")
}

// line is a row as JSON.
type line struct {
	Src       netip.Addr `json:"src"`
	Dst       netip.Addr `json:"dst"`
	DestQP    uint32     `json:"dest_qp"`
	SrcQP     *uint32    `json:"src_qp,omitempty"`
	SrcQPFrom string     `json:"src_qp_from"`
	Transport string     `json:"transport"`
	MTU       uint16     `json:"mtu,omitempty"`
	PKey      string     `json:"pkey"`
	Packets   uint64     `json:"packets"`
	First     cli.Time   `json:"first,omitzero"`
	Last      cli.Time   `json:"last,omitzero"`
}

// writeJSON writes a JSON object for each row.
func writeJSON(w io.Writer, rows []*row) error {
	encoder := cli.NewJSON(w)
	for _, r := range rows {
		l := line{
			Src: r.flow.Src, Dst: r.flow.Dst, DestQP: r.flow.DestQP, Transport: r.pair.Transport.String(),
			SrcQPFrom: r.evidenceText(), MTU: r.pair.MTU, PKey: fmt.Sprintf("0x%04x", r.pair.PKey), Packets: r.packets,
			First: cli.Time(r.first), Last: cli.Time(r.last),
		}
		if r.pair.From != 0 {
			l.SrcQP = &r.pair.SrcQP
		}
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
