package capture_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
)

// Count the messages of a capture by kind.
func ExampleFile() {
	kinds := map[message.Kind]int{}
	var m message.Message // reusable
	for r, err := range capture.File("../testdata/rxe-verbs6.pcap") {
		if err != nil {
			log.Fatal(err)
		}
		if m.Decode(r.Data, r.Options(), message.Config{}) == nil { // not broken
			kinds[m.Kind]++
		}
	}
	fmt.Println(kinds[message.KindData], "packets with data,", kinds[message.KindAck], "acknowledgements")
	// Output: 72 packets with data, 22 acknowledgements
}

// A packet is written and read again.
func ExampleWriter() {
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, capture.Raw, time.Nanosecond)
	if err != nil {
		log.Fatal(err)
	}
	ip := []byte{0x60, 0, 0, 0, 0, 0, 59, 64, 39: 1}
	if err := w.Write(&capture.Record{Data: ip, Time: time.Unix(1795254649, 7)}); err != nil {
		log.Fatal(err)
	}

	in, err := capture.Open(&file)
	if err != nil {
		log.Fatal(err)
	}
	var r capture.Record
	for err = in.Next(&r); err == nil; err = in.Next(&r) {
		fmt.Println(r.Time.Format(time.RFC3339Nano), len(r.Data), r.Truncated())
	}
	fmt.Println(err == io.EOF)
	// Output:
	// 2026-11-21T09:50:49.000000007Z 40 false
	// true
}
