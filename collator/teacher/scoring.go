package teacher

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nat-go/nat-go/collator/teacher/internal/scorer"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// Scoring uses a program to compute all logits at the pair positions, for both sides of each site, with as many sites
// in a request as fit. Only the kernel's results are kept, not the logits, so that a resumed run doesn't request a
// site twice. If a request fails, its sites are retried one by one; failures are not stored.
type Scoring struct {
	Program     *scorer.Scorer
	Command     []string // the program and its arguments; part of the key of stored answers
	Fingerprint string   // fingerprint of the tokenizer
	Store       string   // folder for the answers; if empty, they are not stored
	Settled     func()   // called for each site that is scored or abandoned; may be nil

	rep Scored
}

// Scored counts the requests to the program.
type Scored struct {
	Model    string  `json:"model,omitempty"` // the program's name for its model
	Vocab    int     `json:"vocab,omitempty"`
	Starts   int     `json:"starts"` // number of times the program was started
	Requests int64   `json:"requests"`
	Sites    int     `json:"sites"`              // sites in requests
	Replayed int     `json:"replayed,omitempty"` // sites whose answers were already stored
	Failed   int     `json:"failed,omitempty"`   // sites that the program could not score
	Seconds  float64 `json:"seconds"`            // time taken by the program
}

// saveEvery is the minimum time between two saves.
const saveEvery = 2 * time.Second

// part is a group of a site's pairs that fits in one request.
type part struct {
	site  int64
	pairs []int
}

// scoring is the state of scoring one batch.
type scoring struct {
	*Scoring
	b      *batchWork
	k      *divergences
	d      *Divergence
	bySite map[int64][]int // each site's pairs, in order
	wait   []part
	rows   int // number of rows of logits that the parts in wait need
	tokens int // number of tokens in their sequences
	saved  time.Time
	lost   map[int64]bool
}

// batch computes the divergence of every pair of a batch. Sites that the program cannot score are dropped.
func (s *Scoring) batch(ctx context.Context, b *batchWork, k *divergences) (*Divergence, error) {
	w := &scoring{
		Scoring: s,
		b:       b,
		k:       k,
		d:       newDivergence(b.pairs.Len()),
		bySite:  map[int64][]int{},
		saved:   time.Now(),
		lost:    map[int64]bool{},
	}
	for i, site := range b.pairs.Site {
		w.bySite[site] = append(w.bySite[site], i)
	}
	key := s.key(b.pairs)
	w.load(key)
	missing := slices.DeleteFunc(slices.Clone(b.sites),
		func(site int64) bool { return !math.IsNaN(w.d.Token[w.bySite[site][0]]) })
	s.rep.Replayed += len(b.sites) - len(missing)
	if len(missing) > 0 {
		err := w.ask(ctx, missing, key)
		s.rep.Starts, s.rep.Requests = s.Program.Starts(), s.Program.Requests()
		if err = errors.Join(err, w.save(key)); err != nil {
			return nil, err
		}
	}
	w.d.sum(b.pairs)
	return w.d, nil
}

