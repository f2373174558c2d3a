package node

import (
	"errors"
	"time"

	"github.com/rocecn/rocecn/qpmap"
)

// Pairs say which queue pair sends a flow. A *[qpmap.Map] does, with what it was
// given or has learned.
type Pairs interface {
	SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error)
}

// SourceQP returns what p knows of the sender of a flow, or why it is not known:
// UnknownQP, as of every flow where p is nil, or AmbiguousQP.
func SourceQP(p Pairs, k qpmap.Key, now time.Time) (qpmap.Pair, Reason) {
	if p == nil {
		return qpmap.Pair{}, UnknownQP
	}
	pair, err := p.SourceQP(k, now)
	if err != nil {
		return qpmap.Pair{}, ReasonOf(err)
	}
	return pair, Accepted
}

// ReasonOf returns the reason that an error of a [qpmap.Map] stands for: Accepted,
// AmbiguousQP or UnknownQP.
func ReasonOf(err error) Reason {
	switch {
	case err == nil:
		return Accepted
	case errors.Is(err, qpmap.ErrAmbiguous):
		return AmbiguousQP
	}
	return UnknownQP
}
