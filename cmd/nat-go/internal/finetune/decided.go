package finetune

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// writeBegun records the starting state of a run with these inputs in the run folder.
func (r *run) writeBegun(inputs []source.Input) error {
	salt := ""
	if r.parts != nil {
		salt = r.parts.Plan.Decided.Salt
	}
	text, err := r.request()
	if err != nil {
		return err
	}
	d, err := r.decided(salt)
	if err != nil {
		return err
	}
	return r.folder.WriteBegun(&runfolder.Begun{
		NatGo: Version(), RunID: r.RunID, Log: recordlog.Version, Request: text, Inputs: inputs, Decided: d,
	})
}

// decided returns hashes of everything that determines the bytes of the run's output, except its inputs and flags,
// which are recorded elsewhere without hashing.
func (r *run) decided(salt string) (*runfolder.Decided, error) {
	d := runfolder.NewDecided(salt)
	program, err := r.program()
	if err != nil {
		return nil, err
	}
	d.Add("nat-go", program)
	for path, value := range r.config.Values() {
		if r.config.Decides(path) {
			d.Add(strings.Join(path, "."), value)
		}
	}
	rows, err := json.Marshal(r.options)
	if err != nil {
		return nil, err
	}
	d.Add("rows", string(rows))
	d.Add("formats", r.formatNames())
	if t := r.tokens; t != nil {
		d.Add("collator.tokenizer", t.Fingerprint())
		d.Add("collator.template", t.Template)
	}
	if c := r.config.Dataset.Scores; c != nil {
		err = addFiles(d, "dataset.scores.content", c.Path)
	}
	if c := r.config.Dataset.Contamination; c != nil && err == nil {
		err = addFiles(d, "dataset.contamination.content", c.Files)
	}
	if err == nil {
		err = r.addNamedFiles(d)
	}
	if err == nil {
		err = r.addPlugins(d)
	}
	return d, err
}

// addNamedFiles adds the content of the files that namedFiles returns.
func (r *run) addNamedFiles(d *runfolder.Decided) error {
	files, err := r.namedFiles()
	for name, path := range files {
		if err == nil {
			err = addFile(d, name, path)
		}
	}
	return exit.Default(exit.Environment, err)
}

// program returns a string that identifies this program. It is the version or, if the program was built without one,
// the linker's build id, which depends on the program's content. A program without a build id is identified by a hash
// of its content.
func (r *run) program() (string, error) {
	self := r.self
	if v := Version(); v != unversioned || self == "" {
		return v, nil
	}
	if f, err := elf.Open(self); err == nil {
		defer f.Close()
		if note := f.Section(".note.go.buildid"); note != nil {
			if id, err := note.Data(); err == nil && len(id) > 0 {
				return unversioned + " " + hex.EncodeToString(id), nil
			}
		}
	}
	sum, err := contentSum(self)
	return unversioned + " " + sum, err
}

// namedFiles returns the files whose content determines the bytes of the run's output, keyed by the settings that name
// them.
func (r *run) namedFiles() (map[string]string, error) {
	files := map[string]string{"dataset.marks.content": r.config.Dataset.Marks}
	if c := r.config.Collator; c.Reference != nil && c.Tokenizer != "" {
		files["collator.reference.path"] = c.Reference.Path
	}
	for _, b := range r.config.Sources { // only sources that run an agent name such files
		switch c := b.Config.(type) {
		case *readers.EndpointConfig:
			files["sources."+b.Name+".dataset"] = c.Dataset
		case *readers.CommandConfig:
			if len(r.From) == 0 {
				files["sources."+b.Name+".nat_config"] = cmp.Or(c.NATConfig, r.NATConfig)
			}
		}
	}
	for _, b := range r.config.Selected() {
		if c, ok := b.Config.(*sdpo.Config); ok && c.Hints.Command != nil {
			addCommand(files, "trajectory_builders."+b.Name+".hints.command.run", c.Hints.Command.Run)
		}
	}
	c := r.config.Collator.Teacher
	if c == nil {
		return files, nil
	}
	if c.Logits != nil {
		addCommand(files, "collator.teacher.logits.command", c.Logits.Command)
	}
	return files, addDumps(files, c.Dumps)
}

// addCommand adds a program and all its arguments as files, because an argument may be the path of a script; addFile
// skips arguments that aren't files. URLs are not added, because they may point to a service.
func addCommand(files map[string]string, name string, command []string) {
	for i, arg := range command {
		if i == 0 {
			if path, err := exec.LookPath(arg); err == nil || errors.Is(err, exec.ErrDot) {
				arg = path
			}
		}
		if !objects.Is(arg) {
			files[fmt.Sprintf("%s.%d.content", name, i)] = arg
		}
	}
}

// addDumps adds the files in collator.teacher.dumps. A missing folder is reported by the code that reads the dumps.
func addDumps(files map[string]string, dir string) error {
	if dir == "" || !runfolder.Has(dir) {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files["collator.teacher.dumps."+filepath.ToSlash(name)] = path
		return err
	})
}

