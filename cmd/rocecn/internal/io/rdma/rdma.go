// Package rdma reads the queue pairs of this host's RDMA devices by the program rdma of iproute2. The kernel knows
// them, so they need not be learned from packets, which a card with hardware RoCE does not show to the kernel.
package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
)

// A Pair is a connected queue pair of this host.
type Pair struct {
	Device       string // such as mlx5_0 or rxe0
	QP, RemoteQP uint32
	// Remote is the address of the peer, or the zero Addr for connections that the connection manager did not set
	// up.
	Remote netip.Addr
}

// A Reader reads the connected queue pairs of all devices again and again. It runs the program rdma once for each read,
// and a second time, for the addresses of the connection manager, in the first reads after the queue pairs have
// changed, and in each 60th read after that. The zero Reader is ready for use.
type Reader struct {
	pairs []Pair // of the last read of addresses
	same  int    // number of reads since the queue pairs changed
}

// addressReads is the number of reads after a change in which the Reader reads addresses: a connection of the manager
// may be complete later than its queue pair. It reads them again in each addressPeriod-th read, because a connection to
// another peer may get the numbers of an earlier one.
const addressReads, addressPeriod = 3, 60

// Pairs returns the queue pairs. The caller must not change the slice.
func (r *Reader) Pairs(ctx context.Context) (all []Pair, err error) {
	ctx, cancel := programs.WithTimeout(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			*r = Reader{}
		}
	}()
	qps, err := runShow(ctx, "qp")
	if err != nil {
		return nil, err
	}
	all = parsePairs(qps)
	withoutAddress := func(a, b Pair) bool { return a.Device == b.Device && a.QP == b.QP && a.RemoteQP == b.RemoteQP }
	if !slices.EqualFunc(all, r.pairs, withoutAddress) {
		r.same = 0
	}
	r.same++
	if r.same > addressReads && r.same%addressPeriod != 0 {
		return r.pairs, nil
	}
	ids, err := runShow(ctx, "cm_id")
	if err != nil {
		return nil, err
	}
	setAddresses(all, ids)
	r.pairs = all
	return all, nil
}

// devicesFolder has an entry for each RDMA device of the network namespace. Tests change it.
var devicesFolder = "/sys/class/infiniband"

// Devices returns the names of the RDMA devices of this host, sorted.
func Devices() (names []string) {
	all, _ := os.ReadDir(devicesFolder) // missing without RDMA
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

var errPrinted = errors.New("error output")

// runShow returns the output of rdma resource show for a kind of resources.
func runShow(ctx context.Context, kind string) (string, error) {
	var out, stderr bytes.Buffer
	cmd := programs.Command(ctx, "rdma", "resource", "show", kind)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("rdma: %w", context.Cause(ctx))
	}
	if text := strings.TrimSpace(stderr.String()); text != "" { // errors that do not change the exit status
		return "", fmt.Errorf("rdma: %w: %s", errPrinted, text)
	}
	if err != nil {
		return "", fmt.Errorf("rdma: %w", err)
	}
	return out.String(), nil
}

// parsePairs parses the queue pairs that rdma prints, as lines of keys and values.
func parsePairs(qps string) (all []Pair) {
	for line := range strings.Lines(qps) {
		f := splitFields(line)
		qp, ok := parseNumber(f["lqpn"])
		remote, connected := parseNumber(f["rqpn"])
		device, _, _ := strings.Cut(f["link"], "/") // without the port
		sends := f["state"] == "RTS" || f["state"] == "SQD"
		if !ok || !connected || remote == 0 || !sends {
			continue
		}
		all = append(all, Pair{Device: device, QP: qp, RemoteQP: remote})
	}
	return all
}

// setAddresses sets the remote addresses of queue pairs by the connection manager ids that rdma prints.
func setAddresses(all []Pair, ids string) {
	type name struct {
		device string
		qp     uint32
	}
	remotes := map[name]netip.Addr{}
	for line := range strings.Lines(ids) {
		f := splitFields(line)
		qp, ok := parseNumber(f["lqpn"])
		// An IPv6 address has no brackets: the port follows the last colon.
		at := strings.LastIndexByte(f["dst-addr"], ':')
		if !ok || at < 0 || f["state"] != "CONNECT" {
			continue
		}
		if a, err := netip.ParseAddr(f["dst-addr"][:at]); err == nil {
			device, _, _ := strings.Cut(f["link"], "/")
			remotes[name{device, qp}] = a.Unmap()
		}
	}
	for i := range all {
		all[i].Remote = remotes[name{all[i].Device, all[i].QP}]
	}
}

// splitFields returns the keys and values of a line. The program name after comm may contain anything, so after it
// only the last dst-addr counts: rdma prints only addresses and ids there.
func splitFields(line string) map[string]string {
	m := map[string]string{}
	words := strings.Fields(line)
	afterComm := false
	for i := 0; i+1 < len(words); i++ {
		key, value := words[i], words[i+1]
		switch {
		case key == "comm":
			afterComm = true
		case !afterComm:
			m[key] = value
			i++
		case key == "dst-addr":
			m[key] = value
		}
	}
	return m
}

// parseNumber parses a queue pair number.
func parseNumber(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 24)
	return uint32(n), err == nil
}
