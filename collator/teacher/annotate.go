package teacher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Report counts what became of teacher rows.
type Report struct {
	Batches int                      `json:"batches"`
	Rows    int                      `json:"rows"`              // teacher rows asked about
	Pairs   int                      `json:"pairs"`             // pairs
	Scored  int                      `json:"scored_pairs"`      // pairs that got teacher entries
	Failed  map[ledger.Reason]int    `json:"failed,omitempty"`  // rows, by reason
	Example map[ledger.Reason]string `json:"example,omitempty"` // one error a reason
}

func (r *Report) fail(reason ledger.Reason, err error) {
	if r.Failed == nil {
		r.Failed, r.Example = map[ledger.Reason]int{}, map[ledger.Reason]string{}
	}
	if r.Failed[reason] == 0 {
		r.Example[reason] = err.Error()
	}
	r.Failed[reason]++
}

// Columns scores the teacher rows of a batch and returns the batch with the teacher columns, in place of those it had.
// Rows that could not be scored are counted in the report; their entries are missing.
func (c *Client) Columns(ctx context.Context, all []tensors.Tensor, rep *Report) ([]tensors.Tensor, error) {
	p, err := ReadPairs(all)
	if err != nil {
		return nil, err
	}
	var rows []int
	var ask []Sequence
	for r, s := range p.Sequences() {
		if s.IDs != nil {
			rows, ask = append(rows, r), append(ask, s)
		}
	}
	results, err := c.ScoreAll(ctx, ask)
	if err != nil {
		return nil, err
	}
	scores := make([]*Scores, len(p.Teacher))
	for i, res := range results {
		rep.Rows++
		if scores[rows[i]] = res.Scores; res.Err != nil {
			rep.fail(res.Reason, res.Err)
		}
	}
	rep.Batches++
	rep.Pairs += p.Len()
	for _, r := range p.TeacherRow {
		if scores[r] != nil {
			rep.Scored++
		}
	}
	return replace(all, p.Columns(scores, c.o.TopK)...), nil
}

// replace puts tensors in the place of those of their name.
func replace(all []tensors.Tensor, with ...tensors.Tensor) []tensors.Tensor {
	out := slices.DeleteFunc(slices.Clone(all), func(t tensors.Tensor) bool {
		return slices.ContainsFunc(with, func(w tensors.Tensor) bool { return w.Name == t.Name })
	})
	return append(out, with...)
}

// Annotate adds the teacher columns to every sdpo batch under a batches folder, and renews the index. It can be run again:
// what is stored is not asked for twice. Where it is broken off the index is as it was and the batches not yet entered
// don't agree with it; running it again mends that.
func (c *Client) Annotate(ctx context.Context, dir string) (*Report, error) {
	rep := &Report{}
	if err := c.Check(ctx); err != nil {
		return rep, err
	}
	return rep, eachBatch(dir, func(_ *batch.Line, all []tensors.Tensor) ([]tensors.Tensor, error) { return c.Columns(ctx, all, rep) })
}

// eachBatch rewrites the sdpo batches of a folder.
func eachBatch(dir string, change func(*batch.Line, []tensors.Tensor) ([]tensors.Tensor, error)) error {
	index := filepath.Join(dir, batch.IndexName)
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	err := batch.EachLine(index, func(l *batch.Line) error {
		if l.Channel == "sdpo" {
			sum, err := rewrite(dir, l, change)
			if err != nil {
				return fmt.Errorf("%s: %w", l.File, err)
			}
			l.Proof.SHA256 = sum
		}
		return enc.Encode(l)
	})
	if err != nil {
		return err
	}
	return writeFile(index, lines.Bytes())
}

// rewrite replaces a batch file and returns the new one's hash.
func rewrite(dir string, l *batch.Line, change func(*batch.Line, []tensors.Tensor) ([]tensors.Tensor, error)) (sum string, err error) {
	name := l.File
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("the file lies outside the folder")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	all, metadata, err := readFile(path)
	if err != nil {
		return "", err
	}
	if all, err = change(l, all); err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b tensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	var data bytes.Buffer
	if err := tensors.Write(&data, all, metadata); err != nil {
		return "", err
	}
	hash := sha256.Sum256(data.Bytes())
	return hex.EncodeToString(hash[:]), writeFile(path, data.Bytes())
}

func readFile(path string) ([]tensors.Tensor, map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	file, err := tensors.Open(f, info.Size())
	if err != nil {
		return nil, nil, err
	}
	all, err := file.ReadAll()
	return all, file.Metadata, err
}
