package fastpath

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
)

// A flowKey is struct flow of answer.bpf.c.
type flowKey struct {
	Src, Dst [16]byte
	QP       [4]byte // big-endian
}

// A notified is struct notified of answer.bpf.c.
type notified struct {
	Last, Sent, Limited uint64
	Level, Depth        uint32
}

// flowBatch is the number of flows that are read with one call of the kernel.
const flowBatch = 1024

// A FlowTable has the flows that Fast CNPs of an Answerer were about, up to 65,536: those that were seen least recently
// make room for others. It can still be read after the Answerer is closed.
type FlowTable struct{ flows *ebpf.Map }

// OpenFlows opens the table of flows, which the caller has to close.
func (a *Answerer) OpenFlows() (*FlowTable, error) {
	flows, err := a.objects.Flows.Clone()
	if err != nil {
		return nil, err
	}
	return &FlowTable{flows}, nil
}

// VisitFlows calls visit for each flow, in no order. visit must not keep the pointer. While flows are added, some may
// be missing or be visited twice.
func (t *FlowTable) VisitFlows(visit func(*Flow)) error {
	now, monotonic := time.Now(), bpf.Monotonic()
	keys, values := make([]flowKey, flowBatch), make([]notified, flowBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.flows.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			k, v := &keys[i], &values[i]
			visit(&Flow{
				Src: netip.AddrFrom16(k.Src), Dst: netip.AddrFrom16(k.Dst), DestQP: binary.BigEndian.Uint32(k.QP[:]),
				Sent: v.Sent, Limited: v.Limited, Level: uint8(v.Level), Depth: uint64(v.Depth),
				Last: now.Add(time.Duration(int64(v.Last) - monotonic)),
			})
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // the end
			return nil
		case err != nil:
			return err
		}
	}
}

// Close closes the table.
func (t *FlowTable) Close() error { return t.flows.Close() }
