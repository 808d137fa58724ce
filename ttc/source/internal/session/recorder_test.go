package session

import (
	"os/exec"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestRecorderEndsDaemons checks that the recorder of agents ends what a program leaves running, and nothing else.
func TestRecorderEndsDaemons(t *testing.T) {
	python := pythontest.Need(t, "python", "import os; os.listdir('/proc/self')", "no daemon was ended")
	cmd := exec.Command(python, "-c", `
import os, subprocess, sys, programs

def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

home, other = sys.argv[1] + "/home", subprocess.Popen(["sleep", "60"], env={"HOME": sys.argv[1]})
os.mkdir(home)
pid = programs.start(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"], home, {"HOME": home, "PATH": os.environ["PATH"]}).strip()
assert running(pid), "the daemon ended with the program"
programs.end(home)
for _ in range(100):
    if running(pid):
        subprocess.run(["sleep", "0.05"])
assert not running(pid), "the daemon is still there"
assert running(other.pid), "another process was ended"
other.kill()
`, t.TempDir())
	cmd.Dir = "testdata"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
