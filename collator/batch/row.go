package batch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Side is a sequence of tokens in a row. It is the row's only sequence, a pair's chosen or rejected sequence, or a
// student's or teacher's.
type Side struct {
	IDs      []int32     // [T]
	Trained  []chat.Span // tokens in the loss; sorted, disjoint, never position 0 (nothing predicts it)
	LogProbs []float32   // rl: log-probs of the trained tokens, in order, in nats; nil if unknown
}

// InLoss reports whether token i is trained on.
func (s *Side) InLoss(i int) bool {
	_, ok := slices.BinarySearchFunc(s.Trained, i, func(r chat.Span, at int) int {
		switch {
		case r.End <= at:
			return -1
		case r.Start > at:
			return 1
		}
		return 0
	})
	return ok
}

// Active returns the number of trained tokens.
func (s *Side) Active() int { return tokens(s.Trained) }

// tokens returns the number of tokens in runs.
func tokens(runs []chat.Span) (n int) {
	for _, r := range runs {
		n += r.End - r.Start
	}
	return n
}

// Row is a row of a channel.
type Row struct {
	Sides  []Side  // one per side in the channel; for sdpo the student's, followed by one per teacher
	Weight float32 // weight of each trained token, or of each pair, in the loss
	Meta   Meta
}

// Meta holds the data about a row other than its tokens. It is an item of row_info in the batch's line of the index.
type Meta struct {
	Record   string `json:"record"`         // hash of the record
	Ordinal  int64  `json:"ordinal"`        // position of the record among those collated, starting at 0
	Part     int    `json:"part"`           // index of the row within the record, starting at 0
	Run      int    `json:"run"`            // collection run of the example
	Example  string `json:"example"`        // id of the example
	Turn     string `json:"turn,omitempty"` // turn id within the example
	Messages []int  `json:"messages"`       // indices of the trained messages in the record
	IDs      string `json:"ids"`            // "sampled": as given by the source; "rendered": made from text
	OnPolicy string `json:"on_policy"`      // same, other, unknown
	Fidelity string `json:"fidelity"`       // one of ids+logprobs, ids, text, partial
	// reasons, such as no_tools, why Fidelity is not higher, as far as the source knows
	Gaps   []string `json:"gaps,omitempty"`
	Proven []string `json:"proven,omitempty"` // parts checked with the model's tokenizer (prompt_tokens, ids)
	// exact, value (same value, different text), raw (as sampled), none (no calls)
	Args   string `json:"args_roundtrip"`
	Prompt int    `json:"prompt,omitempty"` // number of tokens in a preference's common prompt
	// trained messages after which the template doesn't write a stop token
	Open  []int    `json:"open,omitempty"`
	Flags []string `json:"flags,omitempty"` // truncated, cut_off, no_think, prompt_cut, call_ids, no_stop_token, kept_filler, no_reference
	// Changed counts trained turns whose context isn't the recorded one, by change (see builders.Changed).
	Changed map[string]int64 `json:"changed,omitempty"`
	Proof   []Proof          `json:"proof"` // one per side

	RL  *Scored `json:"scored,omitempty"`    // rl only
	Ref *Ref    `json:"reference,omitempty"` // dpo only

	Sites    []RowSite `json:"sites,omitempty"`    // sdpo only
	Sampling *Sampling `json:"sampling,omitempty"` // how the rollout's ids were sampled, if the source reports it
}

// Sampling describes how a rollout was sampled. If LogProbs is "processed", a trainer must divide its logits by the
// temperature to reproduce the log-probs.
type Sampling struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	LogProbs    string  `json:"logprobs"` // "raw": the model's own; "processed": after temperature and top_p
}

