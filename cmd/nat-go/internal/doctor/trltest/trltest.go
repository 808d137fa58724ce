// Package trltest finds a Python with TRL for tests, and makes one where it is asked for: torch is large, and most machines have
// no use for it.
package trltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Packages are what the recipes need, as pip names them.
var Packages = []string{"trl>=1.16,<2", "peft", "datasets", "accelerate", "safetensors"}

const imports = "import torch, transformers, datasets, peft; from trl import DPOTrainer, SFTTrainer"

// Python is a Python with TRL: that of NATGO_TRAINER_PYTHON, python3, or, where NATGO_REQUIRE names trl, a virtual environment
// made for it in the user's cache. Without one the test is skipped.
func Python(t *testing.T) string {
	t.Helper()
	py, err := python()
	if err != nil {
		t.Fatal(err)
	}
	if py == "" {
		t.Skip("SKIPPED: no Python with trl, peft and datasets, so nothing was asked of TRL; NATGO_REQUIRE=trl sets one up (some GB), NATGO_TRAINER_PYTHON names one")
	}
	return py
}

var python = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	env := filepath.Join(cache, "nat-go", "trl-env")
	ours := filepath.Join(env, "bin", "python")
	for _, p := range []string{os.Getenv("NATGO_TRAINER_PYTHON"), "python3", ours} {
		if p != "" && exec.Command(p, "-c", imports).Run() == nil {
			return p, nil
		}
	}
	if !slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "trl") {
		return "", nil
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", env},
		append([]string{ours, "-m", "pip", "install", "-q", "torch"}, Packages...),
		{ours, "-c", imports},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return ours, nil
})

// Model makes the tiny model of examples/trl-dpo, and returns its folder. root is the repository's.
func Model(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(Python(t), filepath.Join(root, "examples", "trl-dpo", "tiny_model.py"), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tiny_model.py: %v\n%s", err, out)
	}
	return dir
}
