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

// Flows returns the flows that Fast CNPs were about, up to 65,536 of them, in no order: those that were seen least
// recently make room for others. While flows are added, some may be missing or twice in the result. Any goroutine may
// call it.
func (a *Answerer) Flows() (all []Flow, err error) {
	now, monotonic := time.Now(), bpf.Monotonic()
	keys, values := make([]flowKey, flowBatch), make([]notified, flowBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := a.objects.Flows.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			k, v := &keys[i], &values[i]
			all = append(all, Flow{
				Src: netip.AddrFrom16(k.Src), Dst: netip.AddrFrom16(k.Dst), DestQP: binary.BigEndian.Uint32(k.QP[:]),
				Sent: v.Sent, Limited: v.Limited, Level: uint8(v.Level), Depth: uint64(v.Depth),
				Last: now.Add(time.Duration(int64(v.Last) - monotonic)),
			})
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // the end
			return all, nil
		case err != nil:
			return all, err
		}
	}
}
