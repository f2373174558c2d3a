package experiment_test

import (
	"fmt"
	"log"

	"github.com/rocecn/rocecn/lab/experiment"
)

// Print the variants of the first case of an experiment. A Plan of the cases runs them.
func ExampleExperiment_Cases() {
	chosen, err := experiment.Chosen([]string{"C1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range chosen {
		cases := e.Cases(experiment.Quick, 0)
		fmt.Println(e.ID, cases[0].Name, cases[0].Scenario.Variants, len(cases[0].Scenario.Seeds), "seeds")
	}
	// Output: C1 one way 10µs, hop 1 [cnp proxy fastcnp oracle] 6 seeds
}
