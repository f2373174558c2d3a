package rocev2

import "iter"

// What the tests ask of a frame at once.

func walked(b []byte, o DecodeOptions) *Frame {
	var f Frame
	_ = f.Decode(b, o)
	return &f
}

func Extensions(b []byte, o DecodeOptions) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		o.Outer = true
		_ = f.Decode(b, o)
		f.Extensions()(yield)
	}
}

func OptionsError(b []byte, o DecodeOptions) error {
	var f Frame
	o.Outer = true
	_ = f.Decode(b, o)
	return f.OptionsError()
}

func IOAMOptions(b []byte, o DecodeOptions) iter.Seq2[IOAMOption, error] {
	return func(yield func(IOAMOption, error) bool) {
		var f Frame
		o.Outer = true
		_ = f.Decode(b, o)
		f.IOAM()(yield)
	}
}

func (in *Inner) IOAM() iter.Seq2[IOAMOption, error] { return in.frame.IOAM() }

func (in *Inner) OptionsError() error { return in.frame.OptionsError() }
