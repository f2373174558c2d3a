module github.com/rocecn/rocecn/packaging
