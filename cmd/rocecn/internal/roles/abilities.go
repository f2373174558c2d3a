package roles

import (
	"iter"
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/rocev2"
)

// What only some configurations say, and only some roles can. Who plays them asks by these interfaces; the
// assignments below hold which have what.
type (
	// A Sending configuration is of a role that sends of its own accord.
	Sending interface {
		Limited() bool // something in it bounds how much
	}
	// A Marking configuration is of a role that answers senders, and marks the packets of others if Marks says so.
	Marking interface{ Marks() bool }
	// A Lacking configuration may lack what its role can do nothing at all without.
	Lacking interface {
		Lacks() error // names the key that is missing
	}
	// A Learning configuration is of a role that may learn labels from tunnels.
	Learning interface{ Learns() bool }
	// A Translating configuration is of a role that may make CNPs of other notifications.
	Translating interface{ Translates() bool }
	// A Shaping configuration may make the rates of flows real, and says of how many.
	Shaping interface {
		Shapes() bool
		MaxFlows() int
	}
	// A Border configuration has rules for the kernel.
	Border interface{ Rules() (filter.Border, error) }
	// A SwitchInKernel and a TranslatorInKernel say what the kernel needs to play their role.
	SwitchInKernel     interface{ Kernel() (KernelSwitch, error) }
	TranslatorInKernel interface {
		Kernel() (KernelTranslator, error)
	}

	// An Expirer is a role with entries whose time ends.
	Expirer interface{ Expire(now time.Time) int }
	// A Paired role knows queue pairs.
	Paired interface{ Pairs() int }
	// A Labelled role has flows with labels, and so many labels free.
	Labelled interface{ Labels() (flows, free int) }
	// A Stopper is a role at whose word flows and ports stop.
	Stopper interface{ Stopped() int }
	// An Owner is a role of a host, which knows the host's queue pairs.
	Owner interface {
		Own() iter.Seq2[rocev2.FlowKey, uint32]
		SetDevice([]DevicePair)
	}
	// A Rated role has rates of flows, nil for none. Counted says who tells what they have sent.
	Rated interface {
		Rates() *reaction.Table
		Counted(byOthers bool)
	}
	// A Leveller is a role that goes by the levels of queues.
	Leveller interface {
		SetLevel(level uint8)
		OwnLevel()
		Relax()
	}
	// A Noter is a role that takes note of what the kernel has sent for it.
	Noter interface {
		NoteSent(ip []byte, domain uint32, now time.Time)
	}
)

var (
	_ = []Sending{&switchConfig{}, &proxyConfig{}, &ingressConfig{}, &receiverConfig{}, &senderConfig{}}

	_ = []Lacking{&switchConfig{}, &proxyConfig{}, &ingressConfig{}, &receiverConfig{}, &pauseConfig{}}

	_ Marking            = &switchConfig{}
	_ Learning           = &ingressConfig{}
	_ Translating        = &senderConfig{}
	_ Shaping            = &senderConfig{}
	_ Border             = &borderConfig{}
	_ SwitchInKernel     = &switchConfig{}
	_ TranslatorInKernel = &senderConfig{}

	_          = []Expirer{&pauseRole{}, &proxyNode{}, &ingressPE{}, &notificationPoint{}, &dataSender{}}
	_          = []Paired{&proxyNode{}, &ingressPE{}, &notificationPoint{}, &dataSender{}}
	_ Labelled = &ingressPE{}
	_ Stopper  = &pauseRole{}
	_ Owner    = &dataSender{}
	_ Rated    = &dataSender{}
	_ Leveller = &congestedSwitch{}
	_ Noter    = &congestedSwitch{}
)
