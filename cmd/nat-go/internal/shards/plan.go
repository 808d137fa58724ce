package shards

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
	natjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Version is the version of the files that this package writes. It doesn't read other versions.
const Version = 8

// MaxShards is the maximum number of shards in a plan.
const MaxShards = 100_000

// Plan describes how a run is divided. It is written once, before the first shard starts.
type Plan struct {
	Version int                `json:"plan_version"`
	NatGo   string             `json:"nat_go"` // version of the program
	RunID   string             `json:"run_id"`
	Request json.RawMessage    `json:"request"` // the command-line arguments
	Inputs  []source.Input     `json:"inputs"`  // the run's inputs, with the hashes of their entries
	Decided *runfolder.Decided `json:"decided"`
	Tasks   bool               `json:"tasks,omitempty"` // whether groups are tasks, which may span several shards
	Shards  []Shard            `json:"shards"`
	Sum     string             `json:"sum"` // hash of all fields above
}

// Shard lists the parts of inputs that one shard builds, in order. A shard without parts doesn't build anything.
type Shard struct {
	Parts    []Part          `json:"parts"`
	Examples int64           `json:"examples"`
	Bytes    int64           `json:"bytes"`
	Named    *runfolder.File `json:"named,omitempty"` // file with the ids that can't be derived from the parts
}

// Part is a part of an input.
type Part struct {
	Input int `json:"input"` // index of the collection run
	source.Part
}

// Folder is a plan's folder, where its shards store their files.
type Folder string

// planName is the name of the plan file in its folder.
const planName = "plan.json"

func (f Folder) path(p ...string) string { return filepath.Join(append([]string{string(f)}, p...)...) }

// Plan returns the path of the plan.
func (f Folder) Plan() string { return f.path(planName) }

// Config returns the file with the configuration as it was when the plan was made, with ${VAR} left as references.
func (f Folder) Config() string { return runfolder.Folder(f).Config() }

// Named returns the file with the ids that can't be derived from a shard's parts.
func (f Folder) Named(shard int) string { return f.path(filepath.FromSlash(namedPath(shard))) }

func namedPath(shard int) string { return "named/" + number(shard) + ".jsonl" }

// Stage is a part of the work. All shards complete a stage before the next stage begins.
type Stage string

// The stages.
const (
	// read the shard's part of the inputs, and build records from it, or store it if the plan has stage Group
	Build Stage = "build"
	Group Stage = "group" // build records from the shard's share of the tasks; only if Plan.Tasks is set
	Write Stage = "write" // write the shard's share of the data set, after a merge has divided it
)

// Stages returns the stages that precede a merge, in order.
func (p *Plan) Stages() []Stage {
	if p.Tasks {
		return []Stage{Build, Group}
	}
	return []Stage{Build}
}

// CheckStage returns an error for a stage that the plan doesn't have. Every plan has stage Write.
func (p *Plan) CheckStage(stage Stage) error {
	if stages := p.Stages(); stage != Write && !slices.Contains(stages, stage) {
		return fmt.Errorf("unknown --stage %s: the stages of this plan are %v and, once a merge has divided the "+
			"data set, %s", stage, stages, Write)
	}
	return nil
}

// Shard returns the folder where a shard stores its files for a stage.
func (f Folder) Shard(stage Stage, shard int) runfolder.Folder {
	return runfolder.Folder(f.path(string(stage), number(shard)))
}

// Spill returns the file in which a shard stores the examples that it has read. In stage Group, every shard reads its
// examples from the files of all shards.
func (f Folder) Spill(shard int) string {
	return filepath.Join(f.Shard(Build, shard).Records(), "examples.spill")
}

func number(shard int) string { return fmt.Sprintf("%05d", shard) }

// Find returns the folder of the plan that the user specified by its folder's path or by the path of plan.json.
func Find(path string) Folder {
	if objects.Is(path) {
		return Folder(strings.TrimSuffix(strings.TrimRight(path, "/"), "/"+planName))
	}
	if filepath.Base(path) == planName {
		path = filepath.Dir(path)
	}
	return Folder(filepath.Clean(path))
}

// sumOf returns the hash of a plan, excluding its Sum field.
func sumOf(p Plan) (string, error) {
	p.Sum = ""
	text, err := json.Marshal(&p)
	return runfolder.DigestOf(text), err
}

