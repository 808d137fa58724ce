package source

import "context"

// Factory creates the sources of one type, which is the `_type` of an entry in the sources section.
type Factory struct {
	Type string // the name used in YAML: "candidates"
	Doc  string // one line
	// Tried names the programs, with versions, whose files the source was tested with; it is empty if the source was
	// written only from the format's documentation. It is set for sources that read files of other programs.
	Tried string
	New   func() any // returns a pointer to an empty config struct, for builders/schema to fill

	// For a source that reads files:

	File string // the file to look for if a folder is given
	// Recognize determines from an input's beginning how to read it; if nil, no input is recognised. See package
	// detect.
	Recognize func(*Head) Reading
	Paths     func(config any) []string // the files that a config names
	Wrapped   bool                      // the source has the setting entries_key
	Same      map[string]string         // maps settings of other sources to this source's equivalents
	// Open opens one of the files.
	Open func(ctx context.Context, config any, path string, opt Options) (Source, error)

	// OpenAll opens all given paths, including folders, as one input. It is set for sources whose examples span
	// files. Open handles a single path.
	OpenAll func(ctx context.Context, config any, paths []string, opt Options) (Source, error)

	// For a source that collects agent runs, as files that the source workflow_output reads:

	// Collect produces one file per collection run.
	Collect func(ctx context.Context, config any, c Collection) ([]string, error)
	// Output returns the config for reading the files; if nil, the config for NAT's evaluation is used.
	Output func(config any) any
}

// Named returns the settings that the user named, under the names that this source uses.
func (f Factory) Named(given map[string]string) map[string]string {
	if len(f.Same) == 0 || len(given) == 0 {
		return given
	}
	out := map[string]string{}
	for setting, key := range given {
		if here, ok := f.Same[setting]; ok && given[here] == "" {
			setting = here
		}
		out[setting] = key
	}
	return out
}

// Collection is the input of a source that produces agent runs.
type Collection struct {
	Dir       string         // folder for the runs; completed ones are not repeated
	Runs      int            // the trainer's num_runs
	RunsSet   bool           // the user set num_runs
	NATConfig string         // path of NAT's configuration for this run; empty if none
	Progress  func(Progress) // called with the collection's progress
	Warn      func(text string)
}

// Progress reports the progress of a collection.
type Progress struct {
	Step        string // "collect run 1 of 3"
	Text        string // shown instead of the numbers if not empty
	Done, Total int64
	Unit        string
}

// Files completes the factory of a source that reads files. paths returns a pointer to the list of files in its config.
func Files[C any, S Source](
	f Factory, paths func(*C) *[]string, open func(context.Context, C, Options) (S, error),
) Factory {
	f = Folders(f, paths, open)
	f.OpenAll = nil
	return f
}

// Folders completes the factory of a source that reads all its paths as one input.
func Folders[C any, S Source](
	f Factory, paths func(*C) *[]string, open func(context.Context, C, Options) (S, error),
) Factory {
	f.New = func() any { return new(C) }
	f.Paths = func(config any) []string { return *paths(config.(*C)) }
	f.OpenAll = func(ctx context.Context, config any, all []string, opt Options) (Source, error) {
		c := *config.(*C)
		*paths(&c) = all
		s, err := open(ctx, c, opt)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	f.Open = func(ctx context.Context, config any, path string, opt Options) (Source, error) {
		return f.OpenAll(ctx, config, []string{path}, opt)
	}
	return f
}
