package batch

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/tensors"
)

// Ignored is the label of a token that is not trained on, unless a batch's form specifies another label.
const Ignored = -100

// Channel describes the files of a channel.
type Channel struct {
	Name  string   // folder under batches/
	Sides []string // prefix of each side's tensors
	// columns appends the channel's columns other than ids, attention masks, positions and row columns.
	columns func(dst []tensors.Tensor, b *assembly) []tensors.Tensor
}

// The channels, in index order.
var (
	SFT = &Channel{Name: "sft", Sides: []string{""}, columns: labels}
	DPO = &Channel{Name: "dpo", Sides: []string{"chosen_", "rejected_"}, columns: pairColumns}
	RL  = &Channel{Name: "rl", Sides: []string{""}, columns: rolloutColumns}
	// SDPO has one teacher per site, or one for all sites in a row, so there may be more teachers than students.
	SDPO = &Channel{Name: "sdpo", Sides: []string{"student_", "teacher_"}, columns: sitePairs}
)

var channels = []*Channel{SFT, DPO, RL, SDPO}

// examples describes step files with a row for each example. A row combines a rollout, as in RL, with a teacher, which
// is the same rollout with all its hints. Batches never belong to this channel.
var examples = &Channel{Name: "examples", Sides: SDPO.Sides, columns: exampleColumns}