func (w *scoring) ask(ctx context.Context, sites []int64, key string) error {
	began := time.Now()
	m, err := w.Program.Model(ctx)
	w.rep.Seconds += time.Since(began).Seconds()
	if err != nil {
		return err
	}
	w.rep.Model, w.rep.Vocab = m.Name, m.Vocab
	for _, site := range sites {
		w.rep.Sites++
		for rest := w.bySite[site]; len(rest) > 0 && !w.lost[site]; {
			n := len(rest)
			for n > 1 && !w.Program.Fits(2*n, 0) {
				n /= 2
			}
			if err := w.add(ctx, m, part{site, rest[:n]}); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if w.Settled != nil {
			w.Settled()
		}
		if time.Since(w.saved) > saveEvery {
			if err := w.save(key); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx, m)
}

// add puts a part into the next request. If the part doesn't fit, the pending request is made first.
func (w *scoring) add(ctx context.Context, m scorer.Model, p part) error {
	t := w.b.pairs
	rows, tokens := 2*len(p.pairs), len(t.Student[t.StudentRow[p.pairs[0]]])+len(t.Teacher[t.TeacherRow[p.pairs[0]]])
	if len(w.wait) > 0 && !w.Program.Fits(w.rows+rows, w.tokens+tokens) {
		if err := w.flush(ctx, m); err != nil {
			return err
		}
	}
	w.wait = append(w.wait, p)
	w.rows, w.tokens = w.rows+rows, w.tokens+tokens
	return nil
}

// flush makes the pending request.
func (w *scoring) flush(ctx context.Context, m scorer.Model) error {
	parts := w.wait
	w.wait, w.rows, w.tokens = nil, 0, 0
	if len(parts) == 0 {
		return nil
	}
	err := w.score(ctx, m, parts)
	var failed *scorer.Failed
	switch {
	case !errors.As(err, &failed):
		return err
	case len(parts) == 1:
		w.drop(parts[0].site, err)
		return nil
	}
	for i := range parts { // retry the parts one by one, because a single part may have caused the failure
		if w.lost[parts[i].site] {
			continue
		}
		if err := w.score(ctx, m, parts[i:i+1]); errors.As(err, &failed) {
			w.drop(parts[i].site, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// drop drops a site with all its parts.
func (w *scoring) drop(site int64, err error) {
	if w.lost[site] {
		return
	}
	w.lost[site] = true
	w.rep.Failed++
	w.forget(w.bySite[site])
	w.b.lose(site, reasonOf(err), err.Error())
}

// forget resets the divergences of pairs to unknown.
func (w *scoring) forget(pairs []int) {
	for _, i := range pairs {
		w.d.Token[i] = math.NaN()
	}
}

// score scores parts and records their divergences.
func (w *scoring) score(ctx context.Context, m scorer.Model, parts []part) error {
	sequences, pairs := w.sequences(parts)
	began := time.Now()
	data, err := w.Program.Score(ctx, sequences)
	w.rep.Seconds += time.Since(began).Seconds()
	if err != nil {
		return err
	}
	var sides [2]kernels.Matrix
	half := len(data) / 2
	for i := range sides {
		t := tensors.Tensor{
			Name:  "logits",
			DType: m.DType,
			Shape: []int{len(pairs), m.Vocab},
			Data:  data[i*half : (i+1)*half],
		}
		if sides[i], err = logits(t); err != nil {
			return err
		}
	}
	bad, err := w.k.run(w.d, w.b.pairs, pairs, sides[0], sides[1])
	if err != nil {
		return err
	}
	if bad >= 0 {
		return &scorer.Failed{Err: &badAnswer{"a row of logits has no softmax (a NaN, +Inf, or -Inf throughout)"}}
	}
	for _, p := range parts {
		if w.lost[p.site] { // another part of the same site failed
			w.forget(p.pairs)
		}
	}
	return nil
}

// sequences returns the sequences for the parts' pairs, in order: first the student's, then the teacher's.
func (w *scoring) sequences(parts []part) (all []scorer.Sequence, pairs []int) {
	for _, p := range parts {
		pairs = append(pairs, p.pairs...)
	}
	t := w.b.pairs
	return append(
		gather(t.Student, t.StudentRow, t.StudentPos, pairs),
		gather(t.Teacher, t.TeacherRow, t.TeacherPos, pairs)...), pairs
}

// gather returns one sequence per row, with the positions at which logits are needed. It truncates each row after the
// last of these positions.
func gather(rows [][]int32, row, pos []int64, pairs []int) (all []scorer.Sequence) {
	for i, p := range pairs {
		if i == 0 || row[p] != row[pairs[i-1]] {
			all = append(all, scorer.Sequence{})
		}
		s := &all[len(all)-1]
		s.Positions = append(s.Positions, int32(pos[p]))
		if end := int(pos[p]) + 1; end > len(s.IDs) {
			s.IDs = rows[row[p]][:end]
		}
	}
	return all
}

// scoringVersion is part of every key. Change it whenever the layout changes.
const scoringVersion = "scored logits 1"

// key returns the hash of everything that a batch's answers depend on.
func (s *Scoring) key(p *Pairs) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n%q\n", scoringVersion, s.Command, s.Fingerprint)
	put := func(v any) { _ = binary.Write(h, binary.LittleEndian, v) } // writing to a hash never fails
	for _, row := range slices.Concat(p.Student, p.Teacher) {
		put(uint32(len(row)))
		put(row)
	}
	for _, column := range [][]int64{p.StudentRow, p.StudentPos, p.TeacherRow, p.TeacherPos, p.Site} {
		put(column)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// load reads the batch's stored answers.
func (w *scoring) load(key string) {
	data, ok := store{dir: w.Store}.read(key)
	if n := w.b.pairs.Len(); !ok || len(data) != 24*n {
		return
	}
	for _, list := range [][]float64{w.d.Token, w.d.Student, w.d.Teacher} {
		n, _ := binary.Decode(data, binary.LittleEndian, list) // the length was checked above
		data = data[n:]
	}
	for _, pairs := range w.bySite { // restore only complete sites
		if slices.ContainsFunc(pairs, func(i int) bool { return math.IsNaN(w.d.Token[i]) }) {
			w.forget(pairs)
		}
	}
}

// save stores the answers obtained so far.
func (w *scoring) save(key string) error {
	w.saved = time.Now()
	var data []byte
	for _, list := range [][]float64{w.d.Token, w.d.Student, w.d.Teacher} {
		data, _ = binary.Append(data, binary.LittleEndian, list)
	}
	return store{dir: w.Store}.write(key, data)
}
