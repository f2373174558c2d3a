// Package roles has the roles of package node as `rocecn play` rehearses and `rocecn run` plays them: their
// configuration, the additions of the tool to a role, and the line about a decision. So both do the same.
package roles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// A Config is the configuration of a role: a struct with the keys in its json tags.
type Config interface {
	// On reports whether the role is enabled. One that is not may lack anything.
	On() bool
	// Rehearse makes the role learn the same from the same frames, with a public seed. It must come
	// before Apply.
	Rehearse(seed uint64)
	// Encapsulations returns those with which the frames of the role are decoded, or nil for the standard ones.
	Encapsulations() *rocev2.Encapsulations
	// Apply checks the rules that decoding cannot check, and returns the role. If old is not nil, it has the same
	// type, and the new role takes over its state. After an error the old role is unchanged.
	Apply(old node.Role) (node.Role, error)
}

// All are the roles by name, each with an empty configuration.
var All = map[string]func() Config{
	"switch":   func() Config { return new(SwitchConfig) },
	"receiver": func() Config { return new(ReceiverConfig) },
	"sender":   func() Config { return new(SenderConfig) },
	"proxy":    func() Config { return new(ProxyConfig) },
	"ingress":  func() Config { return new(IngressConfig) },
	"border":   func() Config { return new(BorderConfig) },
	"pause":    func() Config { return new(PauseConfig) },
}

// Names returns the names of the roles.
func Names() []string { return slices.Sorted(maps.Keys(All)) }

// Agent has the keys of a role for the inputs and outputs of the agent. A rehearsal reads the same file, but ignores
// these keys.
type Agent struct {
	Sources    []string `json:"sources"`    // names of sources of packets for the role
	Observe    []string `json:"observe"`    // likewise: only to be learned from
	Sink       string   `json:"sink"`       // name of the sink for packets that it sends
	Mode       string   `json:"mode"`       // switch, sender: agent, the default, or kernel
	Limits     string   `json:"limits"`     // none: the role is meant to send without limits
	RDMA       string   `json:"rdma"`       // sender, receiver, proxy: RDMA device of the host, any, or none
	Install    string   `json:"install"`    // border: nft, sender: fq, or none, the default
	Interfaces []string `json:"interfaces"` // border: of nft; sender: by which flows leave that are slowed down
}

// An Instance is one role of a file: [role.NAME], or one of [[role.NAME]].
type Instance struct {
	Name   string // of the role, with a number as in switch[1] where there are several
	Role   string
	Config Config
	Agent  Agent

	tree *config.Tree
}

// Apply applies the Config. Its error has the position in the file.
func (i *Instance) Apply(old node.Role) (node.Role, error) {
	r, err := i.Config.Apply(old)
	if wrong := (*config.Error)(nil); err != nil && !errors.As(err, &wrong) && i.tree.IsTOML() {
		err = config.Wrong("", "%v", err)
	}
	return r, i.LocateError(err)
}

// LocateError returns an error about a key of the instance with its place in the file.
func (i *Instance) LocateError(err error) error { return i.tree.LocateError(err) }

// Instances returns all roles of a file's table role.
func Instances(table *config.Tree) (all []*Instance, err error) {
	names, parts, err := table.Members()
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		several, ok := parts[i].Elements()
		if !ok {
			several = parts[i : i+1]
		}
		for n, part := range several {
			instance := &Instance{Name: name, Role: name, tree: part}
			if len(several) > 1 {
				instance.Name = config.Index(name, n)
			}
			if err := instance.decodeConfig(); err != nil {
				return nil, err
			}
			all = append(all, instance)
		}
	}
	return all, nil
}

func (i *Instance) decodeConfig() error {
	if All[i.Role] == nil {
		return i.LocateError(config.Wrong("", "no such role; known are %s", strings.Join(Names(), ", ")))
	}
	i.Config = All[i.Role]()
	if err := i.tree.Decode(i.Config, &i.Agent); err != nil {
		return err
	}
	for _, key := range []struct {
		name  string
		given bool
		roles []string
	}{
		{"mode", i.Agent.Mode != "", []string{"switch", "sender"}},
		{"rdma", i.Agent.RDMA != "", []string{"sender", "receiver", "proxy"}},
		{"install", i.Agent.Install != "", []string{"border", "sender"}},
		{"interfaces", i.Agent.Interfaces != nil, []string{"border", "sender"}},
	} {
		if key.given && !slices.Contains(key.roles, i.Role) {
			return i.LocateError(config.Wrong(key.name, "is for the role %s", strings.Join(key.roles, " or ")))
		}
	}
	return nil
}

// Read returns one role of a file: a JSON object that is its configuration, or TOML
// with tables of roles.
func Read(octets []byte, name string) (*Instance, error) {
	tree, err := config.Read(octets)
	if err != nil {
		return nil, err
	}
	if !tree.IsTOML() {
		i := &Instance{Name: name, Role: name, tree: tree}
		return i, i.decodeConfig()
	}
	names, parts, err := tree.Members()
	if err != nil {
		return nil, err
	}
	for i, part := range names {
		switch {
		case part == "role":
			all, err := Instances(parts[i])
			if err != nil {
				return nil, err
			}
			of := slices.IndexFunc(all, func(i *Instance) bool { return i.Name == name })
			if of >= 0 {
				return all[of], nil
			}
			of = slices.IndexFunc(all, func(i *Instance) bool { return i.Role == name })
			if of >= 0 {
				return nil, fmt.Errorf("there are several [[role.%s]]: the first one is %s", name, all[of].Name)
			}
		case !slices.Contains(Tables, part):
			return nil, UnknownTable(parts[i])
		}
	}
	return nil, fmt.Errorf("role %q: want a role with a table in the file", name)
}

// Tables are the tables of a file of the agent.
var Tables = []string{"agent", "source", "sink", "role"}

// UnknownTable returns the error about another table.
func UnknownTable(t *config.Tree) error {
	return t.LocateError(config.Wrong("", "unknown key; known are %s", strings.Join(Tables, ", ")))
}
