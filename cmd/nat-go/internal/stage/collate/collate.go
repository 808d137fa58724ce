package collate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Stage makes token batches.
type Stage struct {
	*stage.Account
	Folder    runfolder.Folder
	Config    *config.Collator
	Tokens    *Tokens // nil without a tokenizer
	Decisions *curate.Decisions
	Formats   []dataset.Format
	Seen      source.Stats // statistics of the inputs
	ByTask    bool         // whether all inputs were read and grouped before any record was built

	Shards   *shards.Parts    // shards that made the rows; nil means that the rows are made from the log
	Parts    []*shards.Output // batches that the shards wrote, if there are any
	Collated json.RawMessage  // the result of Divide, for Parts
}

// Run makes token batches from the records that the collator has a channel for. It returns the token rows that it wrote
// for the data set, and a nil Batches if there is nothing to make.
func (s Stage) Run(ctx context.Context) ([]runfolder.Written, *runfolder.Batches, error) {
	t := s.Tokens
	if t == nil || s.Decisions.Kept() == 0 {
		return nil, nil, nil
	}
	if err := os.RemoveAll(s.Folder.Batches()); err != nil { // remove batches that an interrupted attempt left
		return nil, nil, exit.Environmentf("cannot make the batches: %w", err)
	}
	done := func() {}
	if s.Collating != nil {
		done = s.Collating()
	}
	s.takePolicy()
	s.advisePolicy()
	res, err := s.batches(ctx)
	done()
	if err != nil {
		return nil, nil, exit.Default(exit.Environment, fmt.Errorf("cannot make the batches: %w", err))
	}
	stage.AddAccounts(s.Book, res.Accounts)
	if advice := res.Stats.Sizes.Advice(s.Config.MaxLength); advice != "" {
		s.Warn("collator.max_length is %d: %s", s.Config.MaxLength, advice)
	}
	if res.Apart > 0 {
		s.Warn("`collator.composer.rows: example`: the hints of %s in channel sdpo aren't in any step file, because "+
			"channel rl lacks the rollout's row or truncates it at a different place; these hints are only in "+
			"the batches of channel sdpo", ledger.Quantity(int64(res.Apart), "row"))
	}
	if t.Template == collator.PlainTemplate {
		s.Warn("collator.tokenizer has no chat template: %s; set collator.template if the model has one",
			collator.PlainAdvice)
	}
	taught, err := teaching{s.Account, s.Config, s.Folder, t.tokenizer}.teach(ctx, res.Counts)
	if err != nil {
		return nil, nil, err
	}
	written, err := dataset.Write(ctx, dataset.Spec{
		Dir: s.Folder.Dataset(), Batches: s.Folder.Batches(), Formats: s.Formats, Ready: s.Know,
	})
	if err != nil {
		return nil, nil, exit.Environmentf("cannot write the token rows: %w", err)
	}
	s.Info("token batches written", "counts", res.Counts)
	return written, &runfolder.Batches{
		Teacher: taught, Tokenizer: t.Fingerprint(), TemplateTime: t.time.Format("2006-01-02T15:04:05"),
		Counts: res.Counts, Stats: res.Stats, Steps: res.Steps, Policy: t.policy,
	}, nil
}

// batches writes the batches. If shards made the rows, it cuts the batches from these, or joins the batches that the
// shards wrote.
func (s Stage) batches(ctx context.Context) (*collator.Result, error) {
	switch {
	case s.Shards == nil:
		groups := s.groups(stage.Progress{Step: "collate", Total: int64(s.Decisions.Len())}, 0, func(int) {})
		return s.Tokens.collator.Collate(ctx, groups, string(s.Folder), string(s.Folder), s.Drop)
	case s.Parts != nil:
		return s.join(ctx)
	}
	cut, err := s.cut(ctx, s.Drop)
	if err != nil {
		return nil, err
	}
	defer cut.Close()
	return cut.Write(ctx, string(s.Folder))
}

