module github.com/rocecn/rocecn/testdata/tshark
