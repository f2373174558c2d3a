package host

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits for the contents of a folder, as recorded folders are untrusted. Anything beyond them is not read.
const (
	maxDevices  = 64
	maxPorts    = 255
	maxGIDs     = 1024
	maxCounters = 1024
	maxValue    = 4096 // octets of a file in sysfs
	maxEntries  = 4096 // of a folder
	maxAllPorts = 512
)

const infiniband = "sys/class/infiniband"

// readPorts reads the ports of all RDMA devices below a root. Files that cannot be read are omitted, and
// listed in u if they are counters. more is true if the limit was reached.
func readPorts(root fs.FS, u *unreadable) (all []Port, more bool) {
	devices := readEntries(root, infiniband)
	for _, device := range firstLine(devices, maxDevices) {
		folder := path.Join(infiniband, device, "ports")
		for _, name := range firstLine(readEntries(root, folder), maxPorts) {
			port, err := strconv.ParseUint(name, 10, 8)
			if err != nil {
				continue
			}
			if len(all) == maxAllPorts {
				return all, true
			}
			at := path.Join(folder, name)
			p := Port{Device: device, Port: int(port), Addresses: []netip.Addr{}, Interfaces: []string{},
				Counters: u.readCounters(root, path.Join(at, "counters")),
				HW:       u.readCounters(root, path.Join(at, "hw_counters"))}
			for _, index := range firstLine(readEntries(root, path.Join(at, "gids")), maxGIDs) {
				gid, ok := readValue(root, path.Join(at, "gids", index))
				a, err := netip.ParseAddr(gid)
				if !ok || err != nil || a.IsUnspecified() {
					continue
				}
				if a = a.Unmap(); !slices.Contains(p.Addresses, a) { // RoCE version 1 and 2 have the same
					p.Addresses = append(p.Addresses, a)
				}
				dev, ok := readValue(root, path.Join(at, "gid_attrs/ndevs", index))
				if ok && isName(dev) && !slices.Contains(p.Interfaces, dev) {
					p.Interfaces = append(p.Interfaces, dev)
				}
			}
			slices.SortFunc(p.Addresses, netip.Addr.Compare)
			slices.Sort(p.Interfaces)
			all = append(all, p)
		}
	}
	return all, len(devices) > maxDevices
}

// readDevices reads the counters of devices as a whole, of those that have any.
func readDevices(root fs.FS, u *unreadable) (all []Device) {
	for _, name := range firstLine(readEntries(root, infiniband), maxDevices) {
		if hw := u.readCounters(root, path.Join(infiniband, name, "hw_counters")); len(hw) > 0 {
			all = append(all, Device{name, hw})
		}
	}
	return all
}

// isName reports whether a text can be the name of an interface, and so of a file.
func isName(text string) bool {
	return text != "" && len(text) <= 15 && text != "." && text != ".." && !strings.ContainsAny(text, "/ \t\n\x00") &&
		text[0] != '-'
}

// unreadable lists the counters that have no number, one text for each folder.
type unreadable struct{ texts []string }

// maxUnreadable is the maximum number of counters that a text names, and maxReason the maximum length of their contents
// in it.
const (
	maxUnreadable = 16
	maxReason     = 80
)

// readCounters reads a folder of files with a number each. A driver or a card that does not have a counter may have
// text in its file, such as "N/A (no PMA)", or return an error.
func (u *unreadable) readCounters(root fs.FS, folder string) map[string]uint64 {
	all := map[string]uint64{}
	var names []string
	reason := ""
	for _, name := range firstLine(readEntries(root, folder), maxCounters) {
		text, err := readFile(root, path.Join(folder, name), maxValue)
		text = trimValue(text)
		n, wrong := strconv.ParseUint(text, 10, 64) // lifespan is a number as well
		switch {
		case err == nil && wrong == nil:
			all[name] = n
			continue
		case err == errNoFile: // a folder
			continue
		case err != nil:
			text = oneLine(err)
		default:
			text = strconv.Quote(text[:min(len(text), maxReason)])
		}
		names, reason = append(names, name), cmp.Or(reason, text)
	}
	delete(all, "lifespan") // lifetime of cached values, not a counter
	if len(names) > 0 {
		shown := strings.Join(firstLine(names, maxUnreadable), ", ")
		if more := len(names) - maxUnreadable; more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		where := strings.TrimPrefix(folder, infiniband+"/")
		u.texts = append(u.texts, fmt.Sprintf("%s: no number in %s: %s", where, shown, reason))
	}
	return all
}

// readEntries returns the names in a folder in their order, numbers by their value.
func readEntries(root fs.FS, folder string) (names []string) {
	f, err := root.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	list, _ := dir.ReadDir(maxEntries)
	for _, e := range list {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, func(a, b string) int {
		n, err1 := strconv.Atoi(a)
		m, err2 := strconv.Atoi(b)
		if err1 == nil && err2 == nil {
			return cmp.Compare(n, m)
		}
		return cmp.Compare(a, b)
	})
	return names
}

func firstLine(names []string, n int) []string { return names[:min(n, len(names))] }

// readValue reads a short file.
func readValue(root fs.FS, name string) (string, bool) {
	text, err := readFile(root, name, maxValue)
	return trimValue(text), err == nil
}

// trimValue removes the space around the contents of a file of sysfs, and the zeros that tar appends to them.
func trimValue(text string) string { return strings.Trim(text, " \t\r\n\x00") }

var errNoFile = errors.New("no regular file")

// readFile reads up to most octets of a regular file. It does not open anything else, as a pipe could block.
func readFile(root fs.FS, name string, most int64) (string, error) {
	if info, err := fs.Stat(root, name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errNoFile
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err
}

// parsePauses returns the pause counters in the output of ethtool -S: lines of a name, a colon and a number.
func parsePauses(text string) map[string]uint64 {
	all := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, number, ok := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if name = strings.TrimSpace(name); ok && err == nil && isPause(name) && len(all) < maxCounters {
			all[name] = n
		}
	}
	return all
}

// isPause reports whether a counter is about pauses: mlx5 has rx_prio3_pause, ice tx_priority_3_xoff.nic, bnxt_en
// rx_pfc_ena_frames_pri3.
func isPause(name string) bool {
	return strings.Contains(name, "pause") || strings.Contains(name, "xoff") || strings.Contains(name, "xon") ||
		strings.Contains(name, "pfc")
}

// readInterfaces returns the names of the interfaces of ports, each once.
func readInterfaces(ports []Port) []string {
	names := map[string]bool{}
	for i := range ports {
		for _, name := range ports[i].Interfaces {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
