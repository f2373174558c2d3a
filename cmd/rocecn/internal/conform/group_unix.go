//go:build unix

package conform

import (
	"os/exec"
	"syscall"
)

// killAsGroup makes a command a process group, which is killed as a whole. An interrupt of the terminal then only
// reaches the tester, which ends the command itself.
func killAsGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