// groups yields the log's records to collate, a group at a time. It includes dropped records, because the rewards of
// dropped rollouts still count when the other rollouts for their task are compared. It skips the first groups, whose
// number is before. Before it yields a group, groups calls begin with the number of records in the group.
func (s Stage) groups(p stage.Progress, before uint64, begin func(records int)) iter.Seq2[[]collator.Item, error] {
	return func(yield func([]collator.Item, error) bool) {
		at := uint64(0)
		for g, err := range recordlog.Groups(s.Folder.Records()) {
			if err != nil {
				yield(nil, err)
				return
			}
			if at++; at <= before {
				continue
			}
			begin(len(g.Records))
			if !yield(s.Tokens.items(g, s.Decisions), nil) {
				return
			}
			p.Done, p.Unit = int64(g.First)+int64(len(g.Records)), stage.UnitRecord
			s.Tell(p)
		}
	}
}

// takePolicy uses the only model named in the inputs as the model to be trained, if the configuration doesn't name one.
// It does so only if ByTask is set; otherwise, shards might choose different models.
func (s Stage) takePolicy() {
	if t := s.Tokens; s.ByTask && s.Config.Policy == "" && len(s.Seen.Models) == 1 {
		for name := range s.Seen.Models {
			t.policy, t.collator = name, t.collator.For(name)
		}
	}
}

// advisePolicy warns if the model to be trained is unknown although the inputs name the models that sampled the
// rollouts. In that case, no rollout counts as sampled by the model to be trained.
func (s Stage) advisePolicy() {
	seen := &s.Seen
	if s.Tokens.policy != "" || s.Config.Policy != "" || len(seen.Models) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(seen.Models))
	var of []string
	best := names[0]
	for _, name := range names {
		of = append(of, fmt.Sprintf("%s (%d)", terminal.Line(name), seen.Models[name]))
		if seen.Models[name] > seen.Models[best] {
			best = name
		}
	}
	s.Warn("the rollouts were sampled by %s, and collator.policy doesn't say which model is to be trained, so "+
		"all of them are off_policy: -o collator.policy=%s", strings.Join(of, ", "), terminal.Line(best))
}

// Prepare renders and tokenises a shard's records, one frame for each group in its log, so that the merge doesn't have
// to. It continues after the groups that an earlier attempt prepared.
func (s Stage) Prepare(ctx context.Context) error {
	if s.Tokens == nil {
		return nil
	}
	s.takePolicy()
	rows, before, err := shards.OpenPrepared(s.Folder)
	if err != nil {
		return exit.Environmentf("cannot keep the token rows: %w", err)
	}
	records := make(chan int, groupsInFlight) // record counts of the groups that the collator is preparing
	c, err := recordlog.ReadCommit(s.Folder.Records())
	if err == nil {
		groups := s.groups(stage.Progress{Step: "tokenise", Total: int64(c.Records)}, before, func(n int) {
			records <- n // wait: the channel has capacity for all groups that the collator accepts at once
		})
		err = s.Tokens.collator.Prepare(ctx, groups, func(p collator.Prepared) error {
			return rows.Add(<-records, p.Head, p.Rows) // wait: the number of records is sent before the group
		})
	}
	if err = errors.Join(err, rows.Close()); err != nil && ctx.Err() == nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot make the token rows: %w", err))
	}
	return ctx.Err()
}

// groupsInFlight is more than the number of groups that the collator accepts at once.
const groupsInFlight = 4096

// errEnough stops reading frames once no more are needed.
var errEnough = errors.New("enough")

// kept yields the groups of the merged log that the shards tokenised, with the decisions on their records.
func (s Stage) kept(ctx context.Context) iter.Seq2[collator.KeptGroup, error] {
	return func(yield func(collator.KeptGroup, error) bool) {
		d, all := s.Decisions, s.Shards
		first := uint64(0)
		if all.Plan.Tasks { // the merged log begins with the groups of stage Build, which weren't tokenised
			_, first = all.Count(shards.Build)
		}
		ends := make([]int64, len(all.Plan.Shards))
		err := all.Heads(ctx, string(s.Folder), func(shard int, h shards.Head) error {
			from := first
			g := collator.KeptGroup{
				Head: h.Head, File: shard, Offset: ends[shard],
				Decide: func(i int) (bool, batch.Split) { return decided(d, from+uint64(i)) },
			}
			ends[shard] += h.Rows
			first += uint64(h.Records)
			if first > d.Len() {
				return errors.New("too many records in the token rows that the shards prepared")
			}
			if !yield(g, nil) {
				return errEnough
			}
			return nil
		})
		if err == nil && first != d.Len() {
			err = errors.New("shard prepared fewer token rows than its log has records: rerun it")
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(collator.KeptGroup{}, err)
		}
	}
}

