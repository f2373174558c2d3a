package fluid_test

import (
	"fmt"

	"github.com/rocecn/rocecn/lab/fluid"
)

// The fixed point of two flows at 40 Gbit/s: the share of marked packets that the authors of the model publish.
func ExampleParams_Fixed() {
	p := fluid.Paper(2)
	fixed := p.Fixed()
	fmt.Printf("p %.5f, queue between KMin and KMax: %v\n", fixed.P, fixed.Queue > p.KMin && fixed.Queue < p.KMax)
	// Output: p 0.00078, queue between KMin and KMax: true
}
