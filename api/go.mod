module github.com/rocecn/rocecn/api
