package exec

import (
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// TestVariablesOfSeveralKinds: if there is only one kind, {train_file} is its file; if there are several, each has a
// name of its own.
func TestVariablesOfSeveralKinds(t *testing.T) {
	d := data(t)
	f := d.Formats["trl"]
	f.Files = append(f.Files, trainers.File{
		Path:  "dataset/trl/sft.jsonl",
		Kind:  "demonstration",
		Split: trainers.Train,
	},
		trainers.File{Path: "dataset/trl/sft_validation.jsonl", Kind: "demonstration", Split: trainers.Validation})
	one := trainers.DataSet{
		RunID:   "r1",
		RunDir:  d.RunDir,
		Formats: map[string]trainers.Format{"trl": {Dir: f.Dir, Files: f.Files[1:]}},
	}
	d.Formats["trl"] = f
	stray := trainers.DataSet{RunID: "r1", RunDir: d.RunDir, Formats: map[string]trainers.Format{"trl": {
		Dir: f.Dir,
		Files: append(slices.Clone(one.Formats["trl"].Files),
			trainers.File{Path: "dataset/trl/dpo_validation.jsonl", Kind: "preference", Split: trainers.Validation}),
	}}}
	for _, c := range []struct {
		data trainers.DataSet
		arg  string
		want string // ends the path, or is contained in the error
		bad  bool
	}{
		{one, "{train_file}", "dataset/trl/sft.jsonl", false},
		{one, "{validation_file}", "dataset/trl/sft_validation.jsonl", false},
		{stray, "{validation_file}", "dataset/trl/sft_validation.jsonl", false},
		{one, "{demonstration_train_file}", "dataset/trl/sft.jsonl", false},
		{one, "{preference_train_file}", "no preference rows", true},
		{d, "{preference_train_file}", "dataset/trl/dpo.jsonl", false},
		{d, "{demonstration_validation_file}", "dataset/trl/sft_validation.jsonl", false},
		{d, "{train_file}", "(demonstration, preference): write {demonstration_train_file}", true},
	} {
		t.Run(c.arg, func(t *testing.T) {
			conf := config(t, Config{Command: []string{"x", c.arg}})
			vars, err := conf.variables(c.data)
			if err != nil {
				t.Fatal(err)
			}
			argv, err := conf.command(vars)
			switch {
			case c.bad && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: got %v, want %q", c.arg, err, c.want)
			case !c.bad &&
				(err != nil || !slices.ContainsFunc(argv, func(a string) bool { return strings.HasSuffix(a, c.want) })):
				t.Errorf("%s: %q, %v", c.arg, argv, err)
			}
		})
	}
}
