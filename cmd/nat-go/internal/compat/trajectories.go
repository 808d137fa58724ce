package compat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// WriteTrajectories writes trajectories.json, trajectories_run1.json, trajectories_run2.json and so on, one file for
// each group in the log. The log has one group for each collection run that didn't fail. If d isn't nil and keeps any
// records, WriteTrajectories also writes submitted.json, which contains only those records. Unless m is NAT, it doesn't
// write anything.
func (m Mode) WriteTrajectories(dir, log, runID string, d *curate.Decisions) error {
	if m != NAT {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var submitted *collection
	defer func() {
		if submitted != nil {
			submitted.file.Abort()
		}
	}()
	n := -1
	for g, err := range recordlog.Groups(log) {
		if err != nil {
			return err
		}
		n++
		name := "trajectories.json"
		if n > 0 {
			name = "trajectories_run" + strconv.Itoa(n) + ".json"
		}
		all, err := newCollection(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for i := range g.Records {
			if err := all.add(&g.Records[i]); err != nil {
				all.file.Abort()
				return err
			}
		}
		if err := all.commit(runID + "_run" + g.Key); err != nil {
			return err
		}
		for i := range g.Records {
			if d == nil || !d.At(g.First+uint64(i)).Kept() {
				continue
			}
			if submitted == nil {
				if submitted, err = newCollection(filepath.Join(dir, "submitted.json")); err != nil {
					return err
				}
			}
			if err := submitted.add(&g.Records[i]); err != nil {
				return err
			}
		}
		if submitted != nil {
			submitted.last = nil // a list of trajectories never spans two collection runs
		}
	}
	if submitted == nil {
		return nil
	}
	return submitted.commit(runID)
}

// collection writes a TrajectoryCollection: {"trajectories": [[trajectory, ...] for each example], "run_id"}.
type collection struct {
	file    *durable.File
	buf     []byte
	last    *builders.Origin // origin of the previous trajectory; nil at the start of a collection run
	example []byte           // example_id of the current list; as in NAT, it is the same for the ids 1 and "1"
	groups  int
}

func newCollection(path string) (*collection, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(`{"trajectories": [`)
	return &collection{file: f}, err
}

func (c *collection) add(r *builders.Resolved) error {
	p, ok := r.Record.(*builders.Preference)
	if !ok {
		return fmt.Errorf("cannot put a %s into NAT's trajectories", r.Record.Kind())
	}
	b := c.buf[:0]
	if c.continues(r.Origin, p.Metadata) {
		b = append(b, ",\n  "...)
	} else {
		if c.groups++; c.groups > 1 {
			b = append(b, "],"...)
		}
		b = append(b, "\n [\n  "...)
	}
	b = append(b, `{"episode": [{"prompt": `...)
	b = appendPrompt(b, r.Prompt)
	b = json.AppendASCII(append(b, `, "chosen_response": `...), r.Chosen.Text)
	b = json.AppendASCII(append(b, `, "rejected_response": `...), r.Rejected.Text)
	b = pyvalue.AppendJSONFloat(append(b, `}], "reward": `...), p.Reward)
	b = append(b, `, "shaped_rewards": null, "metadata": `...)
	if p.Metadata == nil {
		b = append(b, "null"...)
	}
	c.buf = append(append(b, p.Metadata...), '}')
	_, err := c.file.Write(c.buf)
	return err
}

// continues reports whether a trajectory belongs in the list of the previous one, because it has the same Origin or
// example_id.
func (c *collection) continues(at *builders.Origin, metadata []byte) bool {
	if at == c.last {
		return true
	}
	id, ok := json.Raw(metadata).Get("example_id")
	same := c.last != nil && ok && bytes.Equal(id, c.example)
	c.last, c.example = at, append(c.example[:0], id...)
	return same
}

func (c *collection) commit(runID string) error {
	tail := "],\n \"run_id\": "
	if c.groups > 0 {
		tail = "]\n" + tail
	}
	if _, err := c.file.Write(append(json.AppendASCII([]byte(tail), runID), "}\n"...)); err != nil {
		c.file.Abort()
		return err
	}
	return c.file.Commit()
}

func appendPrompt(b []byte, p builders.Passage) []byte {
	if p.IsText() {
		return json.AppendASCII(b, p.Text)
	}
	b = append(b, '[')
	for i := range p.Nodes {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = json.AppendASCII(append(b, `{"role": `...), p.Nodes[i].Message.Role)
		b = append(json.AppendASCII(append(b, `, "content": `...), p.Nodes[i].Message.Text), '}')
	}
	return append(b, ']')
}
