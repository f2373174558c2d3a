package flows

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/flows"
)

// csvHeader returns the names of the columns: the identity of the flow, and the metrics.
func csvHeader() []string {
	return append([]string{"from", "to", "src", "dst", "dest_qp", "src_qp", "src_qp_from", "transport", "first", "last",
		"vlan", "dscp", "psn.first", "psn.last", "psn.first_trouble_frame", "worst_queue.node",
		"pcp", "src_mac", "dst_mac", "varies"}, metricNames()...)
}

// writeCSV writes the flows of a snapshot, one a row. Values that do not apply are empty.
func writeCSV(out *csv.Writer, s *flows.Snapshot, during *intervalLine) {
	if during == nil {
		during = &intervalLine{}
	}
	for i := range s.Flows {
		f := &s.Flows[i]
		srcQP, from := "", ""
		if f.SrcQPFrom != 0 {
			srcQP, from = fmt.Sprint(f.SrcQP), f.SrcQPFrom.String()
		}
		row := []string{during.From, during.To, f.Src.String(), f.Dst.String(), fmt.Sprint(f.DestQP), srcQP, from,
			f.Transport.String(), formatTime(f.First), formatTime(f.Last), orEmpty(f.VLAN != 0, uint64(f.VLAN)),
			strings.Trim(fmt.Sprint(setBits(f.DSCP)), "[]"),
			orEmpty(f.Sequenced, uint64(f.PSN.First)), orEmpty(f.Sequenced, uint64(f.PSN.Last)),
			orEmpty(f.FirstTrouble != 0, f.FirstTrouble), orEmpty(f.Queue.Known, f.Queue.Node),
			strings.Trim(fmt.Sprint(setBits(uint64(f.PCP))), "[]"), f.SrcMAC.String(), f.DstMAC.String(),
			strings.Join(varyingFields(&f.Varies), " ")}
		for _, m := range metrics {
			text := ""
			if n, ok := m.of(f); ok {
				text = strconv.FormatFloat(n, 'f', -1, 64)
			}
			row = append(row, text)
		}
		out.Write(row)
	}
	out.Flush()
}

func orEmpty(ok bool, n uint64) string {
	if !ok {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
