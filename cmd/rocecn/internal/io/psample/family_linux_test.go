package psample

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of the multicast group of packets is found by its name, at any position. The attributes are those of
// the controller of generic netlink: 1 the number of the family, 7 its groups, of which 1 is the name and 2 the number.
func TestReadFamily(t *testing.T) {
	packets := octetsOf(value{2, uint32(5)}, value{1, []byte("packets\x00")})
	config := octetsOf(value{1, []byte("config\x00")}, value{2, uint32(4)})
	for _, c := range []struct {
		name   string
		octets []byte
		id     uint16
		group  uint32
	}{
		{"packets last", octetsOf(value{1, uint16(27)}, value{7, octetsOf(value{1, config}, value{2, packets})}),
			27, 5},
		{"packets first", octetsOf(value{7, octetsOf(value{1, packets}, value{2, config})}, value{1, uint16(27)}),
			27, 5},
		{"no packets", octetsOf(value{1, uint16(27)}, value{7, octetsOf(value{1, config})}), 27, 0},
		{"no groups", octetsOf(value{1, uint16(27)}), 27, 0},
		{"number of 2 octets", octetsOf(value{1, uint16(27)}, value{7, octetsOf(value{1, octetsOf(value{2, uint16(5)},
			value{1, []byte("packets\x00")})})}), 27, 0},
		{"nothing", nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, group := readFamily(c.octets)
			require.Equal(t, c.id, id)
			require.Equal(t, c.group, group)
		})
	}
}
