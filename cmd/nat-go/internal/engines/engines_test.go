package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

func TestObjectName(t *testing.T) {
	long := strings.Repeat("a", 41)
	seen := map[string]string{}
	for _, id := range []string{"r", "20261122-101112-ab12cd", "R", "r.1", "r_1", "r-1", "a..", long, long + "b"} {
		t.Run(id, func(t *testing.T) {
			name := objectName(id)
			if len(name) > maxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
				strings.Trim(name, "-") != name {
				t.Errorf("%q is called %q", id, name)
			}
			if seen[name] != "" {
				t.Errorf("%q and %q are both called %q", seen[name], id, name)
			}
			seen[name] = id
		})
	}
	if got := objectName("r-1"); got != "r-1" {
		t.Errorf("r-1 is called %q", got)
	}
}

func TestQuotes(t *testing.T) {
	for word, want := range map[string]string{
		"/a/b-1": "/a/b-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "ü": "'ü'",
	} {
		t.Run(word, func(t *testing.T) {
			if got := quoteShell(word); got != want {
				t.Errorf("shell: %q is %s, want %s", word, got, want)
			}
		})
	}
	if got := quoteJSON("a \"b\" <\n>"); got != `"a \"b\" <\n>"` {
		t.Errorf("quoted: %s", got)
	}
}

// TestRefused checks that anything that would make a script do something other than what it says is refused.
func TestRefused(t *testing.T) {
	r := Run{ID: "r", Plan: "/p", Dir: "/d", Shards: 5, Stages: []shards.Stage{shards.Build}}
	needs := Needs{CPUs: 1, Memory: minMemory}
	good := Slurm{Needs: needs, NatGo: "nat-go", Time: "4:00:00", ArraySize: 1001}
	if _, err := good.Files(r); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Slurm){
		"--time":           func(s *Slurm) { s.Time = "1\n#SBATCH --uid=0" },
		"--sbatch":         func(s *Slurm) { s.Options = []string{"partition=a\nrm -r x"} },
		`--sbatch "--`:     func(s *Slurm) { s.Options = []string{"--partition=a"} },
		"--max-array-size": func(s *Slurm) { s.ArraySize = 0 },
		"--at-once":        func(s *Slurm) { s.AtOnce = -1 },
		"--cpus":           func(s *Slurm) { s.CPUs = 0 },
		"--memory":         func(s *Slurm) { s.Memory-- },
	} {
		t.Run(want, func(t *testing.T) {
			s := good
			change(&s)
			if _, err := s.Files(r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
	for want, k := range map[string]Kubernetes{
		"--image":   {Needs: needs, Claim: "c"},
		"--claim":   {Needs: needs, Image: "i"},
		"--user":    {Needs: needs, Image: "i", Claim: "c", User: "me"},
		"--retries": {Needs: needs, Image: "i", Claim: "c", Retries: -1},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := k.Files(r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
	if _, err := (Ray{Needs: needs, Retries: -1}).Files(r); err == nil {
		t.Error("Ray takes a negative number of retries")
	}
}

// TestWrite checks that a file that a person changed is not overwritten.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slurm")
	files := []File{{"run.sh", []byte("#!/bin/sh\n")}, {"job.yaml", []byte("a: 1\n")}}
	for range 2 {
		if err := Write(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "run.sh"))
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("run.sh can't be run: %v (%v)", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte("a: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err == nil || !strings.Contains(err.Error(), "already exists with different content") {
		t.Errorf("written over: %v", err)
	}
}
