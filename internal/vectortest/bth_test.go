package vectortest

import (
	"encoding/hex"
	"maps"
	"testing"

	"github.com/rocecn/rocecn/bth"
)

func TestBTH(t *testing.T) {
	run(t, "bth", func(b []byte) (o outcome) {
		var h bth.Headers
		rest, err := h.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = base(&h.Header)
		headers := []fields{}
		for x := range h.Present.All() {
			f := extended(&h, x)
			f["type"] = x.String()
			headers = append(headers, f)
		}
		o.decoded["headers"], o.decoded["rest"] = headers, hex.EncodeToString(rest)
		o.deviates = h.Validate()
		o.encoded, o.err = h.AppendBinary(nil)
		o.encoded = append(o.encoded, rest...)
		return o
	})
}

// base returns the fields of the BTH alone.
func base(h *bth.Header) fields {
	return fields{
		"opcode": hexadecimal(h.Opcode, 2), "se": h.Solicited, "migreq": h.MigReq, "pad": h.Pad, "tver": h.TVer,
		"pkey": hexadecimal(h.PKey, 4), "fecn": h.FECN, "becn": h.BECN, "resv6": h.Resv6, "dest_qp": h.DestQP,
		"ackreq": h.AckReq, "resv7": h.Resv7, "psn": h.PSN,
	}
}

func extended(h *bth.Headers, x bth.HeaderSet) fields {
	switch x {
	case bth.HasRDETH:
		return fields{"ee": h.RDETH.EEContext}
	case bth.HasDETH:
		return fields{"qkey": hexadecimal(h.DETH.QKey, 8), "src_qp": h.DETH.SrcQP}
	case bth.HasXRCETH:
		return fields{"srq": h.XRCETH.SRQ}
	case bth.HasFETH:
		return fields{"selectivity": h.FETH.Selectivity, "placement": h.FETH.Placement}
	case bth.HasRETH:
		return fields{"va": hexadecimal(h.RETH.VirtualAddress, 16), "rkey": hexadecimal(h.RETH.RKey, 8),
			"dma_len": h.RETH.DMALength}
	case bth.HasAtomicETH:
		a := &h.AtomicETH
		return fields{"va": hexadecimal(a.VirtualAddress, 16), "rkey": hexadecimal(a.RKey, 8),
			"swap": hexadecimal(a.SwapAdd, 16), "compare": hexadecimal(a.Compare, 16)}
	case bth.HasAETH:
		return fields{"syndrome": uint8(h.AETH.Syndrome), "msn": h.AETH.MSN}
	case bth.HasAtomicAckETH:
		return fields{"original": hexadecimal(h.AtomicAckETH.Original, 16)}
	case bth.HasImmDt:
		return fields{"data": hexadecimal(h.ImmDt.Data, 8)}
	case bth.HasIETH:
		return fields{"rkey": hexadecimal(h.IETH.RKey, 8)}
	}
	return fields{}
}

// with returns f with more fields.
func with(f, more fields) fields {
	maps.Copy(f, more)
	return f
}
