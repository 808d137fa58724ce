package pythontest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nat-go/nat-go/internal/lists"
)

// Need returns a python3 that runs check, a line of Python such as "import jinja2, tokenizers", without failing. If
// there is none, the test is skipped or, if NATGO_REQUIRE contains the name what, fails. unchecked completes the
// message by naming the untested part.
func Need(t testing.TB, what, check, unchecked string) string {
	t.Helper()
	Long(t, unchecked)
	path, err := exec.LookPath("python3")
	if err == nil {
		err = run(path, "-c", check)
	}
	if err == nil {
		return path
	}
	if Required(what) {
		t.Fatalf("NATGO_REQUIRE names %s, but python3 is missing or cannot run %q: %v", what, check, err)
	}
	t.Skipf("SKIPPED: python3 is missing or cannot run %q, so %s", check, unchecked)
	return ""
}

// Long skips a test under -short. `make test` sets that flag, so that it needs neither Python nor browsers nor servers,
// and doesn't download or build anything for a test. unchecked completes the message by naming the untested part.
func Long(t testing.TB, unchecked string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("SKIPPED: -short, so %s", unchecked)
	}
}

// Required reports whether NATGO_REQUIRE contains a name.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), what)
}

// TRL returns a Python with TRL: NATGO_TRAINER_PYTHON, python3, or, if NATGO_REQUIRE names trl, a virtual environment
// set up for it in the user's cache, including torch from the package index.
func TRL(t testing.TB) string {
	t.Helper()
	return Found(t, trl, "no Python with trl, peft and datasets, so nothing was tested against TRL; "+
		"NATGO_REQUIRE=trl sets one up (some GB), NATGO_TRAINER_PYTHON names one")
}

// Found returns the Python that find finds, or skips the test. without completes the message by saying what is missing.
func Found(t testing.TB, find func() (string, error), without string) string {
	t.Helper()
	Long(t, "nothing is tested against Python")
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	if path == "" {
		t.Skip("SKIPPED: " + without)
	}
	return path
}

// Prepared returns a function that finds, once, a Python that runs need: one of pythons, in which environment variables
// are expanded, or that of a virtual environment in the user's cache. If there is none and NATGO_REQUIRE contains the
// name, setUp makes that environment.
func Prepared(name, need string, pythons []string, setUp func(env, need string) error) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		env := environment(name + "-env")
		if path := First(need, append(pythons, inside(env))...); path != "" || !Required(name) {
			return path, nil
		}
		return inside(env), setUp(env, need)
	})
}

var trl = Prepared("trl", "import torch, transformers, datasets, peft; from trl import DPOTrainer, SFTTrainer",
	[]string{"$NATGO_TRAINER_PYTHON", "python3"}, func(env, need string) error {
		packages := []string{"torch", "trl>=1.9,<2", "peft", "datasets", "accelerate", "safetensors"}
		return Create(env, need, "python3", nil, packages...)
	})

// Trainers returns a Python in which Axolotl 0.19 and ms-swift 4.6 prepare data: NATGO_TRAINERS_PYTHON or, if
// NATGO_REQUIRE names trainers, a virtual environment in the user's cache. That environment contains the two packages
// and a few others; the rest are imported from TRL's environment. They are newer than the versions that Axolotl and
// ms-swift require, but data preparation works with them.
func Trainers(t testing.TB) string {
	t.Helper()
	return Found(t, trainers, "no Python with axolotl and ms-swift, so nothing was tested against their data preparation; "+
		"NATGO_REQUIRE=trl,trainers sets one up, NATGO_TRAINERS_PYTHON names one")
}

var trainers = Prepared("trainers", "import axolotl.prompt_strategies.chat_template, swift.template, swift.dataset",
	[]string{"$NATGO_TRAINERS_PYTHON"}, func(env, need string) error {
		base, err := trl()
		if err != nil || base == "" {
			return errors.Join(err, errors.New("NATGO_REQUIRE names trainers, but no Python has trl"))
		}
		const here = "import sys, sysconfig, pathlib; p = sysconfig.get_path('purelib'); " +
			"pathlib.Path(sys.argv[1], p.removeprefix(sys.prefix + '/'), 'trl.pth').write_text(p)"
		packages := []string{"addict", "aiohttp", "colorama", "json-repair", "modelscope", "pillow"}
		if err := Create(env, "import addict", base, nil, packages...); err != nil {
			return err
		}
		return runAll([][]string{
			{base, "-c", here, env},
			{inside(env), "-m", "pip", "install", "-q", "--no-deps", "axolotl==0.19.0", "ms-swift==4.6.0"},
			{inside(env), "-c", need},
		})
	})

// Builders returns a Python with the packages listed in a requirements file for builder plugins, in a virtual
// environment that is created once.
func Builders(t testing.TB, requirements string) string {
	t.Helper()
	Long(t, "no Python plugin is tested")
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	env := environment(fmt.Sprintf("builders-%x", sha256.Sum256(text)))
	if run(inside(env), "-c", "import grpc") == nil {
		return inside(env)
	}
	err = Create(env, "import grpc", "python3", nil, "--disable-pip-version-check", "-r", requirements)
	if err != nil && Required("python") {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("SKIPPED: cannot test the Python plugin: %v", err)
	}
	return inside(env)
}

// environment returns a virtual environment's folder in the user's cache.
func environment(name string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "nat-go", name)
}

func inside(env string) string { return filepath.Join(env, "bin", "python") }

// Create creates a virtual environment from base with packages in it, and checks that it runs need.
func Create(env, need, base string, flags []string, packages ...string) error {
	return runAll([][]string{
		slices.Concat([]string{base, "-m", "venv", "--clear"}, flags, []string{env}),
		append([]string{inside(env), "-m", "pip", "install", "-q"}, packages...),
		{inside(env), "-c", need},
	})
}

// First returns the path of the first Python that runs check, or "" if none does.
func First(check string, pythons ...string) string {
	for _, p := range pythons {
		// A Python named without its folder searches PATH, which tests clear, for its own library.
		if abs, err := exec.LookPath(os.ExpandEnv(p)); err == nil && run(abs, "-c", check) == nil {
			return abs
		}
	}
	return ""
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil { //nolint:gosec // a test's own commands
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// runAll runs programs until one fails.
func runAll(commands [][]string) error {
	return lists.Each(commands, func(args []string) error { return run(args[0], args[1:]...) })
}

// Package returns the environment variable that lets Python find this checkout's natgo package. root is the
// repository's root.
func Package(t testing.TB, root string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "plugins", "python"))
	if err != nil {
		t.Fatal(err)
	}
	return "PYTHONPATH=" + path
}

// TinyModel makes the tiny model of examples/trl-dpo and returns its folder. root is the repository's root.
func TinyModel(t testing.TB, root string) string {
	t.Helper()
	dir := t.TempDir()
	if err := run(TRL(t), filepath.Join(root, "examples", "trl-dpo", "tiny_model.py"), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
