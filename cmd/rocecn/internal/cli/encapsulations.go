package cli

import (
	"errors"
	"flag"
	"strconv"

	"github.com/rocecn/rocecn/rocev2"
)

// Encapsulations are flags for encapsulations that packets do not identify.
type Encapsulations struct{ rocev2.Encapsulations }

// Flags adds -vxlan-port, -fou-port and -csig-tpid.
func (e *Encapsulations) Flags(flags *flag.FlagSet) {
	addPort := func(ports *[]uint16) func(string) error {
		return func(s string) error {
			var port portFlag
			if err := port.Set(s); err != nil {
				return err
			}
			*ports = append(*ports, uint16(port))
			return nil
		}
	}
	flags.Func("vxlan-port", "UDP destination `port` of VXLAN besides 4789 and 8472; repeatable",
		addPort(&e.VXLANPorts))
	flags.Func("fou-port", "UDP destination `port` of IP or Ethernet directly in UDP (FOU); repeatable",
		addPort(&e.FOUPorts))
	flags.Func("csig-tpid", "`EtherType` of CSIG tags (default 0x9900)", func(s string) error {
		n, err := strconv.ParseUint(s, 0, 16)
		if err != nil || n < 0x600 {
			return errors.New("want an EtherType from 0x600 to 0xffff, as in 0x9900")
		}
		e.CSIGTPID = uint16(n)
		return nil
	})
}

// Options returns the encapsulations for rocev2.DecodeOptions, or nil if no flag is set.
func (e *Encapsulations) Options() *rocev2.Encapsulations {
	if len(e.VXLANPorts) == 0 && len(e.FOUPorts) == 0 && e.CSIGTPID == 0 {
		return nil
	}
	return &e.Encapsulations
}
