package dataset

import (
	"encoding/hex"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/durable"
)

// Blocks are small enough to be hashed and copied out of the cache, and so many may wait that neither side stands still for the
// other: one at a time they would have to be eight times as large.
const (
	blockBytes = 128 << 10
	blocksHeld = 8
)

// output is a file written in blocks by a goroutine of its own: rows are made while the kernel copies the last block, which
// is what the writing of a data set waits for.
type output struct {
	buf    []byte // append here, then call rotate
	bytes  int64
	file   *durable.File
	blocks chan []byte
	free   chan []byte
	done   chan struct{} // closed when all blocks are written; then err says how that went
	err    error
	sum    *xxh3.Hasher
	closed bool
}

func newOutput(path string) (*output, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	o := &output{file: f, blocks: make(chan []byte, blocksHeld), free: make(chan []byte, blocksHeld+2), done: make(chan struct{}), sum: xxh3.New()}
	o.buf = make([]byte, 0, blockBytes+blockBytes/8)
	for range blocksHeld + 1 {
		o.free <- nil
	}
	go o.run()
	return o, nil
}

func (o *output) run() {
	defer close(o.done)
	for b := range o.blocks {
		if o.err == nil {
			_, o.err = o.file.Write(b)
		}
		o.free <- b[:0]
	}
}

// Write appends and rotates, for what writes to an io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	o.rotate()
	return len(p), nil
}

// rotate hands the buffer over once it is full. Write errors come with commit.
func (o *output) rotate() {
	if len(o.buf) >= blockBytes {
		o.flush()
	}
}

func (o *output) flush() {
	o.bytes += int64(len(o.buf))
	o.sum.Write(o.buf) // here, where the bytes are in the cache
	o.blocks <- o.buf
	o.buf = (<-o.free)[:0]
	if o.buf == nil {
		o.buf = make([]byte, 0, blockBytes+blockBytes/8)
	}
}

// commit makes the file appear and returns the hash of its content in hex.
func (o *output) commit() (string, error) {
	o.flush()
	o.closed = true
	close(o.blocks)
	<-o.done
	if o.err != nil {
		o.file.Abort()
		return "", o.err
	}
	sum := o.sum.Sum128().Bytes()
	return hex.EncodeToString(sum[:]), o.file.Commit()
}

// abort removes the file unless it was committed.
func (o *output) abort() {
	if o.closed {
		return
	}
	o.closed = true
	close(o.blocks)
	<-o.done
	o.file.Abort()
}
