package teacher

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/internal/durable"
)

// store keeps answers, one file each, under the hash of the request.
type store struct {
	dir    string
	answer int64 // the limit of an answer
}

// leastStored is the limit on a stored answer's size where the limit of answers is lower.
const leastStored = 256 << 20

// storeVersion is part of every key: change it with the layout.
const storeVersion = "teacher answers 1"

// key is the hash of everything an answer depends on.
func (c *Client) key(s Sequence) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%q\n%q\n%d %d %d\n", storeVersion, c.o.Protocol, c.o.Model, c.o.Vocabulary.Fingerprint,
		s.entries(c.o.TopK), s.From, len(s.IDs))
	if c.o.Name != "" {
		fmt.Fprintf(h, "%q\n", c.o.Name)
	}
	ids := make([]byte, 0, 4*len(s.IDs))
	for _, id := range s.IDs {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
	}
	h.Write(ids)
	return hex.EncodeToString(h.Sum(nil))
}

func (st store) path(key string) string { return filepath.Join(st.dir, key[:2], key) }

// read returns the answer stored under a key. A damaged file counts as missing.
func (st store) read(key string) ([]byte, bool) {
	if st.dir == "" {
		return nil, false
	}
	data, err := durable.ReadFile(st.path(key), max(leastStored, 2*st.answer))
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return &Fatal{fmt.Errorf("teacher: cannot store an answer: %w", err)}
	}
	sum := sha256.Sum256(body)
	if err := durable.WriteFile(path, append(sum[:], body...)); err != nil {
		return &Fatal{fmt.Errorf("teacher: cannot store an answer: %w", err)}
	}
	return nil
}

// get reads the answer to a sequence.
func (st store) get(key string, s Sequence) (*Scores, bool) {
	data, ok := st.read(key)
	if !ok {
		return nil, false
	}
	return decode(data, s)
}

func (st store) put(key string, s Sequence, scores *Scores) error {
	if st.dir == "" {
		return nil
	}
	return st.write(key, appendScores(nil, s, scores))
}

// appendScores encodes the wanted positions: token log-prob, number of entries, entries.
func appendScores(dst []byte, s Sequence, scores *Scores) []byte {
	put := func(v uint32) { dst = binary.LittleEndian.AppendUint32(dst, v) }
	for p := s.From; p < len(s.IDs)-1; p++ {
		put(math.Float32bits(scores.Token[p]))
		put(uint32(len(scores.Top[p])))
		for _, e := range scores.Top[p] {
			put(uint32(e.ID))
			put(math.Float32bits(e.LogProb))
		}
	}
	return dst
}

func decode(data []byte, s Sequence) (*Scores, bool) {
	n := len(s.IDs) - 1
	out := &Scores{Top: make([][]Entry, n), Token: make([]float32, n)}
	take := func() (v uint32) {
		if len(data) < 4 {
			data = nil
			return math.MaxUint32
		}
		v, data = binary.LittleEndian.Uint32(data), data[4:]
		return v
	}
	for p := range s.From {
		out.Token[p] = float32(math.NaN())
	}
	for p := s.From; p < n; p++ {
		if len(data) < 8 {
			return nil, false
		}
		out.Token[p] = math.Float32frombits(take())
		k := take()
		if int64(k)*8 > int64(len(data)) {
			return nil, false
		}
		out.Top[p] = make([]Entry, k)
		for i := range out.Top[p] {
			out.Top[p][i] = Entry{int32(take()), math.Float32frombits(take())}
		}
	}
	return out, len(data) == 0
}
