package rdma

import (
	"context"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
)

// A QueuePair is a queue pair of this host with its owner.
type QueuePair struct {
	Device   string `json:"device"` // such as mlx5_0
	Port     int    `json:"port"`
	QP       uint32 `json:"qp"`
	RemoteQP uint32 `json:"remote_qp,omitempty"`
	Type     string `json:"type"`  // such as RC
	State    string `json:"state"` // such as RTS
	PID      int    `json:"pid,omitempty"`
	// Comm is the name of the owning program, or in brackets of a part of the kernel. A program may choose any
	// name.
	Comm string `json:"comm,omitempty"`
}

// QueuePairs returns the output of rdma resource show qp, connected or not, for [ParseQueuePairs].
func QueuePairs(ctx context.Context) (string, error) {
	ctx, cancel := programs.WithTimeout(ctx)
	defer cancel()
	return runShow(ctx, "qp")
}

// ParseQueuePairs parses the output of rdma resource show qp, up to most queue pairs. It skips other lines.
func ParseQueuePairs(text string, most int) (all []QueuePair) {
	for line := range strings.Lines(text) {
		f := splitFields(line)
		device, portText, _ := strings.Cut(f["link"], "/")
		port, err := strconv.ParseUint(portText, 10, 8)
		qp, ok := parseNumber(f["lqpn"])
		if err != nil || !ok || device == "" || f["type"] == "" || f["state"] == "" {
			continue
		}
		if len(all) == most {
			break
		}
		remote, _ := parseNumber(f["rqpn"])
		pid, _ := strconv.ParseUint(f["pid"], 10, 31)
		_, comm, _ := strings.Cut(line, " comm ")
		all = append(all, QueuePair{Device: device, Port: int(port), QP: qp, RemoteQP: remote, Type: f["type"],
			State: f["state"], PID: int(pid), Comm: strings.TrimSpace(comm)})
	}
	return all
}
