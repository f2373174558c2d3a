// Plant reports which faults the tests notice. A list names faults; each one replaces a text in one file. Plant makes
// a copy of the repository, puts one fault at a time into it, and runs the tests that are named for it:
//
//	go -C tools run ./plant [-stratum NAME] [-fault TEXT] [-share I/N] [-v] LIST …
//
// Before the first fault, the tests have to pass without one. Plant exits with 1 if a fault does not compile, or is
// missed and its entry has no reason for that.
//
// Lists of faults for code that their author has not chosen begin with random places:
//
//	go -C tools run ./plant -choose N -seed S FOLDER …
//
// prints N statements of the Go files below folders of the repository, each statement with the same probability.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("plant: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runCommand(ctx, os.Stdout, os.Args[1:]); err != nil {
		stop()
		log.Fatal(err)
	}
}

func runCommand(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("plant", flag.ExitOnError)
	root := flags.String("root", "..", "the repository's `folder`")
	stratum := flags.String("stratum", "", "try the faults of this stratum only: a `name`")
	part := flags.String("fault", "", "try the faults with this `text` in their names only")
	share := flags.String("share", "1/1", "try one of N shares of the faults: `I/N`")
	limit := flags.Duration("timeout", 5*time.Minute, "a test that takes longer has noticed the fault")
	verbose := flags.Bool("v", false, "print the output of the tests that fail")
	choose := flags.Int("choose", 0, "print `N` random statements instead")
	seed := flags.Uint64("seed", 1, "seed of -choose")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no argument: want the lists of faults, or with -choose the folders")
	}
	if *choose > 0 {
		return chooseStatements(out, *root, flags.Args(), *choose, *seed)
	}
	faults, err := readLists(flags.Args())
	if err != nil {
		return err
	}
	index, shares := 0, 0
	if _, err := fmt.Sscanf(*share, "%d/%d", &index, &shares); err != nil || index < 1 || index > shares {
		return fmt.Errorf("-share %s: want I/N with I from 1 to N", *share)
	}
	chosen := faults[:0]
	for _, f := range faults {
		if (*stratum == "" || f.Stratum == *stratum) && strings.Contains(f.Name, *part) {
			chosen = append(chosen, f)
		}
	}
	faults = nil
	for i, f := range chosen {
		if i%shares == index-1 {
			faults = append(faults, f)
		}
	}
	if len(faults) == 0 {
		return errors.New("no fault has this stratum, name and share")
	}
	c, err := copyTree(*root)
	if err != nil {
		return err
	}
	defer c.remove()
	c.limit = *limit
	if *verbose {
		c.output = out
	}
	return tryFaults(ctx, out, c, faults)
}
