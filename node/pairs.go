package node

import (
	"errors"
	"time"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Pairs say which queue pair sends a flow. A *[qpmap.Map] does, with what it was
// given or has learned.
type Pairs interface {
	SourceQP(k rocev2.FlowKey, domain uint32, now time.Time) (qpmap.Pair, error)
}

// SourceQP returns what p knows of the sender of a flow, or why it is not known:
// UnknownQP, as of every flow where p is nil, or AmbiguousQP.
func SourceQP(p Pairs, k rocev2.FlowKey, domain uint32, now time.Time) (qpmap.Pair, Reason) {
	if p == nil {
		return qpmap.Pair{}, UnknownQP
	}
	pair, err := p.SourceQP(k, domain, now)
	switch {
	case err == nil:
		return pair, Accepted
	case errors.Is(err, qpmap.ErrAmbiguous):
		return qpmap.Pair{}, AmbiguousQP
	}
	return qpmap.Pair{}, UnknownQP
}
