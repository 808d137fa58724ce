package engines

import "github.com/nat-go/nat-go/cmd/nat-go/internal/exit"

// Ray says what the tasks of a Ray cluster need.
type Ray struct {
	Needs
	NatGo   string // the program, on every node
	Retries int    // additional attempts per shard
}

// Files returns run.py, the driver.
func (y Ray) Files(r Run) ([]File, error) {
	if err := y.check(); err != nil {
		return nil, err
	}
	if y.Retries < 0 {
		return nil, exit.Usagef("--retries %d: how many further attempts a shard has", y.Retries)
	}
	f, err := fill("run.py", "ray-run.py", struct {
		Run
		Ray
	}{r, y})
	return []File{f}, err
}
