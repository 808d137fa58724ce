package spool

import (
	"bytes"
	"os"
	"testing"
)

func TestSpool(t *testing.T) {
	dir := t.TempDir()
	f, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the file has a name: %v", left)
	}
	large := bytes.Repeat([]byte("x"), 2*bufferBytes)
	for i, block := range [][]byte{[]byte("one"), large, []byte("three")} {
		want := []int64{0, 3, 3 + int64(len(large))}[i]
		if at, err := f.Append(block); err != nil || at != want {
			t.Errorf("block %d is at %d, want %d, %v", i, at, want, err)
		}
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := f.ReadAt(got, 3+int64(len(large))); err != nil || string(got) != "three" ||
		f.Size() != 8+int64(len(large)) {
		t.Errorf("%q, size %d, %v", got, f.Size(), err)
	}
	if _, err := New(dir + "/not-there"); err == nil {
		t.Error("no error without a folder")
	}
}
