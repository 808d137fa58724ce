package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// showFlags are the flags of dataset show.
type showFlags struct {
	query                       dataset.Query
	row, reason, tokens, folder string
	record                      uint64
	width, site                 int
	full                        bool
	limits                      *dataset.Limits
}

func newDatasetShowCmd() *cobra.Command {
	var flags showFlags
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Print records in readable form",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.tokens != "" || cmd.Flags().Changed("site") {
				return flags.showTokens(cmd, args[0])
			}
			return flags.showRecords(cmd, args[0])
		},
	}
	flags.register(cmd)
	return cmd
}

func (s *showFlags) register(cmd *cobra.Command) {
	s.limits = rowLimits(cmd)
	f := cmd.Flags()
	f.Uint64Var(&s.record, "record", 0, "the record with this number in the run, from 1")
	f.StringVar(&s.row, "row", "", "a row: FORMAT/FILE:N, or N of the first file; from 1")
	f.StringVar(&s.tokens, "tokens", "",
		"a `ROW` of the token batches, token by token: sft/train/00000.safetensors:3, or a number; from 1")
	f.IntVar(&s.site, "site", 0, "the error site with this number in the run, from 1: student and teacher aligned")
	f.StringVar(&s.folder, "tokenizer", "", "tokenizer of the token batches; default: the one in the run's config.yml")
	f.StringVar(&s.query.Example, "example", "", "records from this example")
	f.StringVar(&s.query.Turn, "turn", "", "records from this turn")
	f.StringVar(&s.query.Builder, "builder", "", "records from this builder")
	f.StringVar(&s.query.Split, "split", "", "train or validation")
	f.StringVar(&s.reason, "dropped", "",
		"show drops with this `REASON`, before or after they became records; any: all reasons")
	f.Int64Var(&s.query.Skip, "skip", 0, "number of matching records to skip")
	f.Int64Var(&s.query.Limit, "limit", 3, "maximum number of records to show; 0: all")
	f.BoolVar(&s.full, "full", false, "print long text in full")
	f.IntVar(&s.width, "width", 0, "width in columns; 0: the terminal's width, or 80 without a terminal")
	cmd.MarkFlagsMutuallyExclusive("tokens", "site", "row", "record")
}

// showTokens prints the site or row of a run's token batches that --site or --tokens names.
func (s *showFlags) showTokens(cmd *cobra.Command, path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return exit.Usagef("cannot find %s", path)
	}
	run := runfolder.Folder(path)
	if !dataset.HasBatches(run) {
		return exit.Failedf("no token batches in %s: a run writes them if collator.tokenizer names a tokenizer", run)
	}
	tok, err := runTokenizer(run, s.folder)
	if err != nil {
		return err
	}
	defer tok.Close()
	var v interface {
		Print(w io.Writer, look tokenview.Look) error
	}
	if cmd.Flags().Changed("site") {
		v, err = tokenview.ReadSite(path, s.site, tok)
	} else {
		v, err = tokenview.ReadRow(path, s.tokens, tok)
	}
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	return printResult(cmd, v, func(w io.Writer) error {
		columns := cmp.Or(s.width, terminal.Width(w))
		return v.Print(w, tokenview.Look{Colour: colored(w), Width: columns, Full: s.full || columns == 0})
	})
}

// showRecords prints the requested records. With --dropped, it falls back to the drops in dropped.jsonl if no dropped
// record matches.
func (s *showFlags) showRecords(cmd *cobra.Command, path string) error {
	q := s.query
	if cmd.Flags().Changed("record") {
		if s.record < 1 {
			return exit.Usagef("--record %d: records are counted from 1", s.record)
		}
		q.Record = new(s.record - 1)
	}
	if q.Dropped = cmd.Flags().Changed("dropped"); q.Dropped && s.reason != anyReason {
		q.Reason = ledger.Reason(s.reason)
		if _, err := explain.Find(s.reason); err != nil && !strings.Contains(s.reason, "/") {
			return exit.Usagef("--dropped %s: %v", s.reason, err)
		}
	}
	if q.Split != "" && q.Split != rows.Train.String() && q.Split != rows.Validation.String() {
		return exit.Usagef("--split: expected train or validation, got %s", q.Split)
	}
	w := cmd.OutOrStdout()
	p := &viewPrinter{
		w: w, opts: show.Options{Width: cmp.Or(s.width, terminal.Width(w)), Color: colored(w), Full: s.full},
		asJSON: asJSON(cmd), buf: []byte(`{"records":[`),
	}
	err := showRecords(path, *s.limits, s.row, q, p.print)
	if errors.Is(err, dataset.ErrNoFormat) && s.row == "" && !q.Dropped {
		err = s.showInput(cmd, path, q, p.print, err)
	}
	if err == nil && q.Dropped && p.count == 0 && s.row == "" {
		err = p.drops(cmd, runfolder.Folder(path), q)
	}
	if err == nil && p.asJSON {
		_, err = p.w.Write(append(p.buf, "]}\n"...))
	}
	switch {
	case err != nil || p.count > 0:
		return err
	case slices.ContainsFunc([]string{"record", "row", "example", "turn", "builder", "split"}, cmd.Flags().Changed):
		return exit.Failedf("no record matches")
	case !p.asJSON:
		_, err = fmt.Fprintln(p.w, "no record matches")
	}
	return err
}

