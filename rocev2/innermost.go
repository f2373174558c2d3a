package rocev2

// Innermost is Frame.Innermost.
func Innermost(b []byte, o DecodeOptions) (ip []byte) {
	var f Frame
	f.Decode(b, o)
	return f.Innermost()
}
