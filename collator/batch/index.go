package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
)

// IndexName is the file under batches/ that lists the batches. It is written after them, so a folder without it is
// incomplete. StepsName, in the same folder, lists the step files, and is written after them.
const (
	IndexName = "index.jsonl"
	StepsName = "steps.jsonl"
	// MaxFileBytes is the maximum size of a batch file that is read.
	MaxFileBytes = 1 << 30
)

// Line describes a batch.
type Line struct {
	File    string `json:"file"` // path relative to the index's folder
	Channel string `json:"channel"`
	Split   string `json:"split"`
	Layout  string `json:"layout"`
	Form
	Rows    int   `json:"rows"`
	Tokens  int64 `json:"tokens"`   // number of tokens on all sides, without padding
	NActive int64 `json:"n_active"` // number of tokens in the loss or, for sdpo, number of pairs
	// Distinct is the number of tokens, counting tokens that have the same prefix in the batch only once. It is 0 for
	// rows with several sequences.
	Distinct  int64    `json:"distinct,omitempty"`
	PadID     int64    `json:"pad_id"`
	VocabSize int64    `json:"vocab_size"`
	Tokenizer string   `json:"tokenizer"` // fingerprint
	Template  string   `json:"template"`  // fingerprint
	Rollouts  []string `json:"rollouts"`  // records the rows were made from, indexed by row_rollout
	Examples  []string `json:"examples"`  // example ids, indexed by row_example
	Sites     []Site   `json:"sites"`
	RowInfo   []Meta   `json:"row_info"` // one per row
	// Reference is the fingerprint of the model, tokenizer, template and length limit with which the ref_ columns were
	// computed.
	Reference string     `json:"reference,omitempty"`
	Proof     BatchProof `json:"proof"`
}

// Site is an error site that rows of an sdpo batch refer to.
type Site struct {
	Record     string `json:"record"`
	Example    string `json:"example"`
	Site       int    `json:"site"`
	HintSHA256 string `json:"hint_sha256"`
	Kind       string `json:"kind"`
	Class      string `json:"class"`

	Effect *Effect `json:"effect,omitempty"` // the effect of the site's hint, if collator.teacher measured it
}

// Effect is a hint's effect on the predictions for its target's tokens, as unweighted means over those tokens, in nats.
// The divergence (JSD, beta 0.5) between the predictions with and without the hint is in [Lower, Upper]. The two are
// equal if the divergence was computed from all logits.
type Effect struct {
	Route  string  `json:"route"` // logits or dumps, if computed from all logits; top_k, if only bounded
	Lower  float64 `json:"jsd_lower"`
	Upper  float64 `json:"jsd_upper"`
	Max    float64 `json:"jsd_max,omitempty"` // maximum divergence over the tokens; absent if Route is top_k
	Target float64 `json:"target"`            // mean of log p(token | hint) - log p(token)
}

// Amount describes the divergence in words.
func (e *Effect) Amount() string {
	if e.Lower == e.Upper {
		return fmt.Sprintf("%.3g nats", e.Lower)
	}
	return fmt.Sprintf("%.3g to %.3g nats", e.Lower, e.Upper)
}

// BatchProof holds the data needed to check a batch as a whole; the data needed to check its rows is in row_info.
type BatchProof struct {
	SHA256      string  `json:"sha256"`      // hash of the file
	Terminators []int32 `json:"terminators"` // ids that end a turn
}

// indexed is a list of distinct strings in order of first use, with each row's index into it.
type indexed struct {
	list []string
	at   []int
	seen map[string]int
}

func (x *indexed) add(s string) {
	i, ok := x.seen[s]
	if !ok {
		i = len(x.list)
		x.seen[s] = i
		x.list = append(x.list, s)
	}
	x.at = append(x.at, i)
}

// recordsOf returns a batch's rollouts and examples.
func recordsOf(rows []*Row) (rollouts, examples *indexed) {
	rollouts, examples = &indexed{seen: map[string]int{}}, &indexed{seen: map[string]int{}}
	runs := map[string]int{}
	for _, r := range rows {
		rollouts.add(r.Meta.rollout())
		id := r.Meta.Example
		if run, ok := runs[id]; ok && run != r.Meta.Run {
			id = strconv.Itoa(r.Meta.Run) + "/" + id // ids are unique only within a collection run
		} else {
			runs[id] = r.Meta.Run
		}
		examples.add(id)
	}
	return rollouts, examples
}

// rollout names the record that a row belongs to. Rows with the same name belong to the same record.
func (m *Meta) rollout() string { return strconv.FormatInt(m.Ordinal, 10) + "-" + m.Record }

// ReadIndex reads the lines of an index.
func ReadIndex(path string) ([]Line, error) {
	var lines []Line
	err := EachLine(path, func(l *Line) error {
		lines = append(lines, *l)
		return nil
	})
	return lines, err
}

// maxLineBytes bounds the size of a line in an index, which has a few hundred bytes for each row of its batch.
const maxLineBytes = 32 << 20

// EachLine calls f with each line of an index, in order.
func EachLine(path string, f func(*Line) error) error {
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	n := 0
	for text, err := range lines.ReadWhole(file, maxLineBytes) {
		n++
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		var l Line
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			return fmt.Errorf("%s:%d: invalid index line: %w", path, n, err)
		}
		if err := f(&l); err != nil {
			return err
		}
	}
	return nil
}
