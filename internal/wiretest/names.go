package wiretest

import (
	"slices"

	"github.com/rocecn/rocecn"
)

// Names reports whether err is, or joins, an error of the named package about this field. Tests of
// other packages need it because the error type is not exported.
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