// Scored holds the data that the rl channel adds to a row.
type Scored struct {
	Reward    float64 `json:"reward"` // 0 where Null
	Null      bool    `json:"null"`   // the rollout was not scored
	Group     int64   `json:"group"`  // task number, in order of first appearance
	Advantage float64 `json:"advantage"`

	// TeacherTopK is the number of log-probs per token that the source requests from a teacher for the task. 0 means
	// only the token's own log-prob, a negative number means none, and nil means the configured number.
	TeacherTopK *int    `json:"teacher_top_k,omitempty"`
	Teacher     *Taught `json:"teacher,omitempty"` // a teacher's response, if one was requested
}

// Taught summarises one or more teachers' responses for a row in the rl channel.
type Taught struct {
	TopK    int                `json:"top_k"`                  // log-probs per token; 0 means the token's own
	LogProb *float64           `json:"mean_logprob,omitempty"` // mean log-prob over the trained tokens, in nats
	By      map[string]float64 `json:"by,omitempty"`           // mean log-prob by teacher, if there are several
	Failed  string             `json:"failed,omitempty"`       // why the teacher's response is missing
}

// Ref holds a pair's log-probs under the reference model, summed over labels, in nats.
type Ref struct {
	Chosen   float64 `json:"chosen"`
	Rejected float64 `json:"rejected"`
}

// Proof makes it possible to check a side without the run. Hashes are SHA-256 in hex.
type Proof struct {
	Text   string `json:"text"`           // hash of the text of all tokens
	Target string `json:"target"`         // hash of the trained runs' text, with a NUL after each run
	IDs    string `json:"ids,omitempty"`  // hash of the trained ids, as little-endian int32, if the source has them
	Open   int    `json:"open,omitempty"` // number of trained runs that don't end in a terminator
	// set if the tokenizer does not restore the text exactly; the hashes are then of the restored text
	Lossy bool `json:"lossy,omitempty"`
	// Owners lists the owner of each run of tokens.
	Owners Owners `json:"owners,omitempty"`
}

// Owner is the owner of a run of tokens, which begins where the previous one ends. In JSON it is [end, message, why].
type Owner struct {
	End     int    // position after the last token
	Message int    // index in the record's messages; -1: none
	Why     string // InLoss, or the reason why the tokens are not trained on
}

// Reasons why tokens are or are not trained on.
const (
	InLoss     = "trained"
	Context    = "context"     // a message that is not the assistant's
	Markup     = "template"    // the template's own text
	Tools      = "tools"       // tool definitions
	Filler     = "filler"      // inserted into a turn by the template; not written by a model
	Reasoning  = "reasoning"   // a turn's reasoning, if only the rest of the turn is trained on
	OtherPart  = "other_part"  // the rest of a turn, if only one part is trained on
	Hint       = "hint"        // the teacher's hint
	NotSampled = "not_sampled" // an assistant message that the model did not produce in this rollout
	OtherRow   = "other_row"   // a turn that is trained on in another row of the record
	Policy     = "loss_policy" // an assistant turn excluded by the record's loss policy; in sdpo, one that isn't a target
	CutOff     = "cut_off"     // a redaction tag, or the terminator of a turn that the model did not end
)

// Owners lists the owners of a side's tokens, in order.
type Owners []Owner

// MarshalJSON writes [[end, message, why], ...].
func (o Owners) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 24*len(o)+2), '[')
	for i, x := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), int64(x.End), 10)
		b = strconv.AppendInt(append(b, ','), int64(x.Message), 10)
		b = append(append(append(b, `,"`...), x.Why...), `"]`...)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads MarshalJSON's form a few times faster than encoding/json, which reads any other form.
func (o *Owners) UnmarshalJSON(b []byte) error {
	text := strings.TrimSuffix(strings.TrimPrefix(string(b), "[["), "]]")
	list := make(Owners, 0, strings.Count(text, "],[")+1)
	for item := range strings.SplitSeq(text, "],[") {
		end, rest, _ := strings.Cut(item, `,`)
		message, rest, _ := strings.Cut(rest, `,"`)
		why, rest, _ := strings.Cut(rest, `"`)
		x := Owner{Why: why}
		var err, err2 error
		x.End, err = strconv.Atoi(end)
		x.Message, err2 = strconv.Atoi(message)
		if err != nil || err2 != nil || rest != "" || strings.Trim(why, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return json.Unmarshal(b, (*[]Owner)(o))
		}
		list = append(list, x)
	}
	*o = list
	return nil
}

