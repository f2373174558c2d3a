package repo_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const capabilities = "CAP_BPF CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_PERFMON"

// The lines of the unit file, each with its reason. A line that is removed or weakened takes a protection or a right
// from every installed agent, which no other test can notice.
var unitLines = []struct{ line, reason string }{
	{"[Unit]", ""},
	{"Description=RoCEv2 congestion signalling", "shown by systemctl status"},
	{"Documentation=man:rocecn(1)", "the package installs this page"},
	{"Wants=network-online.target", "addresses of the configuration have to exist"},
	{"After=network-online.target", "likewise"},
	{"[Service]", ""},
	{"Type=notify", "the agent reports when its sources and sinks are open"},
	{"ExecStartPre=/usr/bin/rocecn check -config /etc/rocecn/rocecn.toml", "a wrong file is explained"},
	{"ExecStart=/usr/bin/rocecn run -config /etc/rocecn/rocecn.toml", ""},
	{`ExecReload=/bin/sh -c "kill -HUP $MAINPID"`, "the agent reads its file again on SIGHUP"},
	{"WatchdogSec=10", "the agent reports within half of it that its workers run"},
	{"Restart=on-failure", ""},
	{"RestartSec=1", ""},
	{"DynamicUser=yes", "not root"},
	{"AmbientCapabilities=" + capabilities, "those that any source needs"},
	{"CapabilityBoundingSet=" + capabilities, "and no others"},
	{"NoNewPrivileges=yes", "no set-user-ID program raises rights"},
	{"ProtectSystem=strict", "the file system is read-only"},
	{"ProtectHome=yes", ""},
	{"PrivateTmp=yes", ""},
	{"PrivateDevices=yes", "no disk, no memory device"},
	{"ProtectClock=yes", ""},
	{"ProtectKernelTunables=yes", "/proc/sys and /sys are read-only"},
	{"ProtectKernelModules=yes", ""},
	{"ProtectKernelLogs=yes", ""},
	{"ProtectControlGroups=yes", ""},
	{"ProtectHostname=yes", ""},
	{"ProtectProc=invisible", "no other process is visible"},
	{"RestrictNamespaces=yes", ""},
	{"RestrictRealtime=yes", ""},
	{"RestrictSUIDSGID=yes", ""},
	{"RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_UNIX", "those that sources and sinks use"},
	{"LockPersonality=yes", ""},
	{"MemoryDenyWriteExecute=yes", "Go needs no such memory"},
	{"SystemCallArchitectures=native", ""},
	{"SystemCallFilter=@system-service bpf perf_event_open", "BPF programs and tracing are the exceptions"},
	{"UMask=0077", "captures hold traffic of others"},
	{"LimitMEMLOCK=infinity", "BPF maps count as locked memory before Linux 5.11"},
	{"MemoryMax=1G", "the tables have maxima that fit"},
	{"TasksMax=4096", "checked by TestTasksMax of the agent"},
	{"[Install]", ""},
	{"WantedBy=multi-user.target", ""},
}

func TestUnitFile(t *testing.T) {
	text, err := os.ReadFile("packaging/rocecn.service")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	for i, want := range unitLines {
		require.Less(t, i, len(lines), "the file ends before %q (%s)", want.line, want.reason)
		require.Equal(t, want.line, lines[i], want.reason)
	}
	require.Len(t, lines, len(unitLines), "lines without a reason here")
}
