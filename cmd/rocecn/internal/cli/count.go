package cli

import "fmt"

// Count returns a number and a noun, with an s unless the number is 1.
func Count[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
