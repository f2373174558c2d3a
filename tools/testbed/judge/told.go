package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/rocecn/rocecn/message"
)

// checkNotified returns an error if notifications that the case has to show are missing: each line of
// its file told names a receiver and the kind of notification.
func (c testCase) checkNotified() error {
	wanted := strings.Fields(c.readText("told"))
	if len(wanted) == 0 {
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
	for ; len(wanted) > 1; wanted = wanted[2:] {
		var n notification
		if n.to, err = netip.ParseAddr(wanted[0]); err != nil {
			return err
		}
		if err = n.kind.UnmarshalText([]byte(wanted[1])); err != nil {
			return err
		}
		if !got[n] {
			return fmt.Errorf("%v got no %v", n.to, n.kind)
		}
	}
	return nil
}
