package dataset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// originsName is the name of the file that lists the origins of a format's rows, in row order. It is in the same folder
// as the rows. A row built from several records has one line per record.
const originsName = "rows.jsonl"

// Spec specifies the output of Write.
type Spec struct {
	Dir       string // folder of the data set; each format gets a folder in it
	Log       string // folder of the record log; if empty, no text rows are written
	Batches   string // folder of the token batches; if empty, formats that are built from them are skipped
	Decisions *curate.Decisions
	Formats   []Format
	Options   rows.Options
	Dropped   func(ledger.Drop)       // called for records that a format can't represent and turns without a row
	Gates     curate.Gates            // the settings with which the decisions were made
	NotKept   func(ledger.Drop)       // called for every record that was dropped before rows were built; may be nil
	Progress  func(first, end uint64) // called before each group in the log with its range of records; may be nil
	// Ready is called with the formats and their files once all files are durable but before the first file gets its
	// final name. If it returns an error, Write returns that error, and no files remain. It may be nil.
	Ready Ready

	// NoEmpty omits formats that would have no rows. Otherwise, such a format gets a folder without rows.
	NoEmpty bool

	part bool // whether to write one part of the log, with its rows as lines, and the data that Join needs

	kept     []member // kept records from the group being written
	contexts []ttc.History
	// contents describes the content of the kept records of each kind. It is set only if the data set has tables.
	contents [8]rows.Contents
}

// Ready is a function to be called with the written formats and their files.
type Ready func([]runfolder.Written, []runfolder.File) error

// Unit returns the unit in which a format's records are counted.
func Unit(format string) string { return format + " record" }

// TurnUnit returns the unit in which turns are counted if only some of them have rows in a format.
func TurnUnit(format string) string { return format + " turn" }

// TurnsLost describes the turns that don't get a row, in records that a format can represent. It returns "" if every
// turn gets a row.
func TurnsLost(w runfolder.Written) string {
	t := w.Contexts
	if t == nil || t.Lost == 0 {
		return ""
	}
	text := fmt.Sprintf("%s has rows for %s, but not for %d ", w.Format, ledger.Quantity(t.Turns, "turn"), t.Lost)
	if f, _ := rows.Lookup(w.Format); f.LostTurns() == rows.NotAfterUser {
		return text + "that don't answer a user, because TRL puts the hint in the last message; natgo.trl's " +
			"HintTrainer accepts such turns"
	}
	return text + "after a context-only turn, because its trainers train on every turn; formats trl, axolotl, " +
		"ms_swift and openai_sft carry such turns, and so do token batches"
}

// Write writes the kept records in each format of s, in log order; token rows come from the token batches. Files are
// created only when they are complete. If ctx is cancelled while rows are being written, no new files remain.
func Write(ctx context.Context, s Spec) ([]runfolder.Written, error) {
	return s.write(func(all []*formatWriter) error {
		if len(all) == 0 && s.NotKept == nil {
			return nil // no format needs the groups
		}
		if hasTables(all) { // their columns depend on the content of the kept records
			for g, err := range recordlog.GroupsAhead(s.Log) {
				if err := s.check(ctx, g, err); err != nil {
					return err
				}
				s.note(g)
			}
		}
		return s.writeGroups(ctx, all, recordlog.GroupsAhead(s.Log))
	})
}

