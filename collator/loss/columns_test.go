package loss

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/tensors"
)

// onlyHeader is a file of which only the header may be read.
type onlyHeader struct{ header []byte }

func (f onlyHeader) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(len(f.header)) {
		return 0, errors.New("the data was read")
	}
	return bytes.NewReader(f.header).ReadAt(p, at)
}

var _ io.ReaderAt = onlyHeader{}

// TestDimensionsFirst checks that a tensor with other dimensions than those asked for is refused before its data, which
// may be any number of GiB, is read.
func TestDimensionsFirst(t *testing.T) {
	const size = 4 << 30
	text := `{"logits":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}   `
	header := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	f, err := tensors.Open(onlyHeader{header}, int64(len(header))+size)
	if err != nil {
		t.Fatal(err)
	}
	c := &columns{files: []*tensors.File{f}}
	if c.logits("logits", 3); c.err == nil || !strings.Contains(c.err.Error(), "expected 3 dimensions") {
		t.Errorf("%v", c.err)
	}
}
