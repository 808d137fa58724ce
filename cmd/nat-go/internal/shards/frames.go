package shards

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Frames is the file in which a shard keeps, for each group of its log, what is prepared of its token batches. A frame
// has its length and its hash before it, so that what an earlier attempt left is gone on with after its last whole
// frame.
type Frames struct {
	file *os.File
	out  *bufio.Writer
}

// frameHead is the width of a frame's length and hash; maxFrame the most bytes that a frame may have.
const (
	frameHead = 4 + 8
	maxFrame  = 256 << 20
)

// FramesPath is the file's path in a shard's folder.
func FramesPath(f runfolder.Folder) string { return filepath.Join(f.Records(), "prepared.bin") }

// OpenFrames goes on with the file, or begins it, and says how many frames it has.
func OpenFrames(f runfolder.Folder) (_ *Frames, frames uint64, err error) {
	file, err := durable.Continue(FramesPath(f))
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	in := &FrameReader{file: file, in: bufio.NewReaderSize(file, 1<<20)}
	if info, err := file.Stat(); err == nil {
		in.left = info.Size()
	}
	end := int64(0)
	for {
		frame, err := in.Next()
		if err != nil {
			break // the end, or what was being written when the attempt ended
		}
		end += frameHead + int64(len(frame))
		frames++
	}
	if err := file.Truncate(end); err != nil {
		return nil, 0, err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return nil, 0, err
	}
	return &Frames{file: file, out: bufio.NewWriterSize(file, 1<<20)}, frames, nil
}

// Add adds the frame of the next group.
func (f *Frames) Add(frame []byte) error {
	if len(frame) > maxFrame {
		return fmt.Errorf("a group makes token rows of %d bytes; at most %d can be kept", len(frame), maxFrame)
	}
	var head [frameHead]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(frame)))
	binary.LittleEndian.PutUint64(head[4:], xxh3.Hash(frame))
	if _, err := f.out.Write(head[:]); err != nil {
		return err
	}
	_, err := f.out.Write(frame)
	return err
}

// Close makes what was added safe on disk, and closes the file.
func (f *Frames) Close() error {
	return errors.Join(f.out.Flush(), f.file.Sync(), f.file.Close())
}

// FrameReader reads the file again.
type FrameReader struct {
	file *os.File
	in   *bufio.Reader
	left int64
}

// ReadFrames opens the file of a shard's folder, which has to have the size that its manifest names.
func ReadFrames(f runfolder.Folder, d *Done) (*FrameReader, error) {
	file, err := durable.Open(FramesPath(f))
	if err != nil {
		return nil, err
	}
	r := &FrameReader{file: file, in: bufio.NewReaderSize(file, 1<<20)}
	info, err := file.Stat()
	if err == nil {
		r.left = info.Size()
		err = r.damaged("it is not what its manifest names")
		for _, x := range d.Files {
			if x.Path == f.Rel(file.Name()) && x.Bytes == r.left {
				err = nil
			}
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

// Next is the next frame, or io.EOF.
func (r *FrameReader) Next() ([]byte, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, r.damaged("a frame is cut off")
	}
	n := int64(binary.LittleEndian.Uint32(head[:]))
	if r.left -= frameHead + n; r.left < 0 || n > maxFrame {
		return nil, r.damaged("a frame is cut off")
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r.in, frame); err != nil {
		return nil, r.damaged("a frame is cut off")
	}
	if xxh3.Hash(frame) != binary.LittleEndian.Uint64(head[4:]) {
		return nil, r.damaged("a checksum is wrong")
	}
	return frame, nil
}

// Close closes the file.
func (r *FrameReader) Close() error { return r.file.Close() }

func (r *FrameReader) damaged(why string) error {
	return fmt.Errorf("%s is damaged: %s: remove the folder of the shard, and run it again", r.file.Name(), why)
}