// UnmarshalJSON reads [end, message, why].
func (o *Owner) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[3]any{&o.End, &o.Message, &o.Why})
}

// begin returns where the first trained turn of a side begins. The tokens before it are its prompt, including any that
// the template inserts before the model's own text.
func (p *Proof) begin() int {
	at := 0
	for _, o := range p.Owners {
		if o.Why == InLoss || o.Why == CutOff { // a turn begins with CutOff only if it begins with a redaction tag
			break
		}
		at = o.End
	}
	return at
}

// Prompts returns the number of tokens before the first trained turn on each of a pair's sides, and whether both sides
// have the same tokens there. Log-probs of answers to different prompts can't be compared.
func (r *Row) Prompts() (chosen, rejected int, same bool) {
	a, b := r.Meta.Proof[0].begin(), r.Meta.Proof[1].begin()
	return a, b, slices.Equal(r.Sides[0].IDs[:min(a, len(r.Sides[0].IDs))], r.Sides[1].IDs[:min(b,
		len(r.Sides[1].IDs))])
}

// Encoded is a row for a spool. It holds the row's encoding, or the location where the encoding is stored. Rows are
// encoded in parallel by the workers that make them, and are then added to the spool one by one.
type Encoded struct {
	Variant   uint8
	Width     [maxSides]uint32 // tokens of the longest sequence on each side
	Sequences [maxSides]uint32 // number of sequences on each side
	Bytes     uint32           // of the encoding
	Sum       uint64           // xxh3 hash of an encoding stored elsewhere, which the reader verifies

	// The location of an encoding stored elsewhere, followed by values that may not be known when the row is made.
	File    int   `json:"-"`
	Offset  int64 `json:"-"`
	Ordinal int64 `json:"-"` // position of the row's record among those collated
	Group   int64 `json:"-"` // number of an rl row's task, else -1

	data []byte // nil if the encoding is stored elsewhere
}

// Encode encodes a row of a channel.
func Encode(c *Channel, r *Row) (*Encoded, error) {
	if c == SDPO && len(r.Sides) < 2 || c != SDPO && len(r.Sides) != len(c.Sides) {
		return nil, fmt.Errorf("invalid row: %d sides for channel %s", len(r.Sides), c.Name)
	}
	e := encodings.Get().(*Encoded)
	*e = Encoded{Variant: c.variant(r), Ordinal: r.Meta.Ordinal, Group: -1, data: e.data[:0]}
	if r.Meta.RL != nil {
		e.Group = r.Meta.RL.Group
	}
	for i := range c.Sides {
		all := seqs(c, []*Row{r}, i)
		e.Sequences[i] = uint32(len(all))
		for _, s := range all {
			e.Width[i] = max(e.Width[i], uint32(len(s.IDs)))
		}
	}
	var err error
	e.data, err = appendRow(e.data, r)
	e.Bytes = uint32(len(e.data))
	return e, err
}

// encodings holds rows that are no longer needed, for reuse.
var encodings = sync.Pool{New: func() any { return new(Encoded) }}

// Append appends the row's encoding to dst, to be stored outside the spool, and sets Sum.
func (e *Encoded) Append(dst []byte) []byte {
	e.Sum = xxh3.Hash(e.data)
	return append(dst, e.data...)
}

// Free releases the memory of a row that will not be spooled. The row must not be used again.
func (e *Encoded) Free() { encodings.Put(e) }

// rowHead is the size in bytes of an encoding's first two fields, the row's task and its record's ordinal. Their values
// depend on all earlier rows.
const rowHead = 8 + 8

// number sets the ordinal and the task in an encoding.
func (e *Encoded) number(data []byte) {
	binary.LittleEndian.PutUint64(data[8:], uint64(e.Ordinal))
	if e.Group >= 0 {
		binary.LittleEndian.PutUint64(data, uint64(e.Group))
	}
}