// write opens the text row formats, calls fill to write their rows, writes the token rows, and gives all files their
// final names.
func (s *Spec) write(fill func(all []*formatWriter) error) (written []runfolder.Written, _ error) {
	outs := &outputs{dir: s.Dir, tidy: s.NoEmpty}
	defer outs.abort()
	var all []*formatWriter
	for _, f := range s.Formats {
		if f.FromBatches() || s.Log == "" {
			continue
		}
		w, err := newFormatWriter(s, outs, f)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if err := fill(all); err != nil {
		return nil, err
	}
	for _, w := range all {
		if s.NoEmpty && len(w.files) == 0 {
			continue
		}
		x, err := w.finish()
		if err != nil {
			return nil, err
		}
		written = append(written, x)
	}
	for _, f := range s.Formats {
		if !f.FromBatches() || s.Batches == "" {
			continue
		}
		x, err := s.tokens(outs, f)
		if err != nil {
			return nil, err
		}
		written = append(written, x)
	}
	return written, outs.place(s.Ready, written)
}

// writeGroups writes the rows for groups.
func (s *Spec) writeGroups(ctx context.Context, all []*formatWriter, groups iter.Seq2[*recordlog.Group, error]) error {
	noting := s.part && hasTables(all)
	for g, err := range groups {
		if err := s.check(ctx, g, err); err != nil {
			return err
		}
		if noting {
			s.note(g)
		}
		if s.NotKept != nil {
			s.Decisions.EachDrop(g, s.Gates, s.NotKept)
		}
		if s.Progress != nil {
			s.Progress(g.First, g.First+uint64(len(g.Records)))
		}
		s.members(g)
		for _, w := range all {
			if err := w.group(g, s.kept); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns err, the reason why ctx is done, or an error if a record of the group has no decision.
func (s *Spec) check(ctx context.Context, g *recordlog.Group, err error) error {
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	if n := s.Decisions.Len(); g.First > n || uint64(len(g.Records)) > n-g.First {
		return errors.New("invalid division of the data set: it has records without decisions")
	}
	return nil
}

// members sets kept to the kept records of a group.
func (s *Spec) members(g *recordlog.Group) {
	contents := g.Contents()
	s.kept, s.contexts = s.kept[:0], s.contexts[:0]
	for i := range g.Records {
		d := s.Decisions.At(g.First + uint64(i))
		if !d.Kept() {
			continue
		}
		from := len(s.contexts)
		s.contexts = g.Contexts(i, s.contexts)
		s.kept = append(s.kept, member{&g.Records[i], contents[i], d, s.contexts[from:len(s.contexts):len(s.contexts)]})
	}
}

// hasTables reports whether any of the formats consists of tables.
func hasTables(all []*formatWriter) bool {
	return slices.ContainsFunc(all, func(w *formatWriter) bool { return w.enc.Declared() })
}

// note adds to contents, by kind of record, which content a group's kept records contain.
func (s *Spec) note(g *recordlog.Group) {
	for i := range g.Records {
		if s.Decisions.At(g.First + uint64(i)).Kept() {
			s.contents[g.Records[i].Record.Kind()].Note(&g.Records[i])
		}
	}
}

// formatWriter writes the files of one format.
type formatWriter struct {
	spec    *Spec
	enc     *rows.Encoder
	outs    *outputs
	files   []*output
	byPlace [8][2]*output // files by kind and split
	origins *output
	prefix  originPrefix
	partFormat
	refused map[string]int  // index in Refused, by reason
	others  []*rows.Encoder // formats that are tried with refused records

	row      []byte // row, context and together are scratch space
	context  []byte
	together []*builders.Resolved
}

// partFormat describes the rows of one format that have been written from the log, or from a part of it. In a part, the
// rows are stored as lines, even if the format's files are tables.
type partFormat struct {
	runfolder.Written // in which Refused lists the reasons in order of first occurrence

	// Tries lists the other formats that can represent each of the first triedRefusals refused records.
	Tries [][]string `json:"tries,omitempty"`
}

// maxOmitted is the maximum number of names in Omitted, and the maximum length of a name in bytes. The names come from
// the input.
const maxOmitted = 100

func (w *partFormat) omit(name string, n int64) {
	if w.Omitted[name] == 0 && (len(w.Omitted) >= maxOmitted || len(name) > maxOmitted) {
		name = "other"
	}
	if w.Omitted == nil {
		w.Omitted = map[string]int64{}
	}
	w.Omitted[name] += n
}

func newFormatWriter(s *Spec, outs *outputs, f Format) (w *formatWriter, err error) {
	if s.Options.Template != "" && s.Options.Render == nil {
		if s.Options.Render, err = rendererOf(s.Options.Template); err != nil {
			return nil, err
		}
	}
	w = &formatWriter{spec: s, enc: rows.NewEncoder(f.Format, s.Options), outs: outs, refused: map[string]int{}}
	w.Format, w.Contexts = f.Name, &runfolder.Contexts{}
	w.origins, err = outs.create(runfolder.RowFile{Path: f.Name + "/" + originsName})
	return w, err
}

func (w *formatWriter) group(g *recordlog.Group, kept []member) error {
	w.enc.Begin()
	w.prefix.origin = nil // the next group's origins reuse this memory
	if w.enc.SharesRows() {
		return w.sharing(kept)
	}
	for i := range kept {
		if err := w.records(kept[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// member is a record that contributes to a row.
type member struct {
	record   *builders.Resolved
	hash     recordlog.Hash
	decision curate.Decision
	contexts []ttc.History // contexts of the record's trained turns
}

// sharing writes a group in a format in which several records may form a row. Such records are on the same side of the
// split, because only NAT's preferences can be on both.
func (w *formatWriter) sharing(kept []member) error {
	type key struct {
		trains   bool
		together string
	}
	at := map[key]int{}
	var members [][]member
	for _, m := range kept {
		k := key{m.decision.Trains(), w.enc.Together(m.record)}
		n, ok := at[k]
		if !ok || k.together == "" {
			n = len(members)
			at[k], members = n, append(members, nil)
		}
		members[n] = append(members[n], m)
	}
	for _, ms := range members {
		if err := w.records(ms); err != nil {
			return err
		}
	}
	return nil
}

// records writes the rows that records form together, in every split that the records are in.
func (w *formatWriter) records(ms []member) (err error) {
	if ms[0].decision.Trains() {
		err = w.write(ms, rows.Train)
	}
	if err == nil && ms[0].decision.Validates() {
		err = w.write(ms, rows.Validation)
	}
	return w.settle(ms, err)
}

// settle counts records as written if err is nil, or as dropped if err is a *rows.CannotCarry. It returns any other
// error.
func (w *formatWriter) settle(ms []member, err error) error {
	if err == nil {
		w.Records += int64(len(ms))
		trimmed, members := w.enc.Omitted()
		w.Trimmed += int64(trimmed)
		for _, name := range members {
			w.omit(name, int64(len(ms)))
		}
		w.settleTurns(ms[0].record, w.enc.Turns())
		return nil
	}
	var cannot *rows.CannotCarry
	if !errors.As(err, &cannot) {
		return err
	}
	w.refuse(ms, cannot.Why)
	for _, m := range ms {
		w.Dropped++
		w.spec.Dropped(w.drop(m.record, cannot.Why))
	}
	return nil
}

// settleTurns counts a record's turns without a row, and reports them as dropped. It also counts the text that the
// record's rows repeat.
func (w *formatWriter) settleTurns(r *builders.Resolved, turns rows.Turns) {
	w.Contexts.Lost, w.Contexts.Repeated = w.Contexts.Lost+turns.Lost, w.Contexts.Repeated+turns.Repeated
	if turns.Lost == 0 {
		return
	}
	d := w.drop(r, fmt.Sprintf("%s of %d", ledger.Quantity(turns.Lost, "turn"), turns.Carried+turns.Lost))
	d.Reason, d.Unit, d.Count = w.enc.LostTurns(), TurnUnit(w.enc.Name), turns.Lost
	w.spec.Dropped(d)
}

func (w *formatWriter) drop(r *builders.Resolved, why string) ledger.Drop {
	o := r.Origin
	return ledger.Drop{
		Stage: ledger.Write, Reason: rows.FormatCannotCarry, Unit: Unit(w.enc.Name), Index: -1, Format: w.enc.Name,
		Run: o.Run, Example: o.Example, Turn: r.Record.Header().Turn, Builder: o.Builder, File: o.File,
		Offset: o.Offset, Detail: why,
	}
}

func (w *formatWriter) write(ms []member, s rows.Split) error {
	w.together = w.together[:0]
	for _, m := range ms {
		w.together = append(w.together, m.record)
	}
	var n int
	var err error
	if w.row, n, err = w.enc.AppendTogether(w.row[:0], s, w.together); err != nil {
		return err // don't create a file for a record that the format rejects
	}
	f, err := w.open(ms[0].record.Record.Kind(), s)
	if err != nil {
		return err
	}
	first := f.Rows
	if err := f.add(w.row, n); err != nil {
		return err
	}
	for row := range n {
		for i := range ms {
			w.origins.buf = w.prefix.line(w.origins.buf, f, first+int64(row), &ms[i], w.turns(row, &ms[i]))
		}
	}
	w.origins.rotate()
	return nil
}

// add appends n rows, given as lines.
func (f *output) add(lines []byte, n int) error {
	if f.Rows += int64(n); f.table != nil {
		for line := range bytes.Lines(lines) {
			if err := f.table.Append(line); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	}
	if f.Rows > int64(n) {
		f.buf = append(f.buf, '\n')
	}
	if f.reading != nil {
		for line := range bytes.Lines(lines) {
			f.reading.add(bytes.TrimRight(line, "\n"))
		}
	}
	f.buf = append(f.buf, lines...)
	f.rotate()
	return nil
}

// rowsIn describes the file for a format's rows of a kind in a split.
func rowsIn(f rows.Format, kind builders.Kind, s rows.Split) runfolder.RowFile {
	return runfolder.RowFile{Path: f.Name + "/" + f.Files(kind, s), Kind: kind.String(), Split: s.String()}
}

// open returns the file for a kind and split, and creates it for its first row. Kinds may share a file.
func (w *formatWriter) open(kind builders.Kind, s rows.Split) (f *output, err error) {
	if f = w.byPlace[kind][s]; f != nil {
		return f, nil
	}
	row := rowsIn(w.enc.Format, kind, s)
	if i := slices.IndexFunc(w.files, func(f *output) bool { return f.Path == row.Path }); i >= 0 {
		w.byPlace[kind][s] = w.files[i]
		return w.files[i], nil
	}
	if f, err = w.outs.create(row); err != nil {
		return nil, err
	}
	switch {
	case w.spec.part:
	case !rows.IsTable(f.name) && !w.enc.Service && !w.spec.Options.NAT:
		f.reading = &reading{nulls: w.enc.TakesNull}
	case rows.IsTable(f.name):
		f.table = w.enc.NewTable(f, kind, w.spec.Options, w.spec.contents[kind])
	}
	w.files = append(w.files, f)
	w.byPlace[kind][s] = f
	return f, nil
}

// finish completes the files, which get their final names in outputs.place.
func (w *formatWriter) finish() (runfolder.Written, error) {
	for _, f := range w.files {
		switch {
		case f.table != nil:
			if err := f.table.Close(); err != nil {
				return w.Written, err
			}
		case w.enc.FinalNewline():
			f.buf = append(f.buf, '\n')
		}
		w.outs.finish(f)
		if f.reading != nil {
			f.ReadOtherwise = lists.Map(f.reading.changes(), change.String)
		}
		w.Files = append(w.Files, f.RowFile)
	}
	w.outs.finish(w.origins)
	slices.SortFunc(w.Files, func(a, b runfolder.RowFile) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Split, b.Split))
	})
	out := w.Written
	out.Refused, out.Instead = byFrequency(w.Refused), w.bestAlternative()
	if out.Contexts.Turns == 0 {
		out.Contexts = nil
	}
	return out, nil
}

// originPrefix caches the part of an origin line that is the same for all records with the same builders.Origin.
type originPrefix struct {
	origin *builders.Origin
	text   []byte
}

// Text around the file's name in a line with a row's origin.
const (
	originsFile = `{"file":"`
	originsRow  = `","row":`
)

// line appends a row's origin, which consists of file, row (counted from 0), record hash, contexts, run, example,
// builder, fidelity, gaps, proofs and turn.
func (p *originPrefix) line(dst []byte, f *output, row int64, m *member, contexts []byte) []byte {
	r := m.record
	if o := r.Origin; o != p.origin {
		p.origin = o
		p.text = append(p.text[:0], `,"run":`...)
		p.text = strconv.AppendInt(p.text, int64(o.Run), 10)
		p.text = json.AppendASCII(append(p.text, `,"example":`...), o.Example)
		p.text = json.AppendASCII(append(p.text, `,"builder":`...), o.Builder)
		p.text = json.AppendASCII(append(p.text, `,"fidelity":`...), o.Fidelity.String())
		p.text = appendNames(p.text, "gaps", o.Gaps.Names())
		p.text = appendNames(p.text, "proven", o.Proofs.Names())
	}
	dst = appendPlace(dst, f.name, row)
	dst = hex.AppendEncode(append(dst, `,"record":"`...), m.hash[:])
	dst = append(append(append(dst, '"'), contexts...), p.text...)
	if t := r.Record.Header().Turn; t != "" {
		dst = json.AppendASCII(append(dst, `,"turn":`...), t)
	}
	return append(dst, "}\n"...)
}

// appendPlace appends the beginning of a line with a row's origin.
func appendPlace[T string | []byte](dst []byte, file T, row int64) []byte {
	return appendDigits(append(append(append(dst, originsFile...), file...), originsRow...), row)
}

// appendNames appends a member that lists names. It appends nothing if names is nil.
func appendNames(dst []byte, key string, names []string) []byte {
	for i, name := range names {
		if i == 0 {
			dst = append(json.AppendASCII(append(dst, ','), key), ':', '[')
		} else {
			dst = append(dst, ',')
		}
		dst = json.AppendASCII(dst, name)
	}
	if names != nil {
		dst = append(dst, ']')
	}
	return dst
}

// appendDigits appends n >= 0 in decimal. It writes one digit at a time and reads none of them back. In contrast,
// strconv copies digits from a buffer, and the copy waits for all earlier stores, such as those to a row that isn't in
// the cache.
func appendDigits(dst []byte, n int64) []byte {
	end := len(dst)
	for left := n; ; left /= 10 {
		end++
		if left < 10 {
			break
		}
	}
	dst = slices.Grow(dst, end-len(dst))[:end]
	for ; ; n /= 10 {
		end--
		dst[end] = byte('0' + n%10)
		if n < 10 {
			return dst
		}
	}
}
