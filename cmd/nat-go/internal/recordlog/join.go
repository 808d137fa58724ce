package recordlog

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/durable"
)

// Join makes the log in dir of complete logs, one after the other: what one run over all their groups would have
// written. sums are the hashes that the logs are known by; one that holds something else is refused. cursor is noted
// with the commit.
func Join(dir string, logs, sums []string, cursor json.RawMessage) error {
	out, err := durable.Create(filepath.Join(dir, LogName))
	if err != nil {
		return err
	}
	defer out.Abort() // nothing, after Commit
	sum, w := xxh3.New(), bufio.NewWriterSize(out, bufferBytes)
	all := io.MultiWriter(w, sum)
	head := binary.LittleEndian.AppendUint32([]byte(magic), Version)
	if _, err := all.Write(head); err != nil {
		return err
	}
	whole := Commit{Version: Version, Bytes: int64(headerSize), Done: true, Cursor: cursor}
	for i, log := range logs {
		c, err := ReadCommit(log)
		switch {
		case err != nil:
			return err
		case !c.Done || c.XXH3 != sums[i]:
			return fmt.Errorf("%s is not the log that its manifest names", filepath.Join(log, LogName))
		}
		if err := appendLog(all, log, c); err != nil {
			return err
		}
		whole.Bytes += c.Bytes - int64(headerSize)
		whole.Groups += c.Groups
		whole.Records += c.Records
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	digest := sum.Sum128().Bytes()
	whole.XXH3 = hex.EncodeToString(digest[:])
	text, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, commitName), append(text, '\n'))
}

// appendLog writes the frames of a log, and checks that they are those it was committed with.
func appendLog(w io.Writer, dir string, c Commit) error {
	f, err := os.Open(filepath.Join(dir, LogName))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := xxh3.New()
	in := io.TeeReader(io.LimitReader(f, c.Bytes), sum)
	if _, err := io.CopyN(io.Discard, in, int64(headerSize)); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	n, err := io.Copy(w, in)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	digest := sum.Sum128().Bytes()
	if n+int64(headerSize) != c.Bytes || hex.EncodeToString(digest[:]) != c.XXH3 {
		return fmt.Errorf("%s is damaged: remove the folder of the shard, and run it again", f.Name())
	}
	return nil
}
