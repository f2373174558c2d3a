package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// paletted writes a picture with its 256 most frequent colours, each other one as the
// nearest of them: a page has not many more, and the file is a third as large.
func paletted(t *testing.T, octets []byte) []byte {
	t.Helper()
	from := wiretest.Must(png.Decode(bytes.NewReader(octets)))(t)
	box := from.Bounds()
	count := map[color.Color]int{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[from.At(x, y)]++
		}
	}
	palette := make(color.Palette, 0, len(count))
	for c := range count {
		palette = append(palette, c)
	}
	slices.SortFunc(palette, func(a, b color.Color) int { return count[b] - count[a] })
	palette = palette[:min(len(palette), 256)]
	index := map[color.Color]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&b, to))
	return b.Bytes()
}
