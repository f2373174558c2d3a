package wiretest

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// A Router is a routing daemon, or several, on a host.
type Router struct {
	host    *Host
	shell   []string // which takes commands
	daemons map[string]*os.Process
}

// Kill kills a daemon of FRRouting.
func (r *Router) Kill(t testing.TB, daemon string) {
	t.Helper()
	p, ok := r.daemons[daemon]
	if !ok {
		t.Fatalf("%s: daemon %q: want one that StartFRR has started", r.host.Name, daemon)
	}
	if err := p.Kill(); err != nil {
		t.Fatalf("%s: %s: %v", r.host.Name, daemon, err)
	}
}

// Output returns the output of a command.
func (r *Router) Output(t testing.TB, command string) string {
	t.Helper()
	return r.host.Run(t, "", r.shell[0], append(r.shell[1:len(r.shell):len(r.shell)], command)...)
}

// StartFRR starts zebra and then these daemons of FRRouting, each with its
// configuration.
func StartFRR(t testing.TB, h *Host, daemons ...Daemon) *Router {
	t.Helper()
	const programs = "/usr/lib/frr/"
	if _, err := os.Stat(programs + "zebra"); err != nil {
		Missing(t, "FRRouting is not installed")
	}
	dir := socketDir(t)
	frr, err := user.Lookup("frr") // user of the daemons
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(frr.Uid)
	gid, _ := strconv.Atoi(frr.Gid)
	if err := errors.Join(os.Chown(dir, uid, gid), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	started := map[string]*os.Process{}
	for _, d := range append([]Daemon{{Name: "zebra"}}, daemons...) {
		config := filepath.Join(dir, d.Name+".conf")
		if err := os.WriteFile(config, []byte("hostname "+h.Name+"\n"+d.Config), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-P", "0", "-f", config, "-i", filepath.Join(dir, d.Name+".pid"), "-z",
			filepath.Join(dir, "zserv"),
			"--vty_socket", dir, "--log", "stdout", "--log-level", "warnings"}
		started[d.Name] = h.Start(t, programs+d.Name, append(args, d.Args...)...)
		Await(t, h.Name+": "+d.Name+" is up", func() bool {
			_, err := os.Stat(filepath.Join(dir, d.Name+".vty"))
			return err == nil
		})
	}
	return &Router{h, []string{"vtysh", "--vty_socket", dir, "-c"}, started}
}

// A Daemon is one of FRRouting: "bgpd", "ospfd", "isisd".
type Daemon struct {
	Name   string
	Config string
	Args   []string
}

// StartBIRD starts the Internet routing daemon BIRD with a configuration.
func StartBIRD(t testing.TB, h *Host, config string) *Router {
	t.Helper()
	bird := Tool(t, "bird")
	dir := socketDir(t)
	socket, file := filepath.Join(dir, "bird.ctl"), filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Start(t, bird, "-f", "-c", file, "-s", socket, "-P", filepath.Join(dir, "bird.pid"))
	Await(t, h.Name+": bird is up", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
	return &Router{h, []string{"birdc", "-s", socket}, nil}
}

// socketDir returns a folder with a name that is short enough for sockets.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
