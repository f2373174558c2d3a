module github.com/rocecn/rocecn/fastcnp/testdata/fuzz