const anyReason = "any"

// showRecords passes the requested views to print.
func showRecords(path string, limits dataset.Limits, row string, q dataset.Query, print func(show.View) error) error {
	run, err := findRun(path)
	if err == nil && row == "" {
		return exit.Default(exit.Failed, run.Pick(q, func(r dataset.Picked) error { return print(show.Record(r)) }))
	}
	p, err := findTexts(path, limits)
	if err != nil {
		return err
	}
	if row == "" {
		row = p.Texts()[0].Files[0].Name + ":1"
	} else {
		q.Skip, q.Limit = 0, 1
	}
	err = p.PickRows(row, q.Skip, q.Limit, func(file string, n int64, r *rows.Row, o *dataset.Origin) error {
		return print(show.Row(file, n, r, o))
	})
	return exit.Default(exit.Failed, err)
}

// showInput shows the records that a run builds from the first examples of a file that isn't in a row format. refused
// is the error for the unknown format, which showInput returns if a run can't read the file either.
func (s *showFlags) showInput(
	cmd *cobra.Command, path string, q dataset.Query, print func(show.View) error, refused error,
) error {
	dir, err := os.MkdirTemp("", "nat-go-show-")
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer os.RemoveAll(dir)
	req := finetune.Request{OutputDir: dir, RunID: "shown", DryRun: true}
	req.From, req.Limit = []string{path}, maxShown
	if q.Limit > 0 && q.Record == nil && q.Example == "" {
		req.Limit = 10 * (q.Skip + q.Limit)
	}
	var run string
	if err := withEnv(cmd, 0, func(ctx context.Context, env stage.Env) error {
		sum, err := finetune.Run(ctx, req, env)
		if sum != nil {
			run = sum.RunDir
		}
		return err
	}); err != nil || run == "" {
		return refused
	}
	return showRecords(run, *s.limits, "", q, print)
}

// maxShown is the number of examples read from an input if the flags don't imply another number.
const maxShown = 10_000

// viewPrinter prints views as text, or collects them in one JSON object.
type viewPrinter struct {
	w      io.Writer
	opts   show.Options
	asJSON bool
	buf    []byte
	count  int
}

func (p *viewPrinter) print(v show.View) error {
	p.count++
	if !p.asJSON {
		return show.Write(p.w, v, p.opts)
	}
	if p.count > 1 {
		p.buf = append(p.buf, ',')
	}
	p.buf = show.AppendJSON(p.buf, v)
	return nil
}

// drops prints the drops in dropped.jsonl that match q, with the dropped messages if the run's inputs can still be
// read.
func (p *viewPrinter) drops(cmd *cobra.Command, run runfolder.Folder, q dataset.Query) error {
	var drops []ledger.Drop
	var views []show.View
	missing := map[dropped][]int{} // indices of the views without messages, keyed by example
	err := dataset.EachDrop(run.Dropped(), q, func(d ledger.Drop) error {
		if of := (dropped{d.Run, d.Example}); d.Example != "" {
			missing[of] = append(missing[of], len(drops))
		}
		drops, views = append(drops, d), append(views, show.Drop(d))
		return nil
	})
	if err != nil {
		return exit.Default(exit.Failed, err)
	}
	if len(missing) > 0 {
		err := finetune.Reread(cmd.Context(), run, func(e *ttc.Example) bool {
			of := dropped{e.Run, e.ID}
			for _, i := range missing[of] {
				views[i].Messages = show.Dropped(drops[i], e)
			}
			delete(missing, of)
			return len(missing) == 0
		})
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "nat-go: cannot reread the dropped inputs: %v\n", err)
		}
	}
	return lists.Each(views, p.print)
}

// dropped identifies an example that was dropped as a whole or in part.
type dropped struct {
	run     int
	example string
}
