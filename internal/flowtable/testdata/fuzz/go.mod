module github.com/rocecn/rocecn/internal/flowtable/testdata/fuzz