// rowFields contains the fields of a row's encoding that precede its Meta, which is encoded as JSON.
type rowFields struct {
	Group, Ordinal int64 // rowHead
	Meta, Sides    uint32
	Weight         float32
}

// sideFields contains the lengths of a side's lists. The lists themselves follow.
type sideFields struct{ IDs, Trained, LogProbs uint32 }

// appendRow encodes a row for the spool.
func appendRow(dst []byte, r *Row) ([]byte, error) {
	meta, err := json.Marshal(&r.Meta)
	if err != nil {
		return dst, err
	}
	head := rowFields{
		Ordinal: r.Meta.Ordinal, Meta: uint32(len(meta)), Sides: uint32(len(r.Sides)), Weight: r.Weight,
	}
	if r.Meta.RL != nil {
		head.Group = r.Meta.RL.Group
	}
	size := binary.Size(head) + len(meta)
	for i := range r.Sides {
		s := &r.Sides[i]
		size += binary.Size(sideFields{}) + 4*(len(s.IDs)+2*len(s.Trained)+len(s.LogProbs))
	}
	dst = slices.Grow(dst, size) // at once, because rows are most of the live memory and doubling wastes it
	put := func(v any) {
		if err == nil {
			dst, err = binary.Append(dst, binary.LittleEndian, v)
		}
	}
	put(head)
	dst = append(dst, meta...)
	for i := range r.Sides {
		s := &r.Sides[i]
		ends := make([]int32, 0, 2*len(s.Trained))
		for _, t := range s.Trained {
			ends = append(ends, int32(t.Start), int32(t.End))
		}
		put(sideFields{uint32(len(s.IDs)), uint32(len(s.Trained)), uint32(len(s.LogProbs))})
		for _, list := range [][]byte{tensors.Bytes(s.IDs), tensors.Bytes(ends), tensors.Bytes(s.LogProbs)} {
			dst = append(dst, list...)
		}
	}
	return dst, err
}

// readRow decodes a row encoded by appendRow.
func readRow(b []byte) (*Row, error) {
	d := decoder{b: b}
	var head rowFields
	d.read(&head)
	r := &Row{Weight: head.Weight}
	meta := d.bytes(int(head.Meta))
	if d.bad || int(head.Sides) > len(d.b) {
		return nil, errSpool
	}
	if err := json.Unmarshal(meta, &r.Meta); err != nil {
		return nil, fmt.Errorf("%w: %v", errSpool, err)
	}
	if r.Meta.Ordinal = head.Ordinal; r.Meta.RL != nil {
		r.Meta.RL.Group = head.Group
	}
	r.Sides = make([]Side, head.Sides)
	for i := range r.Sides {
		s := &r.Sides[i]
		var n sideFields
		if d.read(&n); d.bad || 4*int(n.IDs)+8*int(n.Trained)+4*int(n.LogProbs) > len(d.b) {
			return nil, errSpool
		}
		ends := make([]int32, 2*n.Trained)
		s.IDs, s.Trained = make([]int32, n.IDs), make([]chat.Span, n.Trained)
		if n.LogProbs > 0 {
			s.LogProbs = make([]float32, n.LogProbs)
		}
		for _, list := range [][]byte{tensors.Bytes(s.IDs), tensors.Bytes(ends), tensors.Bytes(s.LogProbs)} {
			copy(list, d.bytes(len(list)))
		}
		for k := range s.Trained {
			s.Trained[k] = chat.Span{Start: int(ends[2*k]), End: int(ends[2*k+1])}
		}
	}
	if d.bad || len(d.b) != 0 {
		return nil, errSpool
	}
	return r, nil
}

var errSpool = errors.New("damaged spool of rows")

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// read reads values of fixed size.
func (d *decoder) read(v any) {
	n, err := binary.Decode(d.b, binary.LittleEndian, v)
	d.bad = d.bad || err != nil
	d.b = d.b[min(n, len(d.b)):]
}
