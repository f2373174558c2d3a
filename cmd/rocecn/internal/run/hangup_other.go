//go:build !unix

package run

import "os"

// hangup returns where nothing ever comes.
func hangup() (c chan os.Signal, stop func()) { return nil, func() {} }
