package collate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/kernels"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// vocabularyProbes lists strings whose token ids differ between vocabularies. They contain words, spaces, numbers, code
// and other scripts.
var vocabularyProbes = []string{
	"The quick brown fox jumps over 13 lazy dogs.", "  indented\n\tcode(x) => {\"key\": [1, 2.5e-3]}",
	"Größenordnung, наука, 知識, 🦊",
}

// probes returns vocabularyProbes with the ids that the tokenizer assigns.
func probes(tok *tokenizer.Tokenizer) (out []teacher.Probe, err error) {
	for _, text := range vocabularyProbes {
		enc, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			return nil, fmt.Errorf("collator.teacher: %w", err)
		}
		out = append(out, teacher.Probe{Text: text, IDs: enc.IDs})
	}
	return out, nil
}

// client makes the client for a `collator.teacher` server. Answers are kept in the run's folder, so that a resumed run
// produces the same bytes. settled is called when the server is done with a sequence.
func (r teaching) client(s *config.Server, settled func()) (*teacher.Client, error) {
	c, tok, own := r.config.Teacher, r.tokenizer, r.config.Tokenizer
	v := teacher.Vocabulary{
		Fingerprint: tok.Fingerprint(), Size: max(tok.VocabSize(), int(tok.MaxID())+1),
		Assume: s.Vocabulary == "assume",
	}
	texts, err := probes(tok)
	if err != nil {
		return nil, err
	}
	if !v.Assume && !teacher.Tokenizes(s.Protocol) {
		if err := checkTokenizer(s, own, texts, v.Size); err != nil {
			return nil, err
		}
		v.Assume = true // the server can't tokenise, so its vocabulary can't be checked further
	}
	v.Probes = texts
	return teacher.New(teacher.Options{
		Name: s.Name, Endpoint: s.Endpoint, Protocol: s.Protocol, Model: s.Model, APIKey: s.APIKey.Reveal(),
		TopK: c.LogProbs(), Concurrency: c.Concurrency, Timeout: c.AnswerTimeout(s.Protocol), MaxAnswer: c.MaxAnswer,
		Store: r.folder.Teacher(), Vocabulary: v, Settled: settled,
	})
}

// checkTokenizer returns an error if the tokenizer of a server that can't tokenise differs from the run's, which was
// loaded from own. It compares the tokenizers' names or, if the server's tokenizer is a folder on this machine, their
// sizes and the ids that they assign to some sample strings.
func checkTokenizer(s *config.Server, own string, texts []teacher.Probe, size int) error {
	name := cmp.Or(s.TokenizerName, s.Model)
	trust := "or set vocabulary: assume if you know that the server has the vocabulary of the model to be trained"
	switch _, err := os.Stat(name); {
	case name == "":
		return fmt.Errorf("%s server at %s can't tokenise: specify its tokenizer (tokenizer_name), %s",
			s.Protocol, s.Endpoint, trust)
	case base(name) == base(own):
		return nil
	case err != nil:
		return fmt.Errorf("%s server's tokenizer is %q, but collator.tokenizer is %q: set tokenizer_name to a folder "+
			"with the server's tokenizer, so that the two can be compared, %s", s.Protocol, name, own, trust)
	}
	theirs, err := tokenizer.Load(name)
	if err != nil {
		return fmt.Errorf("tokenizer_name: %w", err)
	}
	defer theirs.Close()
	if n := max(theirs.VocabSize(), int(theirs.MaxID())+1); n != size {
		return fmt.Errorf("tokenizer %s has %d ids, but collator.tokenizer has %d: their models differ", name, n, size)
	}
	for _, p := range texts {
		enc, err := theirs.Encode(p.Text, tokenizer.Options{})
		if err != nil {
			return fmt.Errorf("tokenizer_name: %w", err)
		}
		if !slices.Equal(enc.IDs, p.IDs) {
			return fmt.Errorf("tokenizer %s has different ids from collator.tokenizer: %q has %v instead of %v",
				name, p.Text, enc.IDs, p.IDs)
		}
	}
	return nil
}

// base returns the last part of a model's name or folder.
func base(name string) string {
	return path.Base(strings.TrimSuffix(strings.TrimRight(filepath.ToSlash(name), "/"), "/tokenizer.json"))
}

// teaching adds a teacher's columns to token batches.
type teaching struct {
	*stage.Account
	config    *config.Collator
	folder    runfolder.Folder
	tokenizer *tokenizer.Tokenizer
}

// teach processes the batches as configured in `collator.teacher`. It adds the teacher's columns, drops hints without
// effect and sites whose predictions differ too little, and spreads weights. Dropped sites are recorded in the books.
func (r teaching) teach(ctx context.Context, counts map[string]batch.Count) (*teacher.Report, error) {
	c := r.config.Teacher
	if c == nil || !needsTeacher(c, counts) {
		return nil, nil
	}
	w := teacher.Work{Dropped: func(d teacher.Drop) { r.Drop(siteDrop(&d)) }}
	disconnect, err := r.askServers(&w)
	if err != nil {
		return nil, err
	}
	defer disconnect()
	stop, err := r.weigh(&w)
	if err != nil {
		return nil, err
	}
	defer stop()
	rep, err := w.Run(ctx, r.folder.Batches())
	if err != nil {
		return nil, exit.Environmentf("collator.teacher: %w", err)
	}
	r.warnUntaught(rep.Groups)
	r.warnSlow(rep.Weighed)
	r.In(ledger.Teacher, "site", int64(rep.Sites))
	r.Out(ledger.Teacher, "site", int64(rep.Kept()))
	return rep, nil
}

