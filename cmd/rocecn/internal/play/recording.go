package play

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/bmp"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
)

var errNotRouting = errors.New(`want a switch with proxies_from = "routing"`)

// A recording is a recorded BMP stream. The messages take effect at the times in their headers, in their order; one
// without a time follows the message before it. If the first time is later than the first frame, the clocks cannot be
// compared, and all messages take effect before that frame.
type recording struct {
	file    *os.File
	in      *bufio.Reader
	table   *bmp.Table
	session *bmp.Session
	message []byte
	at      time.Time // when message takes effect; zero before the first time in the stream
	begun   bool
	err     error // reason for which no more messages come
}

// openRecording opens the stream in a file, and gives a role the proxies in it.
func openRecording(name string, instance *roles.Instance) (*recording, error) {
	c, ok := instance.Config.(*roles.SwitchConfig)
	if !ok || !c.FromRouting() {
		return nil, errNotRouting
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	r := &recording{file: file, in: bufio.NewReader(file), table: bmp.NewTable(c.Code(), bmp.Settings{Hold: c.Hold()})}
	c.UseRouting(r.table)
	r.readNext()
	return r, nil
}

// readNext reads the next message.
func (r *recording) readNext() {
	if r.message, r.err = bmp.ReadMessage(r.in, r.message); r.err != nil {
		return
	}
	if at, ok := bmp.MessageTime(r.message); ok && at.After(r.at) {
		r.at = at
	}
}

// advance lets the messages up to a time take effect. It reports whether the recording begins after the first frame.
func (r *recording) advance(now time.Time) (late bool) {
	if !r.begun {
		r.begun = true
		r.session, _ = r.table.Open(netip.IPv4Unspecified(), now) // the only session
		for r.err == nil && r.at.IsZero() {
			r.receiveNext(now)
		}
		late = r.at.After(now)
	}
	for r.err == nil && (late || !r.at.After(now)) {
		at := r.at
		if late {
			at = now
		}
		r.receiveNext(at)
	}
	r.table.Advance(now)
	return late
}

// receiveNext passes a message to the table.
func (r *recording) receiveNext(at time.Time) {
	if err := r.session.Receive(r.message, at); err != nil {
		r.session.Close(at)
		r.err = io.EOF
		return
	}
	r.readNext()
}

// damage returns the error because of which the rest of the stream could not be read, or nil.
func (r *recording) damage() error {
	if r == nil || r.err == io.EOF {
		return nil
	}
	return r.err
}
