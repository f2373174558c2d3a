package wiretest

import "testing"

// Must returns a function that returns v, or ends the test if err is not nil:
//
//	octets := wiretest.Must(packet.AppendBinary(nil))(t)
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
