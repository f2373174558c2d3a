module github.com/rocecn/rocecn/cmd/rocecn/internal/io/netlink/testdata/fuzz
