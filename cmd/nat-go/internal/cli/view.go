package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/view"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/internal/terminal"
)

// viewFlags holds the flags for nat-go view.
type viewFlags struct {
	addr, folder, file string
	public, closed     bool
	export             view.Export
}

func newViewCmd() *cobra.Command {
	v := &viewFlags{}
	cmd := &cobra.Command{
		Use:   "view PATH [OTHER]",
		Short: "View a run in the browser: counts, pairs, conversations, tokens and drops",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The writer that restores names isn't needed, because view never prints the path of a copy.
			out := cmd.OutOrStdout()
			return withCopies(cmd, args, func(local []string) error { return v.run(cmd, out, args, local) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.addr, "addr", "127.0.0.1:0", "`ADDRESS` to listen on; port 0: a free one")
	f.BoolVar(&v.public, "public", false, "permit an --addr that other machines can reach")
	f.BoolVar(&v.closed, "no-browser", false, "print the link only")
	f.StringVar(&v.file, "export", "", "write the page with its data to this `FILE` instead of serving it")
	f.StringVar(&v.export.Where, "where", "",
		"with --export: records that match this `EXPRESSION`, in the syntax of dataset.where and the page's filter box")
	f.IntVar(&v.export.Limit, "limit", 2000, "with --export: maximum number of records; 0: all")
	f.StringVar(&v.folder, "tokenizer", "", "tokenizer of the token batches; default: the one in the run's config.yml")
	return cmd
}

// run shows the runs or rows that args name. local holds their paths on this machine.
func (v *viewFlags) run(cmd *cobra.Command, out io.Writer, args, local []string) error {
	if v.file == "" && (cmd.Flags().Changed("where") || cmd.Flags().Changed("limit")) {
		return exit.Usagef("--where and --limit need --export FILE, whose content they select")
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), leaveSignals...)
	defer stop()
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "nat-go", "view")
	}
	// Displayed data is reread each time, but the table for a large log is kept in memory. With Go's default setting,
	// the process would use twice as much memory as the table. Frequent collections are cheap, because the table
	// doesn't contain pointers.
	setHeapGrowth(5, 0)
	shown := newProgress(cmd)
	var runs []*view.Run
	for i, path := range local {
		run, err := openView(path, cache, v.folder, shown)
		if err != nil {
			return err
		}
		defer run.Close()
		if path != args[i] {
			run.Unmarkable(args[i] + " isn't on a disk, where marks are kept next to a run: copy it to a disk to set marks")
		}
		runs = append(runs, run)
	}
	run := runs[0]
	if len(runs) == 2 {
		run.Compare(runs[1])
	}
	if v.file != "" {
		v.export.Bytes = view.ExportBytes
		return exportView(ctx, cmd, out, run, v.file, v.export)
	}
	shown.end()
	return v.serve(ctx, cmd, out, run)
}

// serve prints the link and shows the run until ctx is done.
func (v *viewFlags) serve(ctx context.Context, cmd *cobra.Command, w io.Writer, run *view.Run) error {
	s, err := view.Listen(v.addr, v.public)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if asJSON(cmd) {
		err = json.NewEncoder(w).Encode(map[string]string{"url": s.URL()})
	} else {
		_, err = fmt.Fprintln(w, s.URL())
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if out, ok := w.(*terminal.Writer); ok {
		_ = out.Flush()
	}
	if !v.closed {
		defer openBrowser(s.URL())()
	}
	return exit.Default(exit.Environment, s.Serve(ctx, run))
}

// exportView writes a run's page with its data to a file.
func exportView(
	ctx context.Context, cmd *cobra.Command, out io.Writer, run *view.Run, path string, e view.Export,
) error {
	var held *view.Exported
	err := durable.SaveOutput(path, func(w io.Writer) (err error) {
		held, err = run.Export(ctx, w, e)
		if err == nil && e.Where != "" && held.Fit == 0 {
			err = fmt.Errorf("none of %d records matches --where %s: nothing was written", held.Of, e.Where)
		}
		return exit.Default(exit.Failed, err)
	})
	if err != nil {
		return exit.Default(exit.Environment, err)
	}
	if asJSON(cmd) {
		err = json.NewEncoder(out).Encode(held)
	} else {
		_, err = fmt.Fprintf(out, "%s: %s\n", path, held)
	}
	return exit.Default(exit.Environment, err)
}

// openView opens the record log of the run at path, or else the rows at path.
func openView(path, cache, tokenizerPath string, shown *progress) (*view.Run, error) {
	p, err := findRun(path)
	if begun := runfolder.Folder(path); err != nil && begun.IsRun() && !runfolder.Has(begun.Dataset()) {
		p, err = &dataset.Place{Run: begun}, nil // the run hasn't ended, so show its content so far
	}
	if err != nil {
		if p, err = findTexts(path, dataset.DefaultLimits); err != nil {
			return nil, err
		}
		run, err := view.OpenRows(path, p)
		return run, exit.Default(exit.Failed, err)
	}
	var size int64
	if info, err := os.Stat(filepath.Join(p.Log(), recordlog.LogName)); err == nil {
		size = info.Size()
	}
	read := func(bytes int64) {
		shown.show(stage.Progress{Step: "scan the records", Done: bytes, Total: size, Unit: stage.UnitByte})
	}
	run, err := view.OpenRun(p.Run, cache, read, func() (*tokenizer.Tokenizer, error) {
		return runTokenizer(p.Run, tokenizerPath)
	})
	return run, exit.Default(exit.Failed, err)
}

// openBrowser opens a link in the user's browser, if possible, and returns a function that cleans up. Because the
// link contains a token, and all users of the machine can read command-line arguments, the browser opens a file that
// redirects to the link.
func openBrowser(url string) (cleanUp func()) {
	program := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return func() {}
	}
	dir, err := os.MkdirTemp("", "nat-go-view-")
	if err != nil { // the printed link still works
		return func() {}
	}
	cleanUp = func() { _ = os.RemoveAll(dir) }
	page := filepath.Join(dir, "open.html")
	if err := os.WriteFile(page, []byte(`<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">`+
		`<meta http-equiv="refresh" content="0; url=`+html.EscapeString(url)+`"><title>nat-go view</title>`), 0o600); err == nil {
		_, _ = process.Start(process.Config{Args: []string{program, page}, Env: os.Environ(), Survives: true})
	}
	return cleanUp
}