// Write writes a plan, with its hash in Sum.
func (f Folder) Write(p *Plan) (err error) {
	if p.Sum, err = sumOf(*p); err != nil {
		return err
	}
	return durable.WriteJSON(f.Plan(), p)
}

// Read reads the plan. It returns an error if the plan has been changed since it was written.
func (f Folder) Read() (*Plan, error) {
	if objects.Is(string(f)) {
		return nil, exit.Usagef("%s: this command only reads plans on a disk; run, status and merge read them in "+
			"object storage as well", f)
	}
	text, err := durable.ReadFile(f.Plan(), maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Environmentf("no plan in %s: `nat-go shard plan` makes one", f)
	}
	if err != nil {
		return nil, exit.Environmentf("cannot read the plan: %w", err)
	}
	p, err := decodePlan(text)
	if errors.Is(err, errChanged) {
		return nil, exit.Failedf("%s %w", f.Plan(), err)
	}
	if err != nil {
		return nil, exit.Failedf("%s: %w", f.Plan(), err)
	}
	return p, nil
}

var errChanged = errors.New("was changed since it was written, so its shards would not be parts of one run: " +
	"restore it, or make a plan in another folder")

func decodePlan(text []byte) (*Plan, error) {
	p := new(Plan)
	if err := decode(text, p); err != nil {
		return nil, err
	}
	switch {
	case p.Version != Version:
		return nil, fmt.Errorf("unsupported version %d: this program reads version %d; make a new plan", p.Version,
			Version)
	case len(p.Request) > maxRequestBytes:
		return nil, fmt.Errorf("invalid request of %d bytes: a command line has at most %d", len(p.Request),
			maxRequestBytes)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, p.Request); err != nil { // Write indents the request, but sumOf hashes the compact form
		return nil, err
	}
	p.Request = b.Bytes()
	sum, err := sumOf(*p)
	if err != nil {
		return nil, err
	}
	if sum != p.Sum || p.Decided == nil {
		return nil, errChanged
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: make a new plan", err)
	}
	return p, nil
}

// Part returns the shard with the given number. It sets the Named fields of the shard's parts to the ids that can't be
// derived from the parts.
func (f Folder) Part(p *Plan, shard int) (*Shard, error) {
	s := p.Shards[shard]
	for i := range s.Parts {
		s.Parts[i].Named = map[int64]string{}
	}
	if s.Named == nil {
		return &s, nil
	}
	file, err := runfolder.Folder(f).Sum(s.Named.Path)
	if err != nil {
		return nil, exit.Environmentf("cannot read the plan: %w", err)
	}
	if file != *s.Named {
		return nil, exit.Failedf("%s was changed since it was written: make a plan in another folder",
			f.Named(shard))
	}
	return &s, f.readNamed(&s, shard)
}

// named is a line in the file of ids.
type named struct {
	Input int    `json:"input"`
	Row   int64  `json:"row"`
	ID    string `json:"id"`
}

func (f Folder) readNamed(s *Shard, shard int) error {
	of := map[int]map[int64]string{}
	for _, part := range s.Parts {
		of[part.Input] = part.Named
	}
	in, err := durable.Open(f.Named(shard))
	if err != nil {
		return exit.Environmentf("cannot read the plan: %w", err)
	}
	defer in.Close()
	for dec := json.NewDecoder(bufio.NewReader(in)); dec.More(); {
		var n named
		if err := dec.Decode(&n); err != nil {
			return exit.Failedf("%s: %w", f.Named(shard), err)
		}
		if of[n.Input] == nil {
			return exit.Failedf("%s names input %d, which is not an input of the shard", f.Named(shard), n.Input)
		}
		of[n.Input][n.Row] = n.ID
	}
	return nil
}

// NamedFile writes the file with the ids that can't be derived from a shard's parts. The first Add creates the file.
type NamedFile struct {
	folder Folder
	shard  int
	file   *durable.File
	sum    *xxh3.Hasher
	bytes  int64
}

// NewNamed returns a NamedFile for a shard.
func (f Folder) NewNamed(shard int) *NamedFile {
	return &NamedFile{folder: f, shard: shard, sum: xxh3.New()}
}

