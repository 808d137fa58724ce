package engines

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
)

// Run is the run that an engine is to carry out.
type Run struct {
	ID     string
	Plan   string // folder of the plan
	Dir    string // folder that the plan was made in, relative to which its inputs are named
	Shards int
	Stages []shards.Stage
	Divide bool // the shards write the data set, too
}

// step is a part of the run that starts when the one before it has ended.
type step struct {
	Name      string
	PerShard  bool // one process per shard runs its stage of that name; otherwise one process merges
	LeaveRows bool // the merge leaves the writing to the shards
}

// Steps returns the parts of the run, in order.
func (r Run) Steps() []step {
	var all []step
	for _, s := range r.Stages {
		all = append(all, step{Name: string(s), PerShard: true})
	}
	if r.Divide {
		all = append(all, step{Name: "divide", LeaveRows: true}, step{Name: string(shards.Write), PerShard: true})
	}
	return append(all, step{Name: "merge"})
}

// Needs are what an engine reserves for one process.
type Needs struct {
	CPUs   int
	Memory schema.Size
}

// Mega is the memory in MiB, rounded up.
func (n Needs) Mega() int64 { return (int64(n.Memory) + 1<<20 - 1) >> 20 }

func (n Needs) check() error {
	if n.CPUs < 1 {
		return exit.Usagef("--cpus %d: a process needs at least one", n.CPUs)
	}
	if n.Memory < least {
		return exit.Usagef("--memory %s: a process needs at least %s", n.Memory, least)
	}
	return nil
}

// least is the smallest memory that nat-go is started with.
const least schema.Size = 256 << 20

// File is a file to write.
type File struct {
	Name string
	Text []byte
}

//go:embed templates
var templates embed.FS

// fill makes a file from a template.
func fill(name, from string, data any) (File, error) {
	t, err := template.New(from).Funcs(template.FuncMap{
		"shell": shell, "quoted": quoted,
	}).ParseFS(templates, "templates/"+from)
	if err != nil {
		return File{}, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return File{Name: name, Text: b.Bytes()}, err
}

// shell quotes a word for sh.
func shell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+:@,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoted quotes a text for YAML and for Python, both of which read JSON's notation.
func quoted(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSpace(b.String()), err
}

// Write writes files into a folder. An existing file with different content stays: a person may have changed it.
func Write(dir string, files []File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		was, err := os.ReadFile(path)
		switch {
		case err == nil && !bytes.Equal(was, f.Text):
			return exit.Usagef("%s is there already and says something else: remove it, or choose another folder "+
				"with --out", path)
		case err != nil && !os.IsNotExist(err):
			return exit.Environmentf("can't write %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.Environmentf("can't make the folder of the scripts: %w", err)
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
