module github.com/rocecn/rocecn/rocev2/testdata/fuzz
