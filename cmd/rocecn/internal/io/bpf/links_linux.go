package bpf

import (
	"errors"
	"io"
	"slices"
)

// Links are the attachments of a program to interfaces, by interface index.
type Links map[int]io.Closer

// Watch replaces the interfaces to which the program is attached. It skips index 0, of a missing interface. attach
// attaches the program to the interface at a position of indexes. detached is called for each interface that is no
// longer watched.
func (l Links) Watch(indexes []int, attach func(i int) (io.Closer, error), detached func(index int) error,
) (wrong error) {
	for index, one := range l {
		if !slices.Contains(indexes, index) {
			delete(l, index)
			_ = one.Close() // fails if the interface is gone
			wrong = errors.Join(wrong, detached(index))
		}
	}
	for i, index := range indexes {
		if index == 0 || l[index] != nil {
			continue
		}
		one, err := attach(i)
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		l[index] = one
	}
	return wrong
}

// Close detaches the program from all interfaces.
func (l Links) Close() (err error) {
	for index, one := range l {
		err = errors.Join(err, one.Close())
		delete(l, index)
	}
	return err
}
