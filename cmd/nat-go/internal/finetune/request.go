package finetune

import (
	"runtime/debug"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Request holds the command-line arguments. A list that isn't empty takes precedence over the configuration's.
type Request struct {
	ConfigFile string
	Overrides  []string
	read.Choice
	Map       []string // meanings of the input's keys, such as "output=response"
	Builders  []string // names or types of builders; empty means the configuration's, or ones that suit the input
	Formats   []string
	Adapter   string // "files", or the name of an entry in trainer_adapters
	OutputDir string
	RunID     string
	Seed      *int64
	DryRun    bool   // do everything except the training job
	Plan      bool   // predict the result, and remove all files afterwards
	planning  bool   // whether Run is carrying out a request with Plan
	Detach    bool   // don't wait for the job
	Metrics   string // file for metrics; empty means none
	Now       string // time returned by strftime_now in a chat template; empty means collator.template_time

	// At most one of the following fields is set. It requests something other than a new run.
	Resume runfolder.Folder   `json:"-"` // continue this run
	Join   []runfolder.Folder `json:"-"` // join these finished runs, in this order
	Divide *Division          `json:"-"` // plan the shards of the run
	Shard  *Shard             `json:"-"` // build this shard of a plan
	Merge  shards.Folder      `json:"-"` // merge the shards of this plan

	Accept       []string         `json:"-"` // names in Begun.Decided whose changes are accepted; only with Resume
	KeepSplit    runfolder.Folder `json:"-"` // run whose validation side is kept; empty for a new split; only with Join
	LeaveWriting bool             `json:"-"` // divide the rows among the shards, which then write them; only with Merge
}

// Summary describes how a run ended; --json prints it.
type Summary struct {
	RunID      string             `json:"run_id"`
	Status     string             `json:"status"`
	RunDir     string             `json:"run_dir"`
	DatasetDir string             `json:"dataset_dir"`
	Chosen     string             `json:"chosen,omitempty"` // choices about reading the input and writing the output
	Counts     runfolder.Counts   `json:"counts"`
	Where      []where.Step       `json:"where,omitempty"` // number of items left after each clause of dataset.where
	Job        any                `json:"job,omitempty"`
	Error      string             `json:"error,omitempty"`
	Findings   []finding.Finding  `json:"findings,omitempty"` // findings from checking the configuration
	Accounts   []ledger.Account   `json:"accounts,omitempty"` // counts of each stage's inputs and outputs, by unit
	Sites      map[string]int64   `json:"-"`                  // number of error sites with hints, by class/source/kind
	Labels     map[string]int64   `json:"-"`                  // number of rollouts by verdict, which is good or bad
	Also       []string           `json:"also,omitempty"`     // other records that the input could yield
	Warnings   []string           `json:"warnings,omitempty"`
	Written    []writtenFile      `json:"files,omitempty"` // the data set's files
	Share      *Share             `json:"-"`               // set for Request.Shard if the shard has written its share
	Planned    *Planned           `json:"-"`               // set for Request.Divide
	Batches    *runfolder.Batches `json:"-"`
	Next       string             `json:"-"` // the user's next step
	NotStarted bool               `json:"-"` // the run's folder hasn't been created

	Contamination *runfolder.Contamination `json:"contamination,omitempty"`
}

// Share is a shard's part of the data set.
type Share struct {
	Rows    int64 `json:"rows"` // number of rows in all formats
	Batches int64 `json:"batches"`
}

// writtenFile is a file of the data set, for the summary.
type writtenFile struct {
	Path string `json:"path"`
	Rows int64  `json:"rows"`
}

// Failed returns the summary of a run that couldn't start, and err.
func Failed(req Request, err error) (*Summary, error) {
	return &Summary{RunID: req.RunID, Status: runfolder.Failed, Error: err.Error(), Counts: noCounts()}, err
}

func noCounts() runfolder.Counts { return runfolder.Counts{Dropped: map[ledger.Reason]int64{}} }

// Division configures how a run is divided. The run is divided into Number shards or, if Number is 0, into shards of
// roughly Bytes bytes of input each.
type Division struct {
	Number int
	Bytes  int64
	Dir    string // folder of the plan; empty means the run's folder with .shards appended
}

// Planned is a finished plan.
type Planned struct {
	Dir   shards.Folder
	Plan  *shards.Plan
	Notes []string // remarks for the user
}

// Shard identifies a stage of one of a plan's shards.
type Shard struct {
	Plan   shards.Folder
	Stage  shards.Stage
	Number int
}

// unversioned is the result of Version if the program was built without a version.
const unversioned = "devel"

// Version returns the module version that the program was built from, or "devel".
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return unversioned
}
