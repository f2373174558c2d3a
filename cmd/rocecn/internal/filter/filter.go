// Package filter is the command that prints filters for other programs, for
// tcpdump and sockets those that select packets for a capture, for nftables,
// iptables and tc those that keep messages from crossing a border, and for nftables
// those that keep them from a host's Linux.
package filter

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/net/bpf"
)

const help = `usage: rocecn filter KIND [-tcpdump|-bpf|-nft|-ip6tables] [flags]

KIND selects the traffic to capture:
  rocev2         RoCEv2 packets
  notifications  CNPs, Fast CNPs, PPFC, FCN and proxy messages
  ce             RoCEv2 packets that are marked CE
  qp             RoCEv2 packets to the queue pair that -qp names
  ours           FCN and proxy messages
  pairs          RoCEv2 packets that teach queue pairs
  flows          all that rocecn flows counts: RoCEv2, FCN and proxy messages, PFC and PAUSE, and tunnels
or packets that must not cross the border of a domain, for rules and for tc:
  border         Fast CNPs, FCN and proxy messages; optionally CNPs and PPFC
or packets to divert to the agent by NFLOG before the Linux stack rejects them:
  host           Fast CNPs to this host, and to hosts connected to -ports

  tcpdump -i eth0 "$(rocecn filter notifications)"
  rocecn filter border | nft -f -
  rocecn filter border -ip6tables | sh -e
  rocecn filter border -bpf >border.bpf
  tc qdisc add dev eth0 ingress
  tc filter add dev eth0 ingress bpf bytecode-file border.bpf action drop

`

// plainName matches names that mean nothing else to a shell, nft and iptables,
// which takes 28 octets.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,27}$`)

// options are the command line.
type options struct {
	kind                         string
	tcpdump, bpf, nft, ip6tables bool
	link                         string
	qp                           uint
	codePoints                   cli.CodePoints
	cnp, ppfc                    bool
	table, chain                 string
	group                        uint
	outPorts                     string
	encapsulations               cli.Encapsulations
}

// onlyFor says which kinds a flag is for, if it is not for all.
var onlyFor = map[string][]string{"qp": {"qp"}, "option-types": {"border"}, "cnp": {"border"}, "ppfc": {"border"},
	"chain": {"border"}, "group": {"host"}, "ports": {"host"}, "table": {"border", "host"},
	"fcn-port": withPorts, "proxy-port": withPorts, "vxlan-port": withTunnels, "fou-port": withTunnels,
	"csig-tpid": {"flows"}}

var (
	withPorts   = []string{"notifications", "ours", "flows", "border"}
	withTunnels = []string{"flows", "border"}
)

// formOf says which form of filter a flag is for, if that is not the one that is printed.
func (o *options) formOf(flag string) string {
	rules := (o.kind == "border" || o.kind == "host") && !o.tcpdump && !o.bpf
	switch {
	case flag == "link" && (rules || o.nft || o.ip6tables):
		return "-tcpdump and -bpf"
	case flag == "table" && (!rules || o.ip6tables):
		return "-nft"
	case flag == "chain" && !o.ip6tables:
		return "-ip6tables"
	}
	return ""
}

// Run is the command: it returns the exit status.
func Run(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	var o options
	flags := cli.Flags("filter", help, stderr)
	flags.BoolVar(&o.tcpdump, "tcpdump", false,
		"print an expression for tcpdump (the default for captures)")
	flags.BoolVar(&o.bpf, "bpf", false, "print a BPF program as numbers")
	flags.BoolVar(&o.nft, "nft", false, "print a table for nftables (the default for a border)")
	flags.BoolVar(&o.ip6tables, "ip6tables", false, "print commands of ip6tables and iptables; for a border")
	flags.StringVar(&o.link, "link", "ethernet",
		"`layer` that expression or program begin with: ethernet, ip, sll, sll2")
	flags.UintVar(&o.qp, "qp", 0, "destination queue `pair`, 24 bits")
	o.codePoints.Flags(flags)
	o.encapsulations.Flags(flags)
	flags.BoolVar(&o.cnp, "cnp", false, "border: CNPs do not cross either")
	flags.BoolVar(&o.ppfc, "ppfc", false, "border: PPFC notifications do not cross either")
	flags.StringVar(&o.table, "table", "", "`name` of the nftables table (default rocecn, host: rocecn_host)")
	flags.UintVar(&o.group, "group", 7, "host: `group` of NFLOG, that of a source of rocecn run")
	flags.StringVar(&o.outPorts, "ports", "", "host: comma-separated `interfaces` to which hosts are connected")
	flags.StringVar(&o.chain, "chain", "FORWARD", "`name` of the iptables chain")
	kinds, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(kinds) > 1:
		return cli.Misuse(stderr, "filter", errors.New("arguments left over: "+kinds[1]))
	case len(kinds) == 1:
		o.kind = kinds[0]
	}
	flags.Visit(func(f *flag.Flag) {
		if only := onlyFor[f.Name]; only != nil && !slices.Contains(only, o.kind) {
			err = fmt.Errorf("-%s: for %s only", f.Name, strings.Join(only, " and "))
		} else if only := o.formOf(f.Name); only != "" {
			err = fmt.Errorf("-%s: for %s only", f.Name, only)
		}
	})
	if err != nil {
		return cli.Misuse(stderr, "filter", err)
	}
	text, err := o.formatFilter()
	if err != nil {
		return cli.Misuse(stderr, "filter", err)
	}
	_, err = io.WriteString(stdout, text)
	return cli.End(stderr, "filter", err)
}

