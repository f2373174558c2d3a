package check_test

import (
	"fmt"

	"github.com/rocecn/rocecn/lab/check"
)

// A measured figure is compared with the expected one; the median of several measurements counts.
func ExampleBetween() {
	row := check.Between("first cut", "µs", 12, 11.8, 12.2, 11.9, 12.1, 13)
	fmt.Println(row.Measured, row.OK())
	// Output: 12.1 true
}
