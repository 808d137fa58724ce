package dataset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
)

// Blocks are small enough to stay in the CPU cache until they are hashed and copied. The queue is long enough that
// neither its sender nor its receiver waits.
const (
	blockBytes = 128 << 10
	blocksHeld = 8
)

// outputs are the files of a data set that are being written. They get their final names together.
type outputs struct {
	dir      string // folder of the data set
	tidy     bool   // whether abort removes folders that are empty
	all      []*output
	finished []*output
	files    []runfolder.File // manifest entries of the finished files
	empty    []string         // paths of files that must not exist, because they would have no rows
}

// output is a file that is written in blocks by its own goroutine, so that rows are built while the kernel copies a
// block.
type output struct {
	runfolder.RowFile             // description, completed by outputs.finish
	name              string      // last element of its path
	table             *rows.Table // nil unless it is a table
	reading           *reading    // how Hugging Face datasets reads the JSON lines; nil if not checked

	buf     []byte // the current block; append to buf, then call rotate
	final   string // final path of the file
	file    *durable.File
	blocks  chan []byte
	free    chan []byte
	done    chan struct{} // closed when run returns; then the file is durable, or err or aborted is set
	err     error
	sum     *xxh3.Hasher
	aborted bool // set by abort before it closes blocks; the file needn't be made durable
	placed  bool
}

// create creates a file of rows, and its folder.
func (s *outputs) create(row runfolder.RowFile) (*output, error) {
	final := filepath.Join(s.dir, filepath.FromSlash(row.Path))
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return nil, err
	}
	f, err := durable.Create(final)
	if err != nil {
		return nil, err
	}
	o := &output{
		RowFile: row, name: filepath.Base(final), final: final, file: f, blocks: make(chan []byte, blocksHeld),
		free: make(chan []byte, blocksHeld+2), done: make(chan struct{}), sum: xxh3.New(),
	}
	s.all = append(s.all, o)
	o.next()
	go o.run(o.blocks)
	return o, nil
}

// next makes a free block the current one. If none is free, it allocates one. At most blocksHeld+2 exist: the blocks
// in the queue, one in run, and the current one, because send waits while the queue is full.
func (o *output) next() {
	select {
	case o.buf = <-o.free:
	default:
		o.buf = make([]byte, 0, blockBytes+blockBytes/8)
	}
}

func (o *output) run(blocks <-chan []byte) {
	defer close(o.done)
	for b := range blocks { // wait: outputs.finish and abort close the channel
		if o.err == nil {
			_, o.err = o.file.Write(b)
		}
		o.free <- b[:0] // wait: free has capacity for every block
	}
	o.free = nil // free the blocks, because the output itself is kept until all files are placed
	if o.err == nil && !o.aborted {
		o.err = o.file.Prepare()
	}
}

// Write appends and rotates, for callers that need an io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	o.rotate()
	return len(p), nil
}

// rotate queues the buffer for writing if it is full. outputs.place returns write errors.
func (o *output) rotate() {
	if len(o.buf) >= blockBytes {
		o.send()
		o.next()
	}
}

// send queues the current block for writing.
func (o *output) send() {
	o.Bytes += int64(len(o.buf))
	o.sum.Write(o.buf) // hash here, while the bytes are in the CPU cache
	o.blocks <- o.buf  // wait: run receives blocks until the channel is closed
	o.buf = nil
}

// finish finishes a file, which place then gives its final name, and completes its description.
func (s *outputs) finish(o *output) {
	o.send()
	close(o.blocks)
	o.blocks = nil
	o.XXH3 = runfolder.Digest(o.sum)
	s.finished = append(s.finished, o)
	s.files = append(s.files, runfolder.DatasetFile(o.Path, o.Bytes, o.XXH3).Until(o.file.Temporary()))
}

// abort removes the files that don't have their final names.
func (s *outputs) abort() {
	for _, o := range s.all {
		if o.placed {
			continue
		}
		if o.blocks != nil {
			o.aborted = true
			close(o.blocks)
			o.blocks = nil
		}
		<-o.done // wait: run ends when blocks is closed
		o.file.Abort()
		if s.tidy {
			_ = os.Remove(filepath.Dir(o.final)) // intentionally fails if the folder is not empty
		}
	}
}

// awaitSync waits until finished files are durable, and returns the first error.
func awaitSync(files []*output) error {
	for _, o := range files {
		if <-o.done; o.err != nil { // wait: run ends when blocks is closed
			return o.err
		}
	}
	return nil
}

// place waits until the finished files are durable, calls ready, which may be nil, and gives the files their final
// names.
func (s *outputs) place(ready Ready, written []runfolder.Written) error {
	if err := awaitSync(s.finished); err != nil {
		return err
	}
	if ready != nil {
		if err := ready(written, s.files); err != nil {
			return err
		}
	}
	dirs := map[string]bool{}
	for _, o := range s.finished {
		o.placed = true
		if err := o.file.CommitUnsynced(); err != nil {
			return err
		}
		dirs[filepath.Dir(o.final)] = true
	}
	for _, path := range s.empty {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for dir := range dirs {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
