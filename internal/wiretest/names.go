package wiretest

import (
	"slices"

	"github.com/rocecn/rocecn"
)

// Names says whether err is, or joins, an error of this package about this
// field: what tests of other packages know an error by that is not exported.
func Names(err error, pkg, field string) bool {
	switch e := err.(type) {
	case *rocecn.Error:
		return e.Package == pkg && e.Field == field
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return Names(err, pkg, field) })
	case interface{ Unwrap() error }:
		return Names(e.Unwrap(), pkg, field)
	}
	return false
}