// askServers sets up w to ask the configured servers, if there are any. done closes the connections.
func (r teaching) askServers(w *teacher.Work) (done func(), err error) {
	c, settled := r.config.Teacher, r.scoring("sequence")
	w.Rollouts = c.Rollouts
	if c.Endpoint != "" {
		w.Client, err = r.client(&config.Server{
			Endpoint: c.Endpoint, Protocol: c.Protocol, Model: c.Model, APIKey: c.APIKey, Vocabulary: c.Vocabulary,
			TokenizerName: c.TokenizerName,
		}, settled)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		if c.HintEffect {
			w.Effect = &teacher.Measure{Least: c.MinEffect, LeastJSD: c.MinJSD}
		}
		return w.Client.Close, nil
	}
	if len(c.Servers) == 0 {
		return func() {}, nil
	}
	var members []teacher.Member
	for i := range c.Servers {
		s := &c.Servers[i]
		client, err := r.client(s, settled)
		if err != nil {
			return nil, exit.Usagef("collator.teacher.servers: %s: %w", s.Name, err)
		}
		members = append(members, teacher.Member{Weight: s.Weight, Client: client})
	}
	if w.Mixture, err = teacher.NewMixture(members); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return w.Mixture.Close, nil
}

// weigh sets up w to compare dumped logits or a program's logits, if configured. done ends the program.
func (r teaching) weigh(w *teacher.Work) (done func(), err error) {
	c, tok := r.config.Teacher, r.tokenizer
	done = func() {}
	if c.Dumps == "" && c.Logits == nil {
		return done, nil
	}
	w.Weighing = &teacher.Weighing{
		Dumps: c.Dumps, Spread: c.Use == "weights", Least: c.MinJSD,
		JSD: kernels.Options{Beta: 0.5, Temperature: 1, Workers: runtime.GOMAXPROCS(0)},
	}
	if c.Logits == nil {
		return done, nil
	}
	texts, err := probes(tok)
	if err != nil {
		return nil, err
	}
	program, err := teacher.NewScorer(teacher.ScorerOptions{ // starts the program when the first site needs it
		Command: c.Logits.Command, Memory: int64(c.Logits.Memory), Timeout: c.Logits.Timeout,
		StartTimeout: c.Logits.StartTimeout, Probes: texts, Assume: c.Vocabulary == "assume",
	})
	if err != nil {
		return nil, exit.Usagef("collator.teacher.logits: %w", err)
	}
	w.Weighing.WrongWay = c.Logits.WrongWay == "drop"
	w.Weighing.Scoring = &teacher.Scoring{
		Program: program, Command: c.Logits.Command, Fingerprint: tok.Fingerprint(), Store: r.folder.Teacher(),
		Settled: r.scoring("site"),
	}
	return program.Close, nil
}

// warnUntaught warns about rollouts without a teacher's columns, with the reasons.
func (r teaching) warnUntaught(g *teacher.Taught) {
	if g == nil {
		return
	}
	if g.Without > 0 {
		r.Warn("collator.teacher: %d of %d groups of rollouts lack the teacher's columns", g.Without,
			g.Groups)
	}
	for _, reason := range slices.Sorted(maps.Keys(g.Failed)) {
		r.Warn("collator.teacher: %d of %d rollouts lack the teacher's columns (%s): %s",
			g.Failed[reason], g.Rows, reason, g.Example[reason])
	}
}

// warnSlow warns if the kernel had to compute many rows of logits the slow way.
func (r teaching) warnSlow(w *teacher.Weighed) {
	if w == nil {
		return
	}
	if text := (kernels.Stats{Exact: int(w.Kernel.Exact), Active: int(w.Kernel.Rows)}).Slow(); text != "" {
		r.Warn("collator.teacher: %s", text)
	}
}

// needsTeacher reports whether there are any batches that the teacher must score.
func needsTeacher(c *config.Teacher, counts map[string]batch.Count) bool {
	n := counts["sdpo/train"].Batches + counts["sdpo/validation"].Batches
	if c.Rollouts {
		n += counts["rl/train"].Batches + counts["rl/validation"].Batches
	}
	return n > 0
}

// scoring returns a function that counts the sequences or sites that the teacher is done with, and reports the count.
func (r teaching) scoring(unit string) func() {
	var mu sync.Mutex
	var done int64
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		r.Tell(stage.Progress{Step: "teacher", Done: done, Unit: unit})
	}
}

func siteDrop(d *teacher.Drop) ledger.Drop {
	out := ledger.Drop{
		Stage: ledger.Teacher, Reason: d.Reason, Unit: stage.UnitSite, Example: d.Site.Example, Index: d.Site.Site,
		Detail: d.Detail,
	}
	if d.Row != nil {
		out.Run, out.Example, out.Turn = d.Row.Run, d.Row.Example, d.Row.Turn
	}
	return out
}
