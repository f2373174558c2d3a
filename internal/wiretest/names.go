package wiretest

import "github.com/rocecn/rocecn"

// Names says whether err is, or joins, an error of this package about this
// field: what tests of other packages know an error by that is not exported.
func Names(err error, pkg, field string) bool {
	switch e := err.(type) {
	case *rocecn.Error:
		if e.Package == pkg && e.Field == field {
			return true
		}
		return false
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if Names(err, pkg, field) {
				return true
			}
		}
	case interface{ Unwrap() error }:
		return Names(e.Unwrap(), pkg, field)
	}
	return false
}