// Lookup finds a channel by name.
func Lookup(name string) *Channel {
	for _, c := range channels {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// variant distinguishes rows that can't share a batch because the ones with log-probs have more columns.
func (c *Channel) variant(r *Row) uint8 {
	if c == DPO && r.Meta.Ref != nil || c == RL && r.Sides[0].LogProbs != nil {
		return 1
	}
	return 0
}

// hasSides reports whether a row has the channel's number of sides. An sdpo row has one or more teachers.
func (c *Channel) hasSides(r *Row) bool {
	return len(r.Sides) == len(c.Sides) || c == SDPO && len(r.Sides) > len(c.Sides)
}

// fits checks that a row read from a file can be in a batch of the channel and the variant: that it has their sides and
// columns, and that its positions are within its tokens.
func (c *Channel) fits(r *Row, variant uint8) error {
	if !c.hasSides(r) || c == RL && r.Meta.RL == nil || c.variant(r) != variant {
		return fmt.Errorf("%d sides, or other columns than rows of channel %s have", len(r.Sides), c.Name)
	}
	for k := range r.Sides {
		for _, t := range r.Sides[k].Trained {
			if t.Start < 0 || t.Start > t.End || t.End > len(r.Sides[k].IDs) {
				return fmt.Errorf("span %d-%d of side %d is outside its tokens", t.Start, t.End, k)
			}
		}
	}
	if r.Meta.ownerBefore() {
		return errors.New("owned tokens end before the first")
	}
	if c != SDPO {
		return nil
	}
	if slices.ContainsFunc(r.Meta.Sites, func(s RowSite) bool { return s.Teacher < 0 || s.Teacher > len(r.Sides)-2 }) {
		return errors.New("unknown teacher of a site")
	}
	return r.Splices()
}

// assembly is a batch under construction. Each side has its own number of rows, R, and width, T.
type assembly struct {
	channel *Channel
	rows    []*Row
	layout  Layout
	form    Form
	seqs    [][]*Side // sequences on each side
	width   []int     // width T of each side
}

func (a *assembly) height(side int) int {
	if a.layout == Packed {
		return 1
	}
	return len(a.seqs[side])
}

// starts returns the positions of the sequences' first tokens in a side's tensors.
func (a *assembly) starts(side int) []int {
	at := make([]int, len(a.seqs[side]))
	next := 0
	for i, s := range a.seqs[side] {
		at[i] = next
		if a.layout == Packed {
			next += len(s.IDs)
		} else {
			next += a.width[side]
		}
	}
	return at
}

// grid makes an int64 [R,T] tensor of a side, with a fill value in cells without a token.
func (a *assembly) grid(name string, side int, fill int64, put func(cells []int64, s *Side)) tensors.Tensor {
	return gridOf(a, name, side, fill, put)
}

func gridOf[T int64 | float32](
	a *assembly, name string, side int, fill T, put func(cells []T, s *Side),
) tensors.Tensor {
	cells := cellsOf[T](a.height(side) * a.width[side])
	for i := range cells {
		cells[i] = fill
	}
	for i, at := range a.starts(side) {
		s := a.seqs[side][i]
		gaps := a.gaps(side, i)
		if len(gaps) == 0 {
			put(cells[at:at+len(s.IDs)], s)
			continue
		}
		whole := slices.Repeat([]T{fill}, len(s.IDs))
		put(whole, s)
		done := 0
		for _, g := range gaps {
			copy(cells[at:], whole[done:g.from])
			at, done = at+g.from-done+g.cells, g.from
		}
		copy(cells[at:], whole[done:])
	}
	return tensors.Of(name, cells, a.height(side), a.width[side])
}

// spare holds the cells of written grids, so that grids don't take new memory for each batch.
var spare sync.Pool // of *[]int64

// cellsOf returns n cells with undefined content.
func cellsOf[T int64 | float32](n int) []T {
	const step = 1 << 15
	if _, reused := any(T(0)).(int64); !reused || n < step {
		return make([]T, n)
	}
	if old, ok := spare.Get().(*[]int64); ok && cap(*old) >= n {
		return any((*old)[:n]).([]T)
	}
	return make([]T, n, (n+step-1)/step*step) // rounded up, so that a slightly larger batch can reuse the memory
}

// reuse makes the memory of a batch's grids available to later batches.
func reuse(all []tensors.Tensor) {
	for _, t := range all {
		if cells, err := tensors.Items[int64](t); err == nil && len(t.Shape) == 2 {
			spare.Put(&cells)
		}
	}
}

// gap is a run of empty cells before a sequence's token at index from.
type gap struct{ from, cells int }

// gaps returns a sequence's gaps on one side, in order. A student that is as wide as its teacher has a gap wherever the
// teacher has a hint.
func (a *assembly) gaps(side, row int) (out []gap) {
	if !a.form.EqualWidth || side != 0 {
		return nil
	}
	for _, s := range a.rows[row].teacherSites(0) {
		if s.Hint > 0 {
			out = append(out, gap{int(s.At), int(s.Hint)})
		}
	}
	return out
}

// positions returns 0, 1, 2, ... for the tokens in each sequence. The cells of a gap, which are never read, hold
// the position of the next token.
func (a *assembly) positions(name string, side int) tensors.Tensor {
	t := a.grid(name, side, 0, func(cells []int64, _ *Side) {
		for i := range cells {
			cells[i] = int64(i)
		}
	})
	cells, _ := tensors.Items[int64](t)
	for i, at := range a.starts(side) {
		for _, g := range a.gaps(side, i) {
			for k := range g.cells {
				cells[at+g.from+k] = int64(g.from)
			}
			at += g.cells
		}
	}
	return tensors.Of(name, cells, t.Shape...)
}

// newAssembly returns an assembly with the widths of its sides.
func newAssembly(c *Channel, rows []*Row, layout Layout, form Form) *assembly {
	a := &assembly{channel: c, rows: rows, layout: layout, form: form, width: make([]int, len(c.Sides))}
	for side := range c.Sides {
		a.seqs = append(a.seqs, seqs(c, rows, side))
		for _, s := range a.seqs[side] {
			n := len(s.IDs)
			if layout == Packed {
				a.width[side] += n
			} else {
				a.width[side] = max(a.width[side], n)
			}
		}
	}
	if form.EqualWidth {
		a.width[0] = a.width[1]
	}
	return a
}

// assemble makes a batch's tensors.
func assemble(c *Channel, rows []*Row, layout Layout, form Form, pad int64) []tensors.Tensor {
	a := newAssembly(c, rows, layout, form)
	var out []tensors.Tensor
	for side, prefix := range c.Sides {
		out = append(out, a.grid(prefix+"input_ids", side, pad, func(cells []int64, s *Side) {
			for i, id := range s.IDs {
				cells[i] = int64(id)
			}
		}))
		if layout != Packed { // if a mask is given, transformers doesn't derive the sequences from position_ids
			out = append(out, a.grid(prefix+"attention_mask", side, 0, func(cells []int64, s *Side) {
				for i := range cells {
					cells[i] = 1
				}
			}))
		}
		out = append(out, a.positions(prefix+"position_ids", side))
	}
	out = append(c.columns(out, a), a.rowColumns()...)
	if layout == Composer {
		for i := range out {
			out[i].Name = composerName(c, out[i].Name)
		}
	}
	return out
}

// labelGrid returns a grid that holds the trained token ids, and Ignored elsewhere. In the composer layout, it returns
// a mask.
func (a *assembly) labelGrid(side int) tensors.Tensor {
	if a.layout == Composer {
		return a.maskGrid(a.channel.Sides[side]+"labels", side, 0, 0)
	}
	return a.grid(a.channel.Sides[side]+"labels", side, a.form.ignored(), func(cells []int64, s *Side) {
		for _, r := range s.Trained {
			for i := r.Start; i < r.End; i++ {
				cells[i] = int64(s.IDs[i])
			}
		}
	})
}

// maskGrid returns a grid in which cell i-before is 1 for each trained token i. Other cells hold off.
func (a *assembly) maskGrid(name string, side, before int, off int64) tensors.Tensor {
	return a.grid(name, side, off, func(cells []int64, s *Side) {
		for _, r := range s.Trained {
			for i := r.Start; i < r.End; i++ {
				cells[i-before] = 1
			}
		}
	})
}

func labels(dst []tensors.Tensor, a *assembly) []tensors.Tensor {
	for side := range a.channel.Sides {
		dst = append(dst, a.labelGrid(side))
	}
	if a.layout == Packed {
		lengths := lists.Map(a.rows, func(r *Row) int64 { return int64(len(r.Sides[0].IDs)) })
		dst = append(dst, tensors.Of("seq_lengths", lengths, len(lengths)))
	}
	return dst
}

func pairColumns(dst []tensors.Tensor, a *assembly) []tensors.Tensor {
	dst = labels(dst, a)
	if a.rows[0].Meta.Ref == nil {
		return dst
	}
	return append(dst, a.floats("ref_chosen_logps", func(r *Row) float32 { return float32(r.Meta.Ref.Chosen) }),
		a.floats("ref_rejected_logps", func(r *Row) float32 { return float32(r.Meta.Ref.Rejected) }))
}

func rolloutColumns(dst []tensors.Tensor, a *assembly) []tensors.Tensor {
	dst = append(dst, a.maskGrid("response_mask", 0, 0, 0))
	if a.rows[0].Sides[0].LogProbs != nil {
		dst = append(dst, gridOf(a, "old_logprobs", 0, 0, func(cells []float32, s *Side) {
			k := 0
			for _, r := range s.Trained {
				k += copy(cells[r.Start:r.End], s.LogProbs[k:])
			}
		}))
	}
	return append(dst,
		a.floats("reward", func(r *Row) float32 { return float32(r.Meta.RL.Reward) }),
		a.floats("advantage", func(r *Row) float32 { return float32(r.Meta.RL.Advantage) }),
		a.ints("reward_null", func(i int) int64 {
			if a.rows[i].Meta.RL.Null {
				return 1
			}
			return 0
		}),
		a.ints("group", func(i int) int64 { return a.rows[i].Meta.RL.Group }))
}

// rowColumns returns the columns that every channel has. row_rollout and row_example are indices into the lists in the
// batch's line.
func (a *assembly) rowColumns() []tensors.Tensor {
	rollouts, examples := recordsOf(a.rows)
	return []tensors.Tensor{
		a.floats("row_weight", func(r *Row) float32 { return r.Weight }),
		a.ints("row_n_active", func(i int) int64 { return int64(a.rows[i].active()) }),
		a.ints("row_rollout", func(i int) int64 { return int64(rollouts.at[i]) }),
		a.ints("row_example", func(i int) int64 { return int64(examples.at[i]) }),
	}
}

// active counts the labels of all sides, or the pairs of an sdpo row.
func (r *Row) active() (n int) {
	if r.Meta.RL != nil { // a rollout's teacher isn't counted, because its targets are tokens of the rollout
		return r.Sides[0].Active()
	}
	for i := range r.Meta.Sites {
		n += r.Meta.Sites[i].Tokens()
	}
	for i := range r.Sides {
		if len(r.Meta.Sites) == 0 {
			n += r.Sides[i].Active()
		}
	}
	return n
}

func (a *assembly) floats(name string, of func(*Row) float32) tensors.Tensor {
	return tensors.Of(name, lists.Map(a.rows, of), len(a.rows))
}

func (a *assembly) ints(name string, of func(i int) int64) tensors.Tensor {
	v := make([]int64, len(a.rows))
	for i := range v {
		v[i] = of(i)
	}
	return tensors.Of(name, v, len(v))
}