// cut cuts batches from the rows that the shards made.
func (s Stage) cut(ctx context.Context, dropped func(ledger.Drop)) (*collator.Cut, error) {
	return s.Tokens.collator.CutKept(ctx, s.kept(ctx), s.Shards.ReadRow, string(s.Folder), dropped)
}

// Divide cuts the batches, divides them among the shards, and returns the collator's result as JSON.
func (s Stage) Divide(ctx context.Context) (json.RawMessage, error) {
	dir := s.Shards.Dir
	drops, err := s.NewList(dir.CutDrops())
	if err != nil {
		return nil, err
	}
	defer drops.Abort()
	cut, err := s.cut(ctx, drops.List)
	if err != nil {
		return nil, err
	}
	defer cut.Close()
	res, scores, err := cut.Divide(len(s.Shards.Plan.Shards), func(i int, write func(io.Writer) error) error {
		return durable.Save(dir.CutBatches(i), write)
	})
	if err == nil {
		err = durable.WriteFile(dir.CutScores(), scores)
	}
	if err == nil {
		err = drops.Close()
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

// maxScores is the maximum size of the file with the rollout rows' scores.
const maxScores = 16 << 30

// RunPart writes a shard's share of the batches.
func (s Stage) RunPart(ctx context.Context, shard int) (counts map[string]batch.Count, err error) {
	if err := s.Shards.CheckComplete(); err != nil {
		return nil, err
	}
	scores, err := durable.ReadFile(s.Shards.Dir.CutScores(), maxScores)
	if err != nil {
		return nil, err
	}
	in, err := durable.Open(s.Shards.Dir.CutBatches(shard))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	counts = map[string]batch.Count{}
	return counts, durable.Save(shards.LinesPath(s.Folder), func(lines io.Writer) error {
		return s.Tokens.collator.WriteKept(ctx, bufio.NewReader(in), scores, s.Shards.ReadRow, string(s.Folder),
			func(line []byte, key string, n batch.Count) error {
				counts[key] = counts[key].Plus(n)
				_, err := lines.Write(line)
				return err
			})
	})
}

// join joins the batches that the shards wrote, and replays the drops of Divide.
func (s Stage) join(ctx context.Context) (*collator.Result, error) {
	folder := s.Folder
	res := new(collator.Result)
	if err := json.Unmarshal(s.Collated, res); err != nil {
		return nil, err
	}
	if err := s.Replay(s.Shards.Dir.CutDrops()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder.Batches(), 0o755); err != nil {
		return nil, err
	}
	res.Counts = map[string]batch.Count{}
	err := durable.Save(filepath.Join(folder.Batches(), batch.IndexName), func(index io.Writer) error {
		for _, x := range s.Parts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			for key, n := range x.Batches {
				res.Counts[key] = res.Counts[key].Plus(n)
			}
			lines, err := x.Open(shards.LinesPath(x.Folder))
			if err != nil {
				return err
			}
			_, err = io.Copy(index, lines)
			if err = errors.Join(err, lines.Close()); err != nil {
				return err
			}
			if err := s.takeBatches(x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c := s.Config.Composer; c.Steps() {
		res.Steps, res.Apart, err = batch.WriteSteps(folder.Batches(), c.ByExample())
	}
	return res, err
}

// takeBatches puts the batches that a shard wrote into the run folder, as hard links if possible, otherwise as copies.
func (s Stage) takeBatches(x *shards.Output) error {
	in := x.Folder.Rel(x.Folder.Batches()) + "/"
	for _, f := range x.Files {
		if !strings.HasPrefix(f.Path, in) {
			continue
		}
		old, path := x.Path(f), filepath.Join(string(s.Folder), f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if os.Link(old, path) != nil {
			if err := durable.CopyFile(path, old); err != nil {
				return err
			}
		}
		if s.Config.Teacher == nil { // with a teacher, the files are rewritten, so the hashes change
			s.Files = append(s.Files, f)
		}
	}
	return nil
}
