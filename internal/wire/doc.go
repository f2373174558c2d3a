// Package wire has the numbers of the headers around the formats of this library, and accessors for these headers:
// Ethernet with tags, IPv4, IPv6 with extension headers, and UDP. Everything in this module that reads one of them
// uses these accessors, and everything that writes one uses these numbers.
//
// An accessor named after a field reads it from octets that begin with the complete fixed header; it panics if there
// are fewer. Functions that take other octets check their number and document the result.
package wire

import "encoding/binary"

var be = binary.BigEndian
