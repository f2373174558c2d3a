package pairs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"
)

// why says why there is no pair.
func (r *row) why() string {
	if r.ambiguous {
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
		from, by, mtu := "-", r.why(), "-"
		if r.pair.From != 0 {
			from, by = fmt.Sprintf("0x%06x", r.srcQP), r.pair.From.String()
		}
		if r.pair.MTU != 0 {
			mtu = fmt.Sprint(r.pair.MTU)
		}
		fmt.Fprintf(table, "%v > %v\t0x%06x\t%s\t%s\t%v\t%s\t0x%04x\t%d\t%s\t%s\n", r.flow.Src, r.flow.Dst,
			r.flow.DestQP, from, by,
			r.pair.Transport, mtu, r.pair.PKey, r.packets, clock(r.first), clock(r.last))
	}
	return table.Flush()
}

func clock(t time.Time) string {
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
	SrcQPFrom string     `json:"src_qp_from,omitempty"`
	Reason    string     `json:"reason,omitempty"` // why there is no src_qp
	Transport string     `json:"transport"`
	MTU       uint16     `json:"mtu,omitempty"`
	PKey      string     `json:"pkey"`
	Packets   uint64     `json:"packets"`
	First     *time.Time `json:"first,omitempty"`
	Last      *time.Time `json:"last,omitempty"`
}

// writeJSON writes a JSON object for each row.
func writeJSON(w io.Writer, rows []*row) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		l := line{
			Src: r.flow.Src, Dst: r.flow.Dst, DestQP: r.flow.DestQP, Transport: r.pair.Transport.String(),
			MTU:  r.pair.MTU,
			PKey: fmt.Sprintf("0x%04x", r.pair.PKey), Packets: r.packets,
		}
		if r.pair.From != 0 {
			l.SrcQP, l.SrcQPFrom = &r.srcQP, r.pair.From.String()
		} else {
			l.Reason = r.why()
		}
		if !r.first.IsZero() {
			l.First, l.Last = &r.first, &r.last
		}
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
