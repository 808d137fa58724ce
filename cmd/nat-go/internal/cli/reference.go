package cli

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

func newExplainCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a drop reason or finding code, and say what to do about it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := explain.Find(strings.Join(args, "")) // args has at most one element
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if all {
				_, err := io.WriteString(cmd.OutOrStdout(), explain.Page(pages))
				return err
			}
			text := func(width int) string { return explain.Text(pages, width) }
			return printText(cmd, map[string]any{"codes": pages}, text)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print the codes in full, as one Markdown page: ttc/ledger/README.md")
	return cmd
}

// recipe is an end-to-end example, from an agent's runs to a trained model.
type recipe struct {
	Folder string `json:"folder"`
	Does   string `json:"does"`
}

// input is a file format that nat-go reads.
type input struct {
	Type  string `json:"type"`
	Does  string `json:"does"`
	Proof string `json:"proof,omitempty"` // how the reader was verified; empty for NAT's and nat-go's own formats
}

// inputs returns the formats that nat-go recognises by a file's content.
func inputs() (out []input) {
	for _, f := range builtin.Sources() {
		if f.Recognize == nil {
			continue
		}
		in := input{Type: f.Type, Does: f.Doc}
		switch {
		case f.Tried != "":
			in.Proof = "tested on files from " + f.Tried
		case f.OpenAll != nil:
			in.Proof = "implemented from its documentation; not tested on recorded files"
		}
		out = append(out, in)
	}
	return out
}

func newFormatsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "List the formats: who reads them, what they hold, and which tokens trainers train on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []rowFormat
			for _, f := range rows.Formats() {
				all = append(all, rowFormat{f.Name, f.Consumer, lists.Map(f.Carries, builders.Kind.String), f.Shape})
			}
			v := map[string]any{"formats": all, "feeds": feeds().Feeds, "recipes": feeds().Recipes, "inputs": inputs()}
			return printText(cmd, v, func(width int) string {
				s := formatsScreen{width: width}
				s.formats(all)
				s.inputs()
				s.feeds()
				s.recipes()
				return s.text.String()
			})
		},
	}
}

// rowFormat describes a format of text rows.
type rowFormat struct {
	Name     string   `json:"name"`
	Consumer string   `json:"consumer"`
	Carries  []string `json:"carries"`
	Shape    string   `json:"shape"`
}

// formatsScreen collects the text printed by the formats command.
type formatsScreen struct {
	text  strings.Builder
	width int
}

func (s *formatsScreen) table(indent int, rows ...[]string) {
	s.text.WriteString((&columns.Table{Rows: rows, Indent: indent}).Text(s.width))
}

func (s *formatsScreen) formats(all []rowFormat) {
	for _, f := range all {
		if strings.HasSuffix(f.Name, rows.TableSuffix) {
			continue
		}
		s.table(0, []string{fmt.Sprintf("%s  for %s; carries %s", f.Name, f.Consumer, strings.Join(f.Carries, ", "))})
		s.table(2, []string{f.Shape})
	}
	s.text.WriteByte('\n')
	s.table(0, []string{"FORMAT" + rows.TableSuffix + " is FORMAT as Parquet, which declares the type of every column; with JSON lines, " +
		"a reader guesses the types, and may turn dates into timestamps. `nat-go dataset verify` reports what would change."})
}

func (s *formatsScreen) inputs() {
	s.text.WriteString("\nInputs\n")
	for _, in := range inputs() {
		s.table(0, []string{in.Type + "  " + in.Does})
		if in.Proof != "" {
			s.table(2, []string{in.Proof})
		}
	}
}

func (s *formatsScreen) feeds() {
	s.text.WriteString("\nWhat trainers train on\n")
	for _, f := range feeds().Feeds {
		s.table(0, []string{fmt.Sprintf("%s as %s -> %s", f.Record, f.Format, f.Trainer)})
		s.table(2, []string{"trains  ", f.Trains}, []string{"lost", f.Lost}, []string{"verified", f.Verified})
	}
}

func (s *formatsScreen) recipes() {
	s.text.WriteByte('\n')
	s.table(0, []string{"Complete recipes, from agent runs to a trained model, with the expected report of the first step"})
	for _, r := range feeds().Recipes {
		s.table(0, []string{r.Folder, r.Does})
	}
	s.text.WriteByte('\n')
	s.table(0, []string{"`nat-go dataset stats RUN --template MODEL` counts what a model's chat template omits from " +
		"rows of messages: reasoning, tool calls, and whole conversations that it rejects"})
	s.text.WriteString("`nat-go doctor trl RUN` compares the tokens that TRL trains on\n")
}

// feed describes the part of a record that a trainer trains on, for one kind of record in one format.
type feed struct {
	Record   string `json:"record"`
	Format   string `json:"format"` // name of a text format or of a channel of token batches
	Trainer  string `json:"trainer"`
	Trains   string `json:"trains"`   // the tokens in the trainer's loss
	Lost     string `json:"lost"`     // parts of the record that the format can't hold
	Verified string `json:"verified"` // how the other fields were verified
}

//go:embed feeds.yaml
var feedsFile []byte

// feeds returns the content of feeds.yaml.
var feeds = sync.OnceValue(func() (file struct {
	Feeds   []feed
	Recipes []recipe
},
) {
	if err := yaml.Unmarshal(feedsFile, &file); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return file
})

func newSchemaCmd() *cobra.Command {
	var draft string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				_, err := cmd.OutOrStdout().Write(config.Page(builtin.Types()))
				return err
			}
			d, ok := map[string]schema.Draft{"2020-12": schema.Draft2020, "07": schema.Draft07}[draft]
			if !ok {
				return exit.Usagef("--draft %s: use 2020-12 or 07", draft)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", config.JSONSchema(builtin.Types(), d))
			return err
		},
	}
	cmd.Flags().StringVar(&draft, "draft", "2020-12", "version of JSON Schema: 2020-12, or 07 for editors")
	cmd.Flags().BoolVar(&markdown, "markdown", false,
		"print the page that describes all settings, configs/README.md, instead")
	return cmd
}

// newManCmd returns the command that writes the manual pages from the --help output.
func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages, one per command",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return exit.Environmentf("cannot create the folder for the manual pages: %w", err)
			}
			// Use a fixed date, so that a program always writes the same pages.
			head := &doc.GenManHeader{
				Section: "1", Source: "nat-go " + finetune.Version(), Manual: "nat-go", Date: new(time.Time),
			}
			each(cmd.Root(), describe)
			if err := doc.GenManTree(cmd.Root(), head, args[0]); err != nil {
				return exit.Environmentf("cannot write the manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "nat-go*.1"))
			if err != nil {
				return err
			}
			return printLine(cmd, map[string]any{"pages": pages}, "wrote %d manual pages to %s", len(pages), args[0])
		},
	}
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from, and Go's version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := map[string]string{"version": finetune.Version(), "commit": commit(), "go": runtime.Version()}
			return printLine(cmd, v, "nat-go %s, commit %s, %s", v["version"], v["commit"], v["go"])
		},
	}
}

// commit returns the commit that the program was built from, followed by "+dirty" if files had been changed. It
// returns "unknown" if the build didn't record the commit, which `go build` does only if git is available.
func commit() string {
	revision, dirty := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+dirty"
			}
		}
	}
	return revision + dirty
}
