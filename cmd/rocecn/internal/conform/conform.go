// Package conform is `rocecn conform`: it tests a device of any vendor against the drafts.
//
//	rocecn conform -profile FILE [-role ROLE] [-case ID,…] [-json|-junit|-html FILE] [-capture DIR]
//
// The profile says how the device and the tester are connected. Each case tests one row of CONFORMANCE.md: the tester
// sends, captures the answers of the device and compares them with the figures of the draft. The exit status is 0 if
// each case passes or does not apply, 3 if a MUST fails, 1 if a case is inconclusive or could not run, 2 if the profile
// or the arguments are wrong.
package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
)

const usage = `usage: rocecn conform -profile FILE [-case ID,…] [-json [FILE]] [-junit FILE] [-html FILE] [-capture DIR]
       rocecn conform -reference [-role ROLE]
       rocecn conform -list [-role ROLE]
Tests a device against the drafts. docs/conform.md shows how to connect it and how to read a failure.
`

// options are the flags.
type options struct {
	profile, role, cases, jsonFile, junit, html, captures string

	json, list, reference, yes bool
}

// Run is the command: it returns the exit status. Cancelling ctx ends it after the running case.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return runWith(ctx, args, stdout, stderr, openNetwork)
}

// runWith is Run with the function that opens the rig.
func runWith(ctx context.Context, args []string, stdout, stderr io.Writer,
	open func(context.Context, *profile) (rig, error),
) int {
	var o options
	names := strings.Join(roleNames, "|")
	flags := cli.Flags("conform", usage, stderr)
	flags.StringVar(&o.profile, "profile", "", "the `file` that describes the device and the ports of the tester")
	flags.StringVar(&o.role, "role", "", "the `role` of the device, instead of that of the profile: "+names)
	flags.StringVar(&o.cases, "case", "",
		"run only these `cases`: F12.1, or F12 for all of F12, separated by commas")
	flags.BoolVar(&o.json, "json", false,
		"print JSON lines, one for each case and one for all, or write them to the file that follows")
	flags.StringVar(&o.junit, "junit", "", "also write the results as JUnit XML to this `file`")
	flags.StringVar(&o.html, "html", "", "also write the results as a page of HTML to this `file`")
	flags.StringVar(&o.captures, "capture", "", "write a capture of each case into this `folder`")
	flags.BoolVar(&o.list, "list", false, "list the cases of the role, and send nothing")
	flags.BoolVar(&o.reference, "reference", false, "print a commented profile for the role, or for each")
	flags.BoolVar(&o.yes, "yes", false, "overload a device from the machine's own network namespace")
	others, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case o.json && len(others) == 1:
		o.jsonFile = others[0]
	case len(others) > 0:
		return cli.Misuse(stderr, "conform", fmt.Errorf("%q: want only flags", others[0]))
	}
	switch {
	case o.role != "" && roleInfos[o.role] == nil:
		return cli.Misuse(stderr, "conform", fmt.Errorf("-role %q: want %s", o.role, names))
	case o.reference:
		_, err := io.WriteString(stdout, reference(o.role))
		return cli.End(stderr, "conform", err)
	case o.list:
		return listCases(&o, stdout, stderr)
	case o.profile == "":
		return cli.Misuse(stderr, "conform", errors.New("-profile: not set: want a file; -reference prints one"))
	}
	return o.test(ctx, stdout, stderr, open)
}

// test runs the cases and writes the reports.
func (o *options) test(ctx context.Context, stdout, stderr io.Writer,
	open func(context.Context, *profile) (rig, error),
) int {
	misused := func(err error) int {
		cli.PrintError(stderr, "conform", "-profile "+o.profile, err)
		return cli.Misused
	}
	octets, err := config.ReadFile(o.profile)
	if err != nil {
		return misused(err)
	}
	p, err := readProfile(octets, o.role)
	if err != nil {
		return misused(err)
	}
	var ids []string
	if o.cases != "" {
		ids = strings.Split(o.cases, ",")
	}
	cases, err := choose(p.Device.Role, ids)
	if err != nil {
		return cli.Misuse(stderr, "conform", fmt.Errorf("-case %w", err))
	}
	if p.Device.Role == "switch" && p.Congestion.By == "overload" && !o.yes && isMachineNetwork() {
		return misused(errors.New("congestion.by: \"overload\" in the machine's own network namespace: want -yes"))
	}
	if o.captures != "" {
		if err := os.MkdirAll(o.captures, 0o777); err != nil {
			cli.PrintError(stderr, "conform", "-capture "+o.captures, err)
			return cli.Failed
		}
	}
	r, err := open(ctx, p)
	if err != nil {
		return cli.End(stderr, "conform", err)
	}
	defer r.close()
	s := &suite{ctx: ctx, profile: p, rig: r}
	all := &report{profile: p, stdout: stdout, json: o.json}
	if o.jsonFile != "" && o.jsonFile != "-" {
		f, err := os.Create(o.jsonFile)
		if err != nil {
			return cli.End(stderr, "conform", err)
		}
		defer f.Close()
		all.stdout = f
	}
	if err := s.run(cases, o.captures, all.add); err != nil {
		return cli.End(stderr, "conform", err)
	}
	for _, write := range []func() error{
		all.end,
		func() error { return writeFile(o.junit, all.writeJUnit) },
		func() error { return writeFile(o.html, all.writeHTML) },
	} {
		if err := write(); err != nil {
			cli.End(stderr, "conform", err)
			return cli.Failed
		}
	}
	return all.status()
}

// writeFile writes a report to a file, if it has a name.
func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// listCases prints the cases of the roles.
func listCases(o *options, stdout, stderr io.Writer) int {
	var text strings.Builder
	for _, name := range roleNames {
		if o.role != "" && name != o.role {
			continue
		}
		for _, c := range roleInfos[name].cases() {
			fmt.Fprintf(&text, "%-8s  %-6s  %-6s  %-26s  %s\n", name, c.id, c.level, c.section, c.expected)
		}
	}
	_, err := io.WriteString(stdout, text.String())
	return cli.End(stderr, "conform", err)
}
