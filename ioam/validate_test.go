package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	good := Trace{Namespace: 1, Type: BitNode, Data: make([]byte, 4)}
	require.NoError(t, good.Validate())
	bad := Trace{ReservedFlag: true, Type: BitNode | BitReserved, Reserved: 1, Data: make([]byte, 3)}
	for _, err := range []error{errReservedFlag, errReservedBit, errReservedTrace, errTruncatedNode} {
		require.ErrorIs(t, bad.Validate(), err)
	}
	require.NoError(t, Option{}.Validate())
	require.ErrorIs(t, Option{Reserved: 1}.Validate(), errReservedOption)
}
