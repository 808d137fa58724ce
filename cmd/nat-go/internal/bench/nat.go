package bench

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed time_nat.py
var natScript []byte

// PythonVariable is the environment variable that names the Python in which NAT is installed (nvidia-nat-core,
// nvidia-nat-eval, nvidia-nat-nemo-customizer). If it is not set, python3 is tried.
const PythonVariable = "NATGO_NAT_PYTHON"

// findPython returns a Python with NAT installed, or "" and the reason it found none.
func findPython(ctx context.Context) (python, why string) {
	named := os.Getenv(PythonVariable)
	python = cmp.Or(named, "python3")
	const needed = "import nat.plugins.customizer.dpo.trainer_adapter, nat.plugins.eval.utils.intermediate_step_adapter"
	text, err := exec.CommandContext(ctx, python, "-W", "ignore", "-c", needed).CombinedOutput()
	switch {
	case err == nil:
		return python, ""
	case named == "":
		return "", "NAT is not installed here; " + PythonVariable + " can specify a Python that has it"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "", fmt.Sprintf("NAT can't be imported by %s, as set in %s: %s", named, PythonVariable,
		cmp.Or(lines[len(lines)-1], err.Error()))
}

// RunNAT does the same as Run, but with NAT's own code. Its wall time omits Python's start-up and imports, which take
// several seconds; its processor time includes them.
func (b *Bed) RunNAT(ctx context.Context, python string) (Usage, error) {
	script, out := filepath.Join(b.Dir, "time_nat.py"), filepath.Join(b.Dir, "nat")
	defer os.RemoveAll(out)
	if err := errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(script, natScript, 0o600)); err != nil {
		return Usage{}, err
	}
	cmd := exec.CommandContext(ctx, python, script, b.Input, out)
	var text bytes.Buffer
	cmd.Stdout = &text
	u, err := measure(cmd)
	if err != nil {
		return u, err
	}
	var seconds float64
	if _, err := fmt.Sscan(text.String(), &seconds, &u.Peak); err != nil {
		return u, fmt.Errorf("cannot read NAT's timing from %q: %w", text.String(), err)
	}
	u.Wall = time.Duration(seconds * float64(time.Second))
	return u, nil
}