// addPlugins adds the programs of the builders' plugins, and the environment variables that are passed to them.
func (r *run) addPlugins(d *runfolder.Decided) error {
	for _, b := range r.config.Selected() {
		name, _ := builtin.Split(b.Type)
		key := "plugins." + name + ".program"
		if name == builtin.PluginName || d.Hashes[key] != "" {
			continue
		}
		spec, err := plugins.Spec(name, r.config.Plugins, nil)
		if err != nil {
			return exit.With(exit.Environment, err)
		}
		for _, variable := range spec.Env {
			d.Add("plugins."+name+".env."+variable, os.Getenv(variable))
		}
		if spec.Reattach != "" { // the program is unknown, because another process started the plugin
			continue
		}
		if spec.Module != "" {
			sum, _, err := spec.ModuleFiles(context.Background())
			if err != nil {
				return exit.With(exit.Environment, fmt.Errorf("plugin %s: %w", name, err))
			}
			d.Add(key, sum)
			continue
		}
		path, err := exec.LookPath(spec.Path)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			continue // the code that starts the plugin reports the error
		}
		content, err := contentSum(path)
		beside, failed := plugins.SiblingSums(path)
		if err := cmp.Or(err, failed); err != nil {
			return exit.With(exit.Environment, err)
		}
		d.Add(key, content+fmt.Sprint(beside)) // fmt prints maps in sorted order
	}
	return nil
}

// addFile adds a file's content. It skips anything that isn't a regular file, such as a folder. It also skips a missing
// file, which is reported by the code that reads the file.
func addFile(d *runfolder.Decided, name, path string) error {
	if _, err := os.Stat(path); err != nil && !objects.Is(path) {
		return nil
	}
	sum, err := contentSum(path)
	if sum != "" {
		d.Add(name, sum)
	}
	return err
}

// contentSum returns a hash of a regular file's content, or "" for any other kind of file. For an object, it returns
// the size, ETag and time that the storage reports.
func contentSum(path string) (string, error) {
	if objects.Is(path) {
		in, err := source.Identify(context.Background(), []string{path})
		if err != nil {
			return "", exit.With(exit.Environment, err)
		}
		return fmt.Sprintf("%d %s %s", in.Size, in.ETag, in.ModTime.Format(time.RFC3339)), nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	return runfolder.ContentSum(path)
}

// acceptChanges returns an error if anything that determines the bytes of the run's output has changed since the run
// began, unless the user accepts all the changes. The error lists the changes that aren't accepted. Otherwise,
// acceptChanges records the accepted changes, and returns all changes accepted so far.
func (r *run) acceptChanges() ([]string, error) {
	b := r.begun
	if b.Decided == nil {
		return nil, exit.Environmentf("run was started by an older nat-go, which did not record what determines its " +
			"data set: start a new run")
	}
	now, err := r.decided(b.Decided.Salt)
	if err != nil {
		return nil, err
	}
	changed := b.Decided.Changed(now)
	left, idle := runfolder.Accept(changed, r.Accept)
	if len(idle) > 0 {
		return nil, exit.Usagef("--accept-changed %s: nothing with that name has changed since the run began", idle[0])
	}
	if len(left) > 0 {
		return nil, exit.Failedf("%s changed since the run began. A data set is never made from two versions of its "+
			"settings: start a new run, put %s back as it was, or continue anyway with --accept-changed %s",
			strings.Join(left, ", "), itOrThem(left), strings.Join(left, " --accept-changed "))
	}
	now.Accepted = slices.Compact(slices.Sorted(slices.Values(slices.Concat(b.Decided.Accepted, changed))))
	if len(changed) == 0 {
		return now.Accepted, nil
	}
	b.Decided = now
	return now.Accepted, r.folder.WriteBegun(b)
}

// checkPlanned returns an error listing everything that determines the bytes of the run's output and has changed since
// its plan was made.
func (r *run) checkPlanned() error {
	was := r.parts.Plan.Decided
	now, err := r.decided(was.Salt)
	if err != nil {
		return err
	}
	if changed := was.Changed(now); len(changed) > 0 {
		return exit.Failedf("%s changed since the plan was made. A data set is never made from two versions of "+
			"its settings: put %s back as it was, or make a plan in another folder", strings.Join(changed, ", "),
			itOrThem(changed))
	}
	return nil
}

func itOrThem(names []string) string {
	if len(names) == 1 {
		return "it"
	}
	return "them"
}

// addFiles adds, as one value, the content of the files that match patterns, in the order in which they are read.
func addFiles(d *runfolder.Decided, name string, patterns []string) error {
	paths, err := source.Expand(patterns, readers.NATFile)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	var sums []string
	for _, path := range paths {
		sum, err := contentSum(path)
		if err != nil {
			return err
		}
		sums = append(sums, sum)
	}
	d.Add(name, strings.Join(sums, " "))
	return nil
}
