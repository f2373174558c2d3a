//go:build !unix

package run

import "os"

// signals returns where nothing ever comes.
func signals() (hup, usr1 chan os.Signal, stop func()) { return nil, nil, func() {} }
