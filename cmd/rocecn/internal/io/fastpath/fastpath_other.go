//go:build !linux

package fastpath

import (
	"errors"
	"net/netip"
	"time"
)

// An Answerer is a congested node in the kernel. It exists on Linux only.
type Answerer struct{}

// OpenAnswerer returns errors.ErrUnsupported.
func OpenAnswerer(AnswererConfig) (*Answerer, error) { return nil, errors.ErrUnsupported }

// TryAnswerer returns errors.ErrUnsupported.
func TryAnswerer(AnswererConfig) error { return errors.ErrUnsupported }

// Watch returns errors.ErrUnsupported.
func (*Answerer) Watch([]Port) error { return errors.ErrUnsupported }

// SetSender returns errors.ErrUnsupported.
func (*Answerer) SetSender(netip.Prefix, Policy) error { return errors.ErrUnsupported }

// RemoveSender returns errors.ErrUnsupported.
func (*Answerer) RemoveSender(netip.Prefix) error { return errors.ErrUnsupported }

// HasProbed returns false.
func (*Answerer) HasProbed(netip.Addr) bool { return false }

// HasSent returns false.
func (*Answerer) HasSent([]byte, time.Duration) bool { return false }

// OpenFlows returns errors.ErrUnsupported.
func (*Answerer) OpenFlows() (*FlowTable, error) { return nil, errors.ErrUnsupported }

// Counters returns zeros.
func (*Answerer) Counters() Answered { return Answered{} }

// Close does nothing.
func (*Answerer) Close() error { return nil }

// A FlowTable has the flows that Fast CNPs of an Answerer were about. It exists on Linux only.
type FlowTable struct{}

// VisitFlows returns errors.ErrUnsupported.
func (*FlowTable) VisitFlows(func(*Flow)) error { return errors.ErrUnsupported }

// Close does nothing.
func (*FlowTable) Close() error { return nil }

// A Translator turns Fast CNPs into CNPs in the kernel. It exists on Linux only.
type Translator struct{}

// OpenTranslator returns errors.ErrUnsupported.
func OpenTranslator(TranslatorConfig) (*Translator, error) { return nil, errors.ErrUnsupported }

// TryTranslator returns errors.ErrUnsupported.
func TryTranslator(TranslatorConfig) error { return errors.ErrUnsupported }

// Watch returns errors.ErrUnsupported.
func (*Translator) Watch([]string) error { return errors.ErrUnsupported }

// Accept returns errors.ErrUnsupported.
func (*Translator) Accept(netip.Prefix) error { return errors.ErrUnsupported }

// Learn returns errors.ErrUnsupported.
func (*Translator) Learn(Pair, uint32) error { return errors.ErrUnsupported }

// Forget returns errors.ErrUnsupported.
func (*Translator) Forget(Pair) error { return errors.ErrUnsupported }

// Counters returns zeros.
func (*Translator) Counters() Translated { return Translated{} }

// Close does nothing.
func (*Translator) Close() error { return nil }
