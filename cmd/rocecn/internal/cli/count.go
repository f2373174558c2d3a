package cli

import "fmt"

// Count writes a number of things, whose name takes an s unless it is one.
func Count[N int | uint64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
