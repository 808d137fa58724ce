package teacher

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
)

// store keeps each answer in a file named after the hash of its request.
type store struct {
	dir    string
	answer int64 // maximum size of an answer in bytes
}

// minStoredLimit is the lowest limit on a stored answer's size in bytes, even if received answers are limited to less.
const minStoredLimit = 256 << 20

// storeVersion is part of every key. Change it whenever the layout changes.
const storeVersion = "teacher answers 1"

// key returns the hash of everything an answer depends on.
func (c *Client) key(s Sequence) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%q\n%q\n%d %d %d\n", storeVersion, c.o.Protocol, c.o.Model, c.o.Vocabulary.Fingerprint,
		s.entries(c.o.TopK), s.From, len(s.IDs))
	if c.o.Name != "" {
		fmt.Fprintf(h, "%q\n", c.o.Name)
	}
	_ = binary.Write(h, binary.LittleEndian, s.IDs) // writing to a hash never fails
	return hex.EncodeToString(h.Sum(nil))
}

func (st store) path(key string) string { return filepath.Join(st.dir, key[:2], key) }

// read returns the answer stored under a key. A damaged file counts as missing.
func (st store) read(key string) ([]byte, bool) {
	if st.dir == "" {
		return nil, false
	}
	data, err := durable.ReadFile(st.path(key), max(minStoredLimit, 2*st.answer))
	if err != nil || len(data) < sha256.Size {
		return nil, false
	}
	sum, data := data[:sha256.Size], data[sha256.Size:]
	got := sha256.Sum256(data)
	return data, bytes.Equal(got[:], sum)
}

func (st store) write(key string, body []byte) error {
	if st.dir == "" {
		return nil
	}
	path := st.path(key)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		sum := sha256.Sum256(body)
		err = durable.WriteFile(path, append(sum[:], body...))
	}
	if err != nil {
		return fatal("cannot store an answer: %w", err)
	}
	return nil
}

// stored holds the fields that precede a position's entries.
type stored struct {
	Token   float32
	Entries uint32
}

// appendScores encodes each wanted position: the token's log-prob, the number of entries, and the entries.
func appendScores(dst []byte, s Sequence, scores *Scores) []byte {
	for p := s.From; p < len(s.IDs)-1; p++ {
		top := scores.Top[p]
		// Values of fixed size can always be encoded.
		dst, _ = binary.Append(dst, binary.LittleEndian, stored{scores.Token[p], uint32(len(top))})
		dst, _ = binary.Append(dst, binary.LittleEndian, top)
	}
	return dst
}

func decode(data []byte, s Sequence) (*Scores, bool) {
	n := len(s.IDs) - 1
	out := newScores(n)
	for p := s.From; p < n; p++ {
		var head stored
		at, err := binary.Decode(data, binary.LittleEndian, &head)
		if err != nil || int64(head.Entries) > int64(len(data)-at)/int64(binary.Size(Entry{})) {
			return nil, false
		}
		out.Token[p], out.Top[p] = head.Token, make([]Entry, head.Entries)
		read, _ := binary.Decode(data[at:], binary.LittleEndian, out.Top[p]) // the length was checked above
		data = data[at+read:]
	}
	return out, len(data) == 0
}
