module github.com/rocecn/rocecn/rocelayers/fork

go 1.26.0

require (
	github.com/gopacket/gopacket v1.7.7
	github.com/rocecn/rocecn v1.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/rocecn/rocecn => ../..
