module github.com/rocecn/rocecn

go 1.25.0

require (
	github.com/google/gopacket v1.1.19 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/net v0.58.0 // indirect
)
