module github.com/rocecn/rocecn/rocelayers/fork

go 1.26.0

require (
	github.com/gopacket/gopacket v1.7.7
	github.com/rocecn/rocecn v1.0.0
)

replace github.com/rocecn/rocecn => ../..
