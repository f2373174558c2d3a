module github.com/rocecn/rocecn/ipv6opt/testdata/fuzz
