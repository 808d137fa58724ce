package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// plan holds everything decided before a run starts.
type plan struct {
	Request
	config  *config.Config
	folder  runfolder.Folder
	stored  runfolder.Stored // where the run is published once it is complete; empty means that it isn't published
	trainer trainers.NemoCustomizerTrainer
	adapter config.Block // the adapter that receives the data set
	formats []dataset.Format
	options rows.Options
	rules   curate.Rules
	marks   *marks.File                  // a user's marks on records; nil means none
	scores  *readers.Scores              // scores from dataset.scores; nil means none
	verdict *readers.ScoreRules          // rules of dataset.score_rules; nil means none
	where   where.Filter[*where.Subject] // filter from dataset.where
	copyTo  string                       // NAT's dataset_output_dir; empty means no copy
	notes   []string                     // remarks on the plan, which become warnings
	self    string                       // path of this program
	chosen  string                       // choices made on the user's behalf about input and output
	also    []string                     // other records that the inputs could yield
	keys    map[string]string            // the request's Map, parsed
	lock    *runfolder.Lock              // lock on the folder; nil means that it isn't locked yet, or any more
	begun   *runfolder.Begun             // how the run in an existing folder began; nil means that the run is new
	sealed  *runfolder.Manifest          // manifest of a run whose data set is complete; nil means that it isn't
	starts  string                       // the command that starts the run; empty means nat-go run
	command string                       // the command that continues this work; empty means finetune resume

	parts *shards.Parts // the plan that divides the run into shards; nil means that the run has one part, its folder
	share *shards.Shard // the parts of the inputs that this process builds, for a request with Shard
	cut   *shards.Cut   // how a merge divided the rows among the shards; nil if they haven't been divided

	merged   runfolder.Folder // folder of the merged log and decisions, for stage Write
	outputs  []*shards.Output // what all shards wrote, for a merge of rows that were divided
	division shards.Folder    // folder of the new plan, for a request with Divide

	joined []*plan     // the finished runs that are joined, for a request with Join
	keep   *build.Part // the finished run whose validation side is kept; nil means a new split
	whole  *build.Part // all of the run as a part of others, if it is finished and joined with them

	minFidelity ttc.Fidelity // minimum fidelity of a record's trace

	overlaps map[uint64]string // descriptions of overlaps with benchmarks; see curate.Gates
}

// formatNames returns the names of the formats, in order.
func (p *plan) formatNames() string {
	return strings.Join(lists.Map(p.formats, func(f dataset.Format) string { return f.Name }), " ")
}

func (p *plan) note(format string, a ...any) { p.notes = append(p.notes, fmt.Sprintf(format, a...)) }

// gates returns the gates that each record must pass.
func (p *plan) gates() curate.Gates {
	return curate.Gates{Unfit: p.Compat.Gates(), MinFidelity: p.minFidelity, Overlaps: p.overlaps}
}

// request returns the request as JSON, for later commands that continue the run. It omits the overrides, because the
// stored configuration already includes them.
func (p *plan) request() ([]byte, error) {
	req := p.Request
	req.Overrides = nil
	return json.Marshal(req)
}

// exampleOf returns the name of a record's example for an error message. If the log can't be read, it names the record
// instead.
func (p *plan) exampleOf(ordinal uint64) string {
	for g, err := range recordlog.Groups(p.folder.Records()) {
		if err != nil {
			break
		}
		if i := ordinal - g.First; i < uint64(len(g.Records)) {
			return fmt.Sprintf("example %q", g.Records[i].Origin.Example)
		}
	}
	return fmt.Sprintf("record %d", ordinal)
}

// findInputs finds the run's inputs.
func (p *plan) findInputs(ctx context.Context) (*read.Inputs, error) {
	in, err := read.Find(ctx, read.Options{
		Choice: p.Choice, Config: p.config, Map: p.keys, NumRuns: p.trainer.NumRuns, Existing: p.planning,
		Where: p.where, Scores: p.scores, Rules: p.verdict,
	})
	if err == nil {
		p.PassedOver = in.PassedOver
	}
	return in, err
}

// commandToContinue returns the command, without "nat-go", that continues the run or the shard.
func (p *plan) commandToContinue() string {
	return cmp.Or(p.command, "finetune resume "+string(p.folder))
}

// writeConfig writes the configuration to a file. For a shard or a merge of shards, it copies the plan's.
func (p *plan) writeConfig(path string) (err error) {
	var text []byte
	if p.parts != nil {
		text, err = durable.ReadFile(p.parts.Dir.Config(), shards.MaxConfig)
	} else {
		text, err = p.config.Source()
	}
	if err == nil {
		err = durable.WriteFile(path, text)
	}
	return err
}

// rewriteConfig replaces config.yml in the run folder if overrides changed the configuration.
func (p *plan) rewriteConfig() error {
	if len(p.Overrides) == 0 {
		return nil
	}
	return exit.Cant("write the run's config.yml", p.writeConfig(p.folder.Config()))
}