// formatFilter returns the filter.
func (o *options) formatFilter() (string, error) {
	link, err := o.linkType()
	if err != nil {
		return "", err
	}
	messages, err := o.codePoints.Config()
	if err != nil {
		return "", err
	}
	if o.kind == "host" {
		o.table = cmp.Or(o.table, "rocecn_host")
	}
	o.table = cmp.Or(o.table, "rocecn")
	for _, n := range []struct{ flag, name string }{{"-table", o.table}, {"-chain", o.chain}} {
		if !plainName.MatchString(n.name) {
			return "", fmt.Errorf("%s %q: want a letter, then letters, digits, - . and _, 28 in all", n.flag,
				n.name)
		}
	}
	chosen := 0
	for _, c := range []bool{o.tcpdump, o.bpf, o.nft, o.ip6tables} {
		if c {
			chosen++
		}
	}
	if chosen > 1 {
		return "", errors.New("want only one of -tcpdump, -bpf, -nft and -ip6tables")
	}
	switch o.kind {
	case "border":
		return o.borderRules(link, messages)
	case "host":
		return o.hostRules()
	}
	return o.captureRules(link, messages)
}

// hostRules returns the rules that capture the traffic to a host, or to hosts reached through it.
func (o *options) hostRules() (string, error) {
	if o.tcpdump || o.bpf || o.ip6tables {
		return "", errors.New("host: want -nft, as only nftables can log for the agent")
	}
	if o.group > 1<<16-1 {
		return "", fmt.Errorf("-group %d: want 0 to 65535", o.group)
	}
	var names []string
	if o.outPorts != "" {
		names = strings.Split(o.outPorts, ",")
	}
	for _, name := range names {
		if !plainName.MatchString(name) || len(name) > 15 {
			return "", fmt.Errorf("-ports: %q: want the name of an interface", name)
		}
	}
	return nflog.Rules(o.table, uint16(o.group), names...), nil
}

func (o *options) linkType() (rocev2.LinkType, error) {
	for _, l := range []rocev2.LinkType{rocev2.LinkEthernet, rocev2.LinkIP, rocev2.LinkSLL, rocev2.LinkSLL2} {
		if l.String() == o.link {
			return l, nil
		}
	}
	return 0, fmt.Errorf("-link %q: want ethernet, ip, sll or sll2", o.link)
}

func (o *options) borderRules(link rocev2.LinkType, messages message.Config) (string, error) {
	b := filter.Border{CodePoints: messages.CodePoints, FCNPort: messages.FCNPort,
		ProxyPort: messages.ProxyPort, CNP: o.cnp, PPFC: o.ppfc,
		TunnelPorts: slices.Concat(o.encapsulations.VXLANPorts, o.encapsulations.FOUPorts)}
	switch {
	case o.tcpdump:
		return "", errors.New("border: want -bpf, -nft or -ip6tables, as tcpdump expressions cannot read options")
	case o.bpf:
		return program(b.Program(link))
	case o.ip6tables:
		return b.IP6Tables(o.chain), nil
	}
	return b.NFT(o.table), nil
}

func (o *options) captureRules(link rocev2.LinkType, messages message.Config) (string, error) {
	c := filter.Capture{DestQP: uint32(o.qp), FCNPort: messages.FCNPort, ProxyPort: messages.ProxyPort,
		Encapsulations: o.encapsulations.Options()}
	if err := c.Selection.UnmarshalText([]byte(o.kind)); err != nil {
		const kinds = "rocev2, notifications, ce, qp, ours, pairs, flows, border, host"
		if o.kind == "" {
			return "", errors.New("no filter named: want one of " + kinds)
		}
		return "", fmt.Errorf("%q: want one of %s", o.kind, kinds)
	}
	switch {
	case o.qp >= 1<<24 || o.qp == 0 && c.Selection == filter.QueuePair:
		return "", fmt.Errorf("-qp %#x: want 1 to 0xffffff", o.qp)
	case o.nft || o.ip6tables:
		return "", fmt.Errorf("%s: want -tcpdump or -bpf, as rules are only for border and host", o.kind)
	case o.bpf:
		return program(c.Program(link))
	}
	expression, err := c.Expression(link)
	return expression + "\n", err
}

func program(p []bpf.RawInstruction, err error) (string, error) {
	return filter.Bytecode(p) + "\n", err
}
