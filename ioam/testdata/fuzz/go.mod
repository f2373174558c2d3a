module github.com/rocecn/rocecn/ioam/testdata/fuzz
