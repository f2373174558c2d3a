package cli

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
)

// Each flag sets its own part of the configuration, and has its own limits. The defaults are those of the library.
func TestCodePoints(t *testing.T) {
	const port, types = "want 1 to 65535", "an option type is a number from 2 to 255, as in 0x9e"
	for _, c := range []struct {
		args string
		want message.Config
		err  string
	}{
		{"", message.Config{FCNPort: 1021, ProxyPort: 1022}, ""},
		{"-fcn-port 1", message.Config{FCNPort: 1, ProxyPort: 1022}, ""},
		{"-proxy-port 65535", message.Config{FCNPort: 1021, ProxyPort: 65535}, ""},
		{"-fcn-port 0", message.Config{}, port}, {"-proxy-port 65536", message.Config{}, port},
		{"-proxy-port 0x10", message.Config{}, port},
		{"-fcn-port 4791", message.Config{}, "4791 is the port of RoCEv2"},
		{"-proxy-port 4789", message.Config{}, "4789 is the port of a tunnel"},
		{"-fcn-port 1022", message.Config{}, "-fcn-port, -proxy-port: both are 1022"},
		{"-proxy-family 4", message.Config{FCNPort: 1021, ProxyPort: 1022, ProxyFamily: proxymsg.IPv4}, ""},
		{"-proxy-family 6", message.Config{FCNPort: 1021, ProxyPort: 1022, ProxyFamily: proxymsg.IPv6}, ""},
		{"-proxy-family 5", message.Config{}, "want 4 or 6"},
		{"-option-types 2,255", message.Config{FCNPort: 1021, ProxyPort: 1022,
			CodePoints: fastcnp.CodePoints{Option1: 2, Option2: 255}}, ""},
		{"-option-types 0x9f", message.Config{FCNPort: 1021, ProxyPort: 1022,
			CodePoints: fastcnp.CodePoints{Option1: 0x9F, Option2: 0x9F}}, ""},
		{"-option-types 0", message.Config{}, types}, {"-option-types 1", message.Config{}, types},
		{"-option-types 2,1", message.Config{}, types}, {"-option-types 256", message.Config{}, types},
		{"-option-types 2,", message.Config{}, types}, {"-option-types 2,3,4", message.Config{}, types},
	} {
		t.Run(c.args, func(t *testing.T) {
			var points CodePoints
			flags := flag.NewFlagSet("", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			points.Flags(flags)
			points.ProxyFamily(flags)
			err := flags.Parse(strings.Fields(c.args))
			var got message.Config
			if err == nil {
				got, err = points.Config()
			}
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
