package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

// tailBytes is the number of bytes at the end of the output that are searched for progress.
const tailBytes = 64 << 10

// names maps the keys under which programs print their progress to the names used here.
var names = map[string]string{
	"step": "step", "global_step": "step", "current_step": "step",
	"total_steps": "steps", "max_steps": "steps", "steps": "steps",
	"epoch": "epoch", "loss": "loss", "train_loss": "loss", "train/loss": "loss",
	"eval_loss": "val_loss", "val_loss": "val_loss", "eval/loss": "val_loss",
	"progress": "progress", "percentage": "progress", "percentage_done": "progress", "percent": "progress",
}

// readProgress reads the progress from the end of the output into st.
func readProgress(path string, st *trainers.JobStatus) {
	text, err := readEnd(path, tailBytes)
	if err != nil {
		return
	}
	found := map[string]float64{}
	for _, line := range bytes.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		parseLine(string(line), found)
	}
	st.Step, st.Steps, st.Epoch = int64(found["step"]), int64(found["steps"]), found["epoch"]
	st.Loss, st.ValLoss = pointer(found, "loss"), pointer(found, "val_loss")
	st.Progress = pointer(found, "progress")
	if st.Progress == nil && st.Steps > 0 && st.Step <= st.Steps {
		st.Progress = new(100 * float64(st.Step) / float64(st.Steps))
	}
}

func pointer(m map[string]float64, key string) *float64 {
	if v, ok := m[key]; ok {
		return &v
	}
	return nil
}

var (
	bar = regexp.MustCompile(`(\d+)/(\d+) \[`) // a tqdm progress bar
	// a printed Python dict
	pyPair   = regexp.MustCompile(`'([\w/]+)': '?([-+0-9.eE]+)'?[,}]`)
	keyValue = regexp.MustCompile(`(?:^|[\s,;])([A-Za-z_/]+)\s?[=:]\s?([-+]?[0-9][-+0-9.eE]*)%?`) // step=12 loss: 0.69
)

// parseLine adds the values in a line to found, replacing values from earlier lines.
func parseLine(line string, found map[string]float64) {
	line = strings.TrimSpace(line)
	if at := strings.Index(line, "{"); at > 0 && strings.HasSuffix(line, "}") && bar.MatchString(line[:at]) {
		parseLine(line[:at], found) // the progress bar is followed by an object on the same line
		line = line[at:]
	}
	switch {
	case len(line) > 4096:
	case strings.HasPrefix(line, "{") && strings.HasSuffix(line, "}"):
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil {
			for k, v := range m {
				if f, ok := v.(float64); ok {
					note(found, k, f)
				}
			}
			return
		}
		notePairs(found, pyPair, line)
	case bar.MatchString(line):
		all := bar.FindAllStringSubmatch(line, -1)
		m := all[len(all)-1]
		done, _ := strconv.ParseFloat(m[1], 64)
		total, _ := strconv.ParseFloat(m[2], 64)
		if done <= total {
			note(found, "step", done)
			note(found, "steps", total)
		}
	default:
		notePairs(found, keyValue, line)
	}
}

func notePairs(found map[string]float64, re *regexp.Regexp, line string) {
	for _, m := range re.FindAllStringSubmatch(line, -1) {
		if f, err := strconv.ParseFloat(m[2], 64); err == nil {
			note(found, m[1], f)
		}
	}
}

func note(found map[string]float64, key string, v float64) {
	if name, ok := names[strings.ToLower(key)]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
		found[name] = v
	}
}

func readEnd(path string, n int64) ([]byte, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, size-n), n))
}

// lastLines returns up to n lines from the end of the output, with secrets removed even if the part that is read begins
// in the middle of a secret.
func lastLines(path string, n int, secrets *secret.Values) string {
	b, err := readEnd(path, tailBytes)
	if err != nil {
		return ""
	}
	text := secret.Shape(secrets.RedactCut(string(b), len(b) == tailBytes, false))
	text = strings.TrimSpace(terminal.Output([]byte(text)))
	lines := strings.Split(text[max(0, len(text)-4096):], "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// maxTail is the maximum number of bytes that Tail returns at once.
const maxTail = 256 << 10

// Tail returns at most maxTail bytes of the program's output, starting at the offset from. While the program is alive,
// a part of fewer than maxTail bytes ends at the end of a line.
func (a *Adapter) Tail(_ context.Context, _ trainers.JobRef, from int64) ([]byte, int64, error) {
	f, err := durable.Open(filepath.Join(a.dir(), outputFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil
	}
	if err != nil {
		return nil, from, err
	}
	defer f.Close()
	ended := !alive(a.dir())
	b := make([]byte, maxTail)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, from, err
	}
	b = b[:n]
	if end := bytes.LastIndexAny(b, "\n\r"); !ended && n < maxTail {
		b = b[:end+1]
	}
	return b, from + int64(len(b)), nil
}
