package wiretest

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// An FRR is a set of daemons of FRRouting on a host.
type FRR struct {
	host *Host
	dir  string
}

// StartFRR starts zebra and then these daemons of FRRouting, each with its
// configuration.
func StartFRR(t testing.TB, h *Host, daemons ...Daemon) *FRR {
	t.Helper()
	const programs = "/usr/lib/frr/"
	if _, err := os.Stat(programs + "zebra"); err != nil {
		Missing(t, "FRRouting is not installed")
	}
	f := &FRR{host: h, dir: socketDir(t)}
	frr, err := user.Lookup("frr") // whom the daemons run as
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(frr.Uid)
	gid, _ := strconv.Atoi(frr.Gid)
	if err := errors.Join(os.Chown(f.dir, uid, gid), os.Chmod(f.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, d := range append([]Daemon{{Name: "zebra"}}, daemons...) {
		config := filepath.Join(f.dir, d.Name+".conf")
		if err := os.WriteFile(config, []byte("hostname "+h.Name+"\n"+d.Config), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-P", "0", "-f", config, "-i", filepath.Join(f.dir, d.Name+".pid"), "-z",
			filepath.Join(f.dir, "zserv"),
			"--vty_socket", f.dir, "--log", "stdout", "--log-level", "warnings"}
		h.Start(t, programs+d.Name, append(args, d.Args...)...)
		Await(t, h.Name+": "+d.Name+" is up", func() bool {
			_, err := os.Stat(filepath.Join(f.dir, d.Name+".vty"))
			return err == nil
		})
	}
	return f
}

// A Daemon is one of FRRouting: "bgpd", "ospfd", "isisd".
type Daemon struct {
	Name   string
	Config string
	Args   []string
}

// Show returns what a command of the shell prints.
func (f *FRR) Show(t testing.TB, command string) string {
	t.Helper()
	return f.host.Run(t, "", "vtysh", "--vty_socket", f.dir, "-c", command)
}

// A BIRD is the Internet routing daemon of that name on a host.
type BIRD struct {
	host   *Host
	socket string
}

// StartBIRD starts BIRD with a configuration.
func StartBIRD(t testing.TB, h *Host, config string) *BIRD {
	t.Helper()
	bird := Tool(t, "bird")
	dir := socketDir(t)
	b := &BIRD{host: h, socket: filepath.Join(dir, "bird.ctl")}
	file := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Start(t, bird, "-f", "-c", file, "-s", b.socket, "-P", filepath.Join(dir, "bird.pid"))
	Await(t, h.Name+": bird is up", func() bool {
		_, err := os.Stat(b.socket)
		return err == nil
	})
	return b
}

// Show returns what a command of the client prints.
func (b *BIRD) Show(t testing.TB, command string) string {
	t.Helper()
	return b.host.Run(t, "", "birdc", "-s", b.socket, command)
}

// socketDir returns a folder whose name is short enough for sockets.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
