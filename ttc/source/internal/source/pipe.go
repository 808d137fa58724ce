package source

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/nat-go/nat-go/internal/spool"
)

// Stdin means standard input where a file name is expected.
const Stdin = "-"

// pipes are the pipes opened so far, by path. A pipe can be read only once, but an input is opened more than once: to
// recognise it, then to read it. Data read from a pipe is therefore kept in an unnamed file.
var pipes = struct {
	sync.Mutex
	open map[string]*pipe
}{open: map[string]*pipe{}}

// pipe is a pipe and the data read from it.
type pipe struct {
	mu   sync.Mutex
	in   io.Reader
	kept *spool.File
	err  error // error from reading the pipe; io.EOF at its end
}

// openPipe opens standard input or a pipe from its beginning. It returns nil if path is neither.
func openPipe(ctx context.Context, path string) (*pipeView, error) {
	// data read from files with these modes can't be read again
	const passing = fs.ModeNamedPipe | fs.ModeCharDevice | fs.ModeSocket
	if path == Stdin {
		path = "/dev/stdin"
	} else if info, err := os.Stat(path); err != nil || info.Mode()&passing == 0 {
		return nil, nil
	}
	pipes.Lock()
	defer pipes.Unlock()
	if p := pipes.open[path]; p != nil {
		return &pipeView{pipe: p}, nil
	}
	in, err := openInput(ctx, path)
	if err != nil {
		return nil, err
	}
	kept, err := spool.New("")
	if err != nil {
		in.Close()
		return nil, err
	}
	p := &pipe{in: in, kept: kept}
	pipes.open[path] = p
	return &pipeView{pipe: p}, nil
}

// pipeView reads a pipe from its beginning.
type pipeView struct {
	*pipe
	at int64
}

func (v *pipeView) Read(b []byte) (n int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if left := v.kept.Size() - v.at; left > 0 {
		if err := v.kept.Flush(); err != nil {
			return 0, err
		}
		n, err = v.kept.ReadAt(b[:min(int64(len(b)), left)], v.at)
		if err == io.EOF && n > 0 {
			err = nil
		}
		v.at += int64(n)
		return n, err
	}
	if v.err != nil {
		return 0, v.err
	}
	n, v.err = v.in.Read(b)
	if n > 0 {
		if _, err := v.kept.Append(b[:n]); err != nil {
			return 0, err
		}
		v.at += int64(n)
		return n, nil
	}
	return 0, v.err
}
