package batch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/coder"
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
	// reasons, reported by the source, for a Fidelity below the highest, such as no_tools
	Gaps   []string `json:"gaps,omitempty"`
	Proven []string `json:"proven,omitempty"` // parts checked with the model's tokenizer (prompt_tokens, ids)
	// exact, value (same value, different text), raw (as sampled), none (no calls)
	Args   string `json:"args_roundtrip"`
	Prompt int    `json:"prompt,omitempty"` // number of tokens in a preference's common prompt
	// trained messages after which the template doesn't write a stop token
	Open  []int    `json:"open,omitempty"`
	Flags []string `json:"flags,omitempty"` // truncated, cut_off, no_think, prompt_cut, call_ids, no_stop_token, kept_filler, no_reference
	// Changed counts the trained turns whose context differs from the recorded one, by kind of change (see
	// builders.Changed).
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
	Reward    float64 `json:"reward"` // 0 if Null
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
	Message int    // index in the record's messages; -1 means none
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
	Policy     = "loss_policy" // an assistant turn that loss_policy excludes; in sdpo, one that isn't a target
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

// UnmarshalJSON decodes the form that MarshalJSON writes, several times faster than encoding/json. It
// decodes other forms with encoding/json.
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

// begin returns the index of the first token of the side's first trained turn. The tokens before it are its prompt,
// including any that the template inserts before the model's own text.
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
//
// A caller that stores encodings elsewhere calls Append, which also sets Sum, and then stores the Encoded as JSON.
// After reading the JSON back, it sets File and Offset, and also Ordinal and Group unless they were known when the row
// was made.
type Encoded struct {
	entry
	data []byte // nil if the encoding is stored elsewhere
}

// Encode encodes a row of a channel.
func Encode(c *Channel, r *Row) (*Encoded, error) {
	if !c.hasSides(r) {
		return nil, fmt.Errorf("invalid row: %d sides for channel %s", len(r.Sides), c.Name)
	}
	e := encodings.Get().(*Encoded)
	*e = Encoded{entry: entry{Variant: c.variant(r), Ordinal: r.Meta.Ordinal, Group: -1}, data: e.data[:0]}
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

// appendRow encodes a row for the spool.
func appendRow(dst []byte, r *Row) ([]byte, error) {
	bare := r.Meta
	bare.Proof = slices.Clone(bare.Proof)
	owners := 0
	for i := range bare.Proof {
		owners += len(bare.Proof[i].Owners)
		bare.Proof[i].Owners = nil
	}
	meta, err := json.Marshal(&bare)
	if err != nil {
		return dst, err
	}
	const lengths = 5 * binary.MaxVarintLen32
	size := lengths*(1+len(bare.Proof)) + len(meta) + ownerBytes*owners
	for i := range r.Sides {
		s := &r.Sides[i]
		size += lengths + 4*(len(s.IDs)+2*len(s.Trained)+len(s.LogProbs))
	}
	// The memory grows at once, because rows are most of the live memory and doubling wastes it.
	c := coder.Coder{Buf: slices.Grow(dst, size)}
	codeRow(&c, &meta, r)
	codeOwners(&c, r.Meta.Proof)
	return c.Buf, c.Err
}

// row decodes an encoding made by appendRow.
func (e *entry) row(b []byte) (*Row, error) {
	room := int64(rowRoom * len(b))
	c, r, meta := coder.Reader(b, &room), &Row{}, []byte(nil)
	codeRow(&c, &meta, r)
	err := c.Err
	if err == nil {
		err = json.Unmarshal(meta, &r.Meta)
	}
	if err == nil {
		codeOwners(&c, r.Meta.Proof)
		err = c.Err
	}
	if err == nil && c.Left() > 0 {
		err = errors.New("unread bytes")
	}
	if err == nil {
		err = channels[e.Channel].fits(r, e.Variant)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errSpool, err)
	}
	if r.Meta.Ordinal = e.Ordinal; r.Meta.RL != nil && e.Group >= 0 {
		r.Meta.RL.Group = e.Group
	}
	return r, nil
}

// rowRoom is the maximum memory that a row's lists take, per byte of the encoding. Sides without tokens take the most
// memory.
const rowRoom = 24

// codeRow codes a row except for its owners. Its Meta, without them, is encoded as JSON.
func codeRow(c *coder.Coder, meta *[]byte, r *Row) {
	coder.Raw(c, meta)
	weight := math.Float32bits(r.Weight)
	coder.Natural(c, &weight)
	r.Weight = math.Float32frombits(weight)
	for i := range coder.List(c, &r.Sides) {
		s := &r.Sides[i]
		coder.Fixed(c, &s.IDs)
		for k := range coder.List(c, &s.Trained) {
			c.Fixed32(&s.Trained[k].Start)
			c.Fixed32(&s.Trained[k].End)
		}
		coder.Fixed(c, &s.LogProbs)
	}
}

// codeOwners codes the owners of a row's sides, which would make up most of the JSON.
func codeOwners(c *coder.Coder, sides []Proof) {
	for i := range sides {
		all := coder.List(c, (*[]Owner)(&sides[i].Owners))
		for k := range all {
			o := &all[k]
			why := uint8(slices.Index(reasons[:], o.Why))
			coder.Natural(c, &o.End)
			coder.Integer(c, &o.Message)
			switch coder.Octet(c, &why); {
			case int(why) >= len(reasons):
				c.Err = fmt.Errorf("unknown reason for the owner of the tokens up to %d", o.End)
				c.Fail()
				return
			case c.Reading: // when writing, other rows may have the same owners
				o.Why = reasons[why]
			}
		}
	}
}

// ownerBytes is the number of bytes that codeOwners usually needs for an owner, or more.
const ownerBytes = 6

// reasons are the values of Owner.Why, in an order that codeOwners relies on.
var reasons = [...]string{
	InLoss, Context, Markup, Tools, Filler, Reasoning, OtherPart, Hint, NotSampled, OtherRow, Policy, CutOff,
}

var errSpool = errors.New("damaged spool of rows")
