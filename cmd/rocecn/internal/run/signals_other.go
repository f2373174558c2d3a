//go:build !unix

package run

import "os"

// watchSignals returns channels that never receive, as there are no such signals.
func watchSignals() (hup, usr1 chan os.Signal, stop func()) { return nil, nil, func() {} }
