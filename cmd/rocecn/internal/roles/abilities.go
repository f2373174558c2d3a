package roles

// A Sending configuration is of a role that sends of its own accord.
type Sending interface {
	Limited() bool // reports whether a key bounds the rate
}

// A Lacking configuration may lack a key without which its role does nothing at all.
type Lacking interface {
	Lacks() error // names the missing key
}

// A Sized role has tables.
type Sized interface{ Sizes() Sizes }

// A Tabled role has tables with a maximum.
type Tabled interface{ Tables() []Table }

// A Table is the fill of a table: its number of entries, and their maximum.
type Table struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
	Max     int    `json:"max"`
}

// Sizes are the numbers of entries in the tables of a role.
type Sizes struct {
	Pairs      int    // queue pairs that are known
	Flows      int    // flows that have a label
	FreeLabels int    // flows more that could have one
	Stopped    int    // flows and ports that do not run
	Unlearned  uint64 // packets that were not used to learn queue pairs because the tables were full
}

var (
	_ = []Sending{&SwitchConfig{}, &ProxyConfig{}, &IngressConfig{}, &ReceiverConfig{}, &SenderConfig{}}
	_ = []Lacking{&SwitchConfig{}, &ProxyConfig{}, &IngressConfig{}, &ReceiverConfig{}, &PauseConfig{}}
	_ = []Sized{&Pause{}, &Proxy{}, &Ingress{}, &Receiver{}, &Sender{}}
	_ = []Tabled{&Switch{}, &Pause{}, &Proxy{}, &Ingress{}, &Receiver{}, &Sender{}}
)
