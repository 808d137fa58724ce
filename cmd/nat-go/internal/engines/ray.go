package engines

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Ray holds the settings for a run as tasks on a Ray cluster.
type Ray struct {
	Needs
	NatGo   string // the program's path on every node
	Retries int    // additional attempts per shard and per merge
}

// Files returns run.py, which starts the tasks.
func (y Ray) Files(r Run) ([]File, error) {
	if err := y.check(); err != nil {
		return nil, err
	}
	if y.Retries < 0 {
		return nil, exit.Usagef("--retries %d: must not be negative", y.Retries)
	}
	f, err := fill("run.py", "ray-run.py", r.variables(y.Needs, quoteJSON, values{
		"natgo": pyvalue.Str(quoteJSON(y.NatGo)), "retries": pyvalue.Int(int64(y.Retries)),
	}))
	return []File{f}, err
}
