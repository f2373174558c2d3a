module github.com/rocecn/rocecn/tools

go 1.26.0

replace github.com/rocecn/rocecn => ..

require (
	github.com/google/gopacket v1.1.19
	github.com/pelletier/go-toml/v2 v2.4.3
	github.com/rocecn/rocecn v1.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
