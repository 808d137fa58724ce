package teacher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Asked counts the teacher rows sent to a server, by outcome.
type Asked struct {
	Batches int                      `json:"batches"`
	Rows    int                      `json:"rows"`                // teacher rows in requests
	Pairs   int                      `json:"pairs"`               // pairs in these rows
	Scored  int                      `json:"scored_pairs"`        // pairs that got teacher entries
	Failed  map[ledger.Reason]int    `json:"failed,omitempty"`    // rows, by reason
	Example map[ledger.Reason]string `json:"example,omitempty"`   // one error per reason
	By      map[string]int           `json:"failed_by,omitempty"` // rows, by the first of several teachers to fail
}

func (a *Asked) fail(reason ledger.Reason, err error) {
	if a.Failed == nil {
		a.Failed, a.Example = map[ledger.Reason]int{}, map[ledger.Reason]string{}
	}
	if a.Failed[reason] == 0 {
		a.Example[reason] = err.Error()
	}
	a.Failed[reason]++
	if by, ok := errors.AsType[*memberError](err); ok {
		if a.By == nil {
			a.By = map[string]int{}
		}
		a.By[by.name]++
	}
}

// columns scores the teacher rows of a batch and sets its teacher columns, replacing existing ones. If a row could not
// be scored, columns counts the row, leaves its entries missing and drops its sites.
func columns(ctx context.Context, t asker, b *batchWork, rep *Asked) error {
	p := b.pairs
	var rows []int
	var ask []Sequence
	for r, s := range p.Sequences() {
		if s.IDs != nil {
			rows, ask = append(rows, r), append(ask, s)
		}
	}
	results, err := t.ScoreAll(ctx, ask)
	if err != nil {
		return err
	}
	scores := make([]*Scores, len(p.Teacher))
	failed := map[int64]Result{}
	for i, res := range results {
		rep.Rows++
		if scores[rows[i]] = res.Scores; res.Err != nil {
			rep.fail(res.Reason, res.Err)
			failed[int64(rows[i])] = res
		}
	}
	rep.Batches++
	rep.Pairs += p.Len()
	for i, r := range p.TeacherRow {
		if scores[r] != nil {
			rep.Scored++
		}
		if res, ok := failed[r]; ok {
			b.lose(p.Site[i], res.Reason, res.Err.Error())
		}
	}
	b.all = replace(b.all, p.Columns(scores, t.topK())...)
	return nil
}

// replace returns a copy of all without the tensors that have the same name as one in with, followed by with.
func replace(all []tensors.Tensor, with ...tensors.Tensor) []tensors.Tensor {
	out := slices.DeleteFunc(slices.Clone(all), func(t tensors.Tensor) bool {
		return slices.ContainsFunc(with, func(w tensors.Tensor) bool { return w.Name == t.Name })
	})
	return append(out, with...)
}

// change returns the new tensors of a batch.
type change func(*batch.Line, []tensors.Tensor) ([]tensors.Tensor, error)

// eachBatch rewrites the batches of some channels in a folder.
func eachBatch(dir string, channels []string, do change) error {
	index := filepath.Join(dir, batch.IndexName)
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	err := batch.EachLine(index, func(l *batch.Line) error {
		if slices.Contains(channels, l.Channel) {
			sum, err := rewrite(dir, l, do)
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
	return durable.WriteFile(index, lines.Bytes())
}

// rewrite replaces a batch file and returns the new one's hash.
func rewrite(dir string, l *batch.Line, do change) (sum string, err error) {
	name := l.File
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("cannot use a file outside the folder")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	file, err := tensors.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	file.Limit = batch.MaxFileBytes
	all, err := file.ReadAll()
	if err == nil {
		all, err = do(l, all)
	}
	if err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b tensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	var data bytes.Buffer
	if err := tensors.Write(&data, all, file.Metadata); err != nil {
		return "", err
	}
	hash := sha256.Sum256(data.Bytes())
	return hex.EncodeToString(hash[:]), durable.WriteMember(path, data.Bytes())
}
