package engines

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Run describes a planned run for which scripts are written.
type Run struct {
	ID     string
	Plan   string // the plan's folder
	Dir    string // working directory in which the plan was made, and the base for relative input paths
	Shards int
	Stages []shards.Stage
	Divide bool // whether the shards also write the data set
}

// step is a part of the run that starts when the previous one has finished.
type step struct {
	Name      string
	PerShard  bool // whether one process per shard runs the stage Name; otherwise, a single process merges the shards
	LeaveRows bool // whether the merge leaves writing the rows to the shards
}

// Steps returns the steps of the run, in order.
func (r Run) Steps() []step {
	all := lists.Map(r.Stages, func(s shards.Stage) step { return step{Name: string(s), PerShard: true} })
	if r.Divide {
		all = append(all, step{Name: "divide", LeaveRows: true}, step{Name: string(shards.Write), PerShard: true})
	}
	return append(all, step{Name: "merge"})
}

// Needs holds the resources that an engine reserves for one process.
type Needs struct {
	CPUs   int
	Memory schema.Size
}

// MemoryMiB returns the memory in MiB, rounded up.
func (n Needs) MemoryMiB() int64 { return (int64(n.Memory) + 1<<20 - 1) >> 20 }

func (n Needs) check() error {
	if n.CPUs < 1 {
		return exit.Usagef("--cpus %d: a process needs at least one", n.CPUs)
	}
	if n.Memory < minMemory {
		return exit.Usagef("--memory %s: a process needs at least %s", n.Memory, minMemory)
	}
	return nil
}

// minMemory is the minimum value of --memory.
const minMemory schema.Size = 256 << 20

// File is a file to write.
type File struct {
	Name string
	Text []byte
}

//go:embed templates
var templates embed.FS

// fill renders an embedded Jinja template into a file. It doesn't use text/template, because that package looks up
// methods by name, so the linker would keep every exported method of the program, which takes about 5 MB.
func fill(name, from string, variables *pyvalue.Dict) (File, error) {
	text, err := fs.ReadFile(templates, "templates/"+from)
	if err != nil {
		return File{}, err
	}
	t, err := template.Compile(string(text))
	if err != nil {
		return File{}, err
	}
	filled, err := t.Render(template.Input{Kwargs: variables})
	return File{Name: name, Text: []byte(strings.TrimRight(filled.Text, "\n") + "\n")}, err
}

// scripts fills the script that submits the run, and one file per step.
func (r Run) scripts(submit, step, ending string, variables func(Run) *pyvalue.Dict) ([]File, error) {
	first, err := fill("submit.sh", submit, variables(r))
	files := []File{first}
	for _, s := range r.Steps() {
		if err != nil {
			return nil, err
		}
		var f File
		v := variables(r)
		v.SetStr("step", s.value())
		f, err = fill(s.Name+ending, step, v)
		files = append(files, f)
	}
	return files, err
}

// values are the template variables by name.
type values map[string]pyvalue.Value

func (v values) dict() *pyvalue.Dict {
	d := pyvalue.NewDict(len(v))
	for name, value := range v {
		d.SetStr(name, value)
	}
	return d
}

// variables returns the template variables for a run and its needs, and the engine's own variables. It quotes paths
// with quote.
func (r Run) variables(n Needs, quote func(string) string, own values) *pyvalue.Dict {
	maps.Copy(own, values{
		"id": pyvalue.Str(r.ID), "plan": pyvalue.Str(quote(r.Plan)), "dir": pyvalue.Str(quote(r.Dir)),
		"shards": pyvalue.Int(int64(r.Shards)), "steps": pyvalue.NewList(lists.Map(r.Steps(), step.value)),
		"cpus": pyvalue.Int(int64(n.CPUs)), "mega": pyvalue.Int(n.MemoryMiB()),
	})
	return own.dict()
}

func (s step) value() pyvalue.Value {
	return pyvalue.OfDict(values{
		"name": pyvalue.Str(s.Name), "per_shard": pyvalue.Bool(s.PerShard), "leave_rows": pyvalue.Bool(s.LeaveRows),
	}.dict())
}

// quoteShell quotes a word for sh.
func quoteShell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+:@,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteJSON quotes text as a JSON string, which YAML and Python can also read.
func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return strings.TrimSpace(b.String())
}

// Write writes files into a folder. If one of them already exists with different content, it writes nothing and
// returns an error, because the user may have changed that file.
func Write(dir string, files []File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		was, err := os.ReadFile(path)
		switch {
		case err == nil && !bytes.Equal(was, f.Text):
			return exit.Usagef("%s already exists with different content: remove it, or choose another folder "+
				"with --out", path)
		case err != nil && !os.IsNotExist(err):
			return exit.Environmentf("can't write %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.Environmentf("can't create the folder for the scripts: %w", err)
	}
	for _, f := range files {
		if err := write(filepath.Join(dir, f.Name), f); err != nil {
			return exit.Environmentf("can't write %s: %w", f.Name, err)
		}
	}
	return nil
}

func write(path string, f File) error {
	if err := durable.WriteFile(path, f.Text); err != nil {
		return err
	}
	if !bytes.HasPrefix(f.Text, []byte("#!")) {
		return nil
	}
	return os.Chmod(path, fs.FileMode(0o755))
}