// Add adds an id.
func (n *NamedFile) Add(input int, row int64, id string) error {
	line, err := json.Marshal(named{input, row, id})
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if n.bytes += int64(len(line)); n.bytes > maxNamedBytes {
		return fmt.Errorf("shard %d has too many entries with ids used before: make a plan with more shards", n.shard)
	}
	if path := n.folder.Named(n.shard); n.file == nil {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if n.file, err = durable.Create(path); err != nil {
			return err
		}
	}
	n.sum.Write(line)
	_, err = n.file.Write(line)
	return err
}

// Commit completes the file and returns its description. If no id was added, it returns nil, and the file doesn't
// exist.
func (n *NamedFile) Commit() (*runfolder.File, error) {
	if n.file == nil {
		return nil, nil
	}
	return &runfolder.File{Path: namedPath(n.shard), Bytes: n.bytes, XXH3: runfolder.Digest(n.sum)}, n.file.Commit()
}

// Abort discards the file. It does nothing after Commit.
func (n *NamedFile) Abort() {
	if n.file != nil {
		n.file.Abort()
	}
}

// MaxConfig is the maximum size of a plan's configuration.
const MaxConfig = 16 << 20

// Limits on a plan and a shard's manifest. Other users may be able to write to the folder that contains these files,
// and the hashes in them don't prevent forgery.
const (
	maxPlanBytes    = 96 << 20
	maxRequestBytes = 1 << 20  // limit on Plan.Request
	maxDoneBytes    = 32 << 20 // limit on a shard's manifest, which lists each batch that the shard wrote
	maxNamedBytes   = 64 << 20 // limit on a shard's file of ids; see NamedFile
	maxObjects      = 2 << 20  // maximum number of objects and lists in a plan or a manifest
	maxGroups       = 1 << 40  // more than the number of groups or records in any log
)

// decode decodes JSON. If text exceeds the limits on a plan, it returns an error before it allocates memory for the
// values.
func decode(text []byte, into any) error {
	if _, err := natjson.Parse(text, natjson.Limits{Depth: 100, Size: maxPlanBytes, Objects: maxObjects}); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// check returns an error for a plan that can't have been made by nat-go. The shards of such a plan might have invalid
// parts, or read or write files outside the plan's folder.
func (p *Plan) check() error {
	if !runfolder.ValidID(p.RunID) {
		return fmt.Errorf("invalid run id %q", p.RunID)
	}
	if n := len(p.Shards); n < 1 || n > MaxShards {
		return fmt.Errorf("invalid number of shards %d: a plan has 1 to %d", n, MaxShards)
	}
	for i := range p.Shards {
		s := &p.Shards[i]
		if s.Examples < 0 || s.Bytes < 0 {
			return fmt.Errorf("invalid size of shard %d: %d examples in %d bytes", i, s.Examples, s.Bytes)
		}
		for _, part := range s.Parts {
			if err := part.check(len(p.Inputs)); err != nil {
				return fmt.Errorf("shard %d: %w", i, err)
			}
		}
		if s.Named != nil && (s.Named.Path != namedPath(i) || s.Named.Bytes < 0 || s.Named.Bytes > maxNamedBytes) {
			return fmt.Errorf("invalid ids of shard %d: %d bytes in the file %q", i, s.Named.Bytes, s.Named.Path)
		}
	}
	return nil
}

func (p *Part) check(inputs int) error {
	if p.Input < 0 || p.Input >= inputs {
		return fmt.Errorf("unknown input %d: the plan has %d inputs", p.Input, inputs)
	}
	for _, c := range []*int64{&p.From.Row, &p.From.Offset, &p.From.Lines, &p.To.Row, &p.To.Offset, &p.To.Lines} {
		if *c < 0 {
			return fmt.Errorf("part begins or ends before the start of input %d", p.Input)
		}
	}
	if p.To.Row > 0 && (p.To.Row < p.From.Row || p.To.Offset < p.From.Offset) {
		return fmt.Errorf("part of input %d ends before it begins", p.Input)
	}
	return nil
}

// check returns an error for a shard's manifest that can't have been written by nat-go.
func (d *Done) check() error {
	seen := map[string]bool{}
	for _, f := range d.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || f.Bytes < 0 || seen[f.Path] {
			return fmt.Errorf("invalid file %q of %d bytes", f.Path, f.Bytes)
		}
		seen[f.Path] = true
	}
	if d.Groups > maxGroups || d.Records > maxGroups {
		return fmt.Errorf("invalid number of groups: %d with %d records", d.Groups, d.Records)
	}
	return nil
}
