package listen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/stretchr/testify/require"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", 2, "usage: rocecn listen"},
		{"-h", 0, "usage: rocecn listen"},
		{"[::1]:0 more", 2, "usage"},
		{"-no-such-flag [::1]:0", 2, "not defined"},
		{"-as cnp [::1]:0", 2, "-as cnp: want fcn or proxy"},
		{"-n -1 [::1]:0", 2, "-n -1: want 0 or more"},
		{"[::1]:0", 1, fmt.Sprintf("want %d, %d, or the flag", fcn.Port, proxymsg.Port)},
		{"nonsense", 1, "missing port"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, Run(t.Context(), strings.Fields(c.args), nil, &stdout, &stderr), c.args)
			require.Contains(t, stderr.String(), c.text, c.args)
			require.Empty(t, stdout.String())
		})
	}
}

// The flag -as selects the kind of message; without it, the port does.
func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		as   string
		port uint16
		want string
	}{
		{"", fcn.Port, "fcn"}, {"", proxymsg.Port, "proxy"},
		{"fcn", proxymsg.Port, "fcn"}, {"proxy", fcn.Port, "proxy"}, {"fcn", 7, "fcn"}, {"proxy", 7, "proxy"},
	} {
		got := wiretest.Must(kindOf(c.as, c.port))(t)
		require.Equal(t, c.want, got, "%v", c)
	}
	for _, port := range []uint16{0, 1020, 1023, 4791, 5000} {
		_, err := kindOf("", port)
		require.ErrorContains(t, err, "the flag -as fcn or -as proxy")
	}
}
