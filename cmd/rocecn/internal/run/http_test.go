package run

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// What goes wrong while the agent answers is logged like everything else.
func TestAnswersLog(t *testing.T) {
	s := prepared(t, "")
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	s.answers().ErrorLog.Print("http: Accept error")
	require.Contains(t, out.String(), ` level=WARN msg="http: Accept error"`)
}
