package bench

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
)

// batch is so many frames at a time.
const batch = 64

// worker has the state that a core needs to answer frames. Cores share none of it.
type worker struct {
	p      rocev2.Packet
	out    []byte
	answer func(b []byte, congested *rocev2.Packet) ([]byte, error)
}

// do answers every frame of a batch, and appends the answers to w.out.
func (w *worker) do(frames [][]byte) error {
	w.out = w.out[:0]
	for _, frame := range frames {
		err := w.p.DecodeEthernet(frame)
		if err == nil {
			w.out, err = w.answer(w.out, &w.p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// jobs are the ways to answer.
func jobs() map[string]func(b []byte, congested *rocev2.Packet) ([]byte, error) {
	return map[string]func(b []byte, congested *rocev2.Packet) ([]byte, error){
		"Fast CNP": func(b []byte, p *rocev2.Packet) ([]byte, error) {
			out, _, err := fastcnp.AppendFor(b, p, loopback, nil, fastcnp.Config{})
			return out, err
		},
		"CNP": func(b []byte, p *rocev2.Packet) ([]byte, error) {
			// The receiver knows the queue pair of the sender.
			return cnp.AppendFor(b, p, p.Dst, p.BTH.DestQP^0x555555, cnp.Config{})
		},
	}
}

// frames returns a batch of data frames, each of another flow of the sender.
func frames(b testing.TB) [][]byte {
	all := make([][]byte, batch)
	for i := range all {
		all[i] = dataFrame(b, 0)
		const destQP, destination = 14 + 40 + 8 + 4, 14 + 24
		binary.BigEndian.PutUint32(all[i][destQP:], uint32(i)*0x10305)
		all[i][destination+15] = uint8(i)
	}
	return all
}

// BenchmarkBatch reads and answers data frames by the batch, on one core and on
// several; an op is a frame.
func BenchmarkBatch(b *testing.B) {
	frames, jobs := frames(b), jobs()
	for _, name := range []string{"Fast CNP", "CNP"} {
		for cores := 1; cores <= runtime.GOMAXPROCS(0); cores *= 2 {
			plural := "s"[:min(cores-1, 1)]
			run(b, fmt.Sprintf("%s/%d core%s", name, cores, plural), func(b *testing.B) {
				var wg sync.WaitGroup
				for range cores {
					wg.Go(func() {
						w := worker{out: make([]byte, 0, batch*128), answer: jobs[name]}
						for n := 0; n < b.N; n += batch * cores {
							if err := w.do(frames); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

func TestBatchAllocatesNothing(t *testing.T) {
	frames := frames(t)
	for name, answer := range jobs() {
		w := worker{out: make([]byte, 0, batch*128), answer: answer}
		require.NoError(t, w.do(frames))
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = w.do(frames) }), name)
	}
}
