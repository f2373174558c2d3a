package rocelayers_test

import (
	"testing"

	"github.com/google/gopacket"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
)

// feedback records whether a layer reported truncation to its parser.
type feedback struct{ truncated bool }

func (f *feedback) SetTruncated() { f.truncated = true }

// A layer that is decoded on its own reports to gopacket that its octets end too early.
func TestLayersReportTruncation(t *testing.T) {
	for _, test := range []struct {
		name  string
		layer gopacket.DecodingLayer
		whole string // the shortest octets that the layer accepts
	}{
		{"BTH", &rocelayers.BTH{}, "04 40 ffff 00 000118 80 000001 2a00fd82"},
		{"HopByHop", &rocelayers.HopByHop{}, "3c00 0104 0000 0000"},
		{"DestinationOptions", &rocelayers.DestinationOptions{}, "1100 0104 0000 0000"},
		{"Routing", &rocelayers.Routing{}, "1100 0400 0000 0000"},
		{"IOAM", &rocelayers.IOAM{}, "310a 0000 0001 0008 800000 00"},
		{"FCN", &rocelayers.FCN{}, "10 3 12345"},
		{"FlowControl", &rocelayers.FlowControl{}, "0101 0008 0000 0000 0000 ffff 0000 0000 0000 0000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			whole := wiretest.Hex(t, test.whole)
			var f feedback
			require.NoError(t, test.layer.DecodeFromBytes(whole, &f))
			require.False(t, f.truncated)
			for n := range whole {
				f = feedback{}
				err := test.layer.DecodeFromBytes(whole[:n:n], &f)
				require.Error(t, err, n)
				require.True(t, f.truncated, "%d octets: %v", n, err)
			}
		})
	}
}
