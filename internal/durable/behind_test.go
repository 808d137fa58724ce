package durable

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestBehind checks that a file has what was written to it and copied into it, whenever the disk begins to write.
func TestBehind(t *testing.T) {
	dir := t.TempDir()
	part := bytes.Repeat([]byte("0123456789abcdef"), behindBytes/32)
	from := filepath.Join(dir, "from")
	if err := os.WriteFile(from, part, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "to"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	to := Behind(file)
	for range 3 {
		if _, err := to.Write(part); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(to, in); err != nil || n != int64(len(part)) {
			t.Fatal(n, err)
		}
		in.Close()
	}
	got, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.Repeat(part, 6)) {
		t.Errorf("%d bytes, which are not those that were written", len(got))
	}
	if n := to.(*behind).rest; n >= behindBytes {
		t.Errorf("no write-back was started for %d bytes", n)
	}
}
