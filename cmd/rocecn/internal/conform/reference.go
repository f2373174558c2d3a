package conform

import (
	"fmt"
	"strings"
)

// reference returns a commented profile for a role, or for each role.
func reference(role string) string {
	if role != "" {
		return referenceOf(role)
	}
	var all []string
	for _, name := range roleNames {
		all = append(all, referenceOf(name))
	}
	return strings.Join(all, "\n")
}

const referenceHead = `# Profile of rocecn conform for the role %s.
[device]
name = "my device"                                  # as the report names it
role = "%s"
addresses = ["2001:db8:ffff::5", "2001:db8:1::1"%s] # from which it sends, and those on the links to the tester
supports = [%s]
#   of %s
# enable = ["/usr/local/bin/device", "on"]          # for cases with supports = []: program that switches it on
# disable = ["/usr/local/bin/device", "off"]        # and off again
`

// referenceOf returns a commented profile for a role.
func referenceOf(role string) string {
	r := roleInfos[role]
	second := ""
	if r.forwards {
		second = `, "2001:db8:2::1"`
	}
	var quotedWords []string
	for _, w := range r.supports {
		quotedWords = append(quotedWords, fmt.Sprintf("%q", w))
	}
	var b strings.Builder
	fmt.Fprintf(&b, referenceHead, role, role, second, strings.Join(quotedWords, ", "), strings.Join(abilities, ", "))
	b.WriteString(referenceText[role])
	b.WriteString(referenceTail)
	return b.String()
}

const referenceTail = `
# [code_points]                                     # as the device is configured
# option_types = [158]                              # one for both options, or two
# fcn_port = 1021
# proxy_port = 1022
# vxlan_ports = [4789]
# ioam_namespaces = [123]                           # traces that get the device's own record, by default all

[time]
case = "10s"                                        # maximum duration of a case
settle = "1s"                                       # time to wait for the last answers
`

// The parts of profiles that several roles have.
const (
	referenceLimits = `
# [device.limits]                                   # as configured; absent: cases about limits do not apply
# per_flow = "10ms"                                 # congestion.rate has to be several packets of each flow in it
# total = 1000                                      # notifications a second
# idle = "3s"                                       # of an ingress PE: time after which a silent flow is forgotten
`
	referencePorts = `
[[port]]                                            # an interface of the tester
interface = "eth1"
side = "sender"                                     # the hosts that the tester plays there
address = "2001:db8:1::a"                           # the tester's own, for neighbour discovery
# mac = "02:00:00:00:00:01"                         # that of the interface by default
# neighbour_mac = "02:00:00:00:00:02"               # the device; found by neighbour discovery by default
# vlan = 0

[[port]]
interface = "eth2"
side = "receiver"
address = "2001:db8:2::b"
`
	referenceControl = `
[[port]]                                            # optional: by default messages come from the receiver port
interface = "eth3"
side = "control"
address = "2001:db8:3::9"                           # the congested node, which the device has to accept
`
	referenceHost = `
[[port]]                                            # the interface of the tester; with a second one it is a bridge
interface = "eth1"
side = "%s"
address = "2001:db8:1::a"                           # the congested node, which the device has to accept
# mac = "02:00:00:00:00:01"                         # that of the interface by default
# neighbour_mac = "02:00:00:00:00:02"               # the device; found by neighbour discovery by default
# vlan = 0
`
	referenceHosts = `
[hosts]                                             # addresses that the device reaches by these ports
sender = ["2001:db8:1::/64"]
receiver = ["2001:db8:2::/64"]
# capable = ["2001:db8:1:1::/64"]                   # senders that the device knows to understand Fast CNPs
# pe = ["2001:db8:1::5"]                            # ingress PEs that the tester plays
`
	referenceRate = `
# [congestion]
# rate = "10M"                                      # the tester sends at most these bits a second
`
	referencePairs = `
# [[pair]]                                          # a connection of the device
# src = "%s"
# dst = "%s"
# dest_qp = 17
# src_qp = 34                                       # the queue pair that sends
`
)

// referenceText has the part between the device and the code points, by role.
var referenceText = map[string]string{
	"switch": referenceLimits + referencePorts + referenceHosts + `
[congestion]
by = "overload"                                     # overload, command, or none
rate = "20M"                                        # bits a second of the tester: more than that port takes
for = "2s"                                          # at most 10s
# start = ["/usr/local/bin/congest", "on"]          # for command: program and arguments, run without a shell
# stop = ["/usr/local/bin/congest", "off"]
`,
	"receiver": referenceLimits + fmt.Sprintf(referenceHost, "sender") + `
[hosts]
sender = ["2001:db8:1::/64"]
` + referenceRate + fmt.Sprintf(referencePairs, "2001:db8:1::a", "2001:db8:1::1"),
	"sender":  fmt.Sprintf(referenceHost, "receiver") + referenceReceivers,
	"pause":   fmt.Sprintf(referenceHost, "receiver") + referenceReceivers,
	"proxy":   referenceLimits + referencePorts + referenceControl + referenceHosts + referenceRate,
	"ingress": referenceLimits + referencePorts + referenceControl + referenceHosts + referenceRate,
	"border":  referencePorts + referenceHosts + referenceRate,
}

// referenceReceivers are the receivers of a host's data.
var referenceReceivers = `
[hosts]
receiver = ["2001:db8:2::/64"]                      # to which the device sends
` + referenceRate + `#   by = "command" with start and stop, for a program that makes the device send
` + fmt.Sprintf(referencePairs, "2001:db8:1::1", "2001:db8:2::b")
