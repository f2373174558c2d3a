package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/rocecn/rocecn/message"
)

// checkTold returns an error if notifications that the case has to show are missing: each line of
// its file told names a receiver and the kind of notification.
func (c testCase) checkTold() error {
	told := strings.Fields(c.readText("told"))
	if len(told) == 0 {
		return nil
	}
	packets, err := readPackets(filepath.Join(c.folder, "before.pcap"))
	if err != nil {
		return err
	}
	type notification struct {
		to   netip.Addr
		kind message.Kind
	}
	got := map[notification]bool{}
	for _, p := range packets {
		got[notification{p.dst, p.kind}] = true
	}
	for ; len(told) > 1; told = told[2:] {
		var n notification
		if n.to, err = netip.ParseAddr(told[0]); err != nil {
			return err
		}
		if err = n.kind.UnmarshalText([]byte(told[1])); err != nil {
			return err
		}
		if !got[n] {
			return fmt.Errorf("%v got no %v", n.to, n.kind)
		}
	}
	return nil
}
