package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// IDText returns an id as text; empty if it is missing: absent, null, "", NaN (how pandas writes a gap), or not a plain
// value.
func IDText(raw json.Raw) string {
	switch raw.Kind() {
	case json.String:
		s, _ := raw.Text()
		return s
	case json.Number:
		if string(raw) != "NaN" {
			return string(raw)
		}
	case json.Bool:
		return string(raw)
	}
	return ""
}

// RowName names an example without an id.
func RowName(row int64) string { return fmt.Sprintf("#%d", row) }

// IsRowName reports whether an id was made by RowName, perhaps with an ending that makes it unique: such an id doesn't
// identify examples of other files.
func IsRowName(id string) bool {
	rest, ok := strings.CutPrefix(id, "#")
	return ok && rest != "" && strings.Trim(rest, "0123456789#") == ""
}

// Trial splits off the suffix that `nat eval --reps` adds to an id.
func Trial(id string) (task, rep string) {
	i := strings.LastIndex(id, "_rep")
	if i <= 0 || i+4 == len(id) || strings.Trim(id[i+4:], "0123456789") != "" {
		return id, ""
	}
	return id[:i], id[i+1:]
}

// ScoreError returns the text by which NAT's evaluators mark a failed scorer: reasoning.error or, with a score of 0,
// error, among the candidate's own keys or in its metadata. It returns "" if there is neither.
func ScoreError(score float64, failure, reasoning, metadata json.Raw) string {
	elsewhere, why := ScorerMarks(metadata)
	if len(reasoning) == 0 {
		reasoning = why
	}
	if len(failure) == 0 {
		failure = elsewhere
	}
	if reasoning.Kind() == json.Object {
		if v, _ := reasoning.Get("error"); len(v.Bytes()) > 0 {
			s, _ := v.Text()
			return s
		}
	}
	if score == 0 && len(failure.Bytes()) > 0 {
		s, _ := failure.Text()
		return s
	}
	return ""
}

// ScorerMarks returns the values in a candidate's metadata under the two keys that ScoreError looks at.
func ScorerMarks(metadata json.Raw) (failure, reasoning json.Raw) {
	if metadata.Kind() == json.Object && mayExplain(metadata) {
		failure, _ = metadata.Get("error")
		reasoning, _ = metadata.Get("reasoning")
	}
	return failure, reasoning
}

// mayExplain reports whether an error may be found in a candidate's metadata; nearly all candidates lack one. It looks
// for the end of the key, which begins with a rarer letter, and for keys written with escapes.
func mayExplain(metadata json.Raw) bool {
	return bytes.Contains(metadata, []byte(`rror"`)) || bytes.Contains(metadata, []byte(`\u`))
}

// Chain adds an entry's hash to a rolling hash.
func Chain(sum, hash uint64) uint64 {
	const odd = 0x9E3779B97F4A7C15 // 2^64 / golden ratio
	sum = (sum ^ hash) * odd
	return sum ^ sum>>29
}

// Replay advances a source that was just opened to opt.Resume: it rereads the part before it without reporting drops.
// It is an error if the input has changed.
func Replay(ctx context.Context, s Source, tally *Tally, opt Options) error {
	to := *opt.Resume
	tally.Silent = true
	defer func() { tally.Silent = false }()
	var from Cursor
	if opt.Part != nil {
		from = opt.Part.From
	}
	for at := from; at != to; {
		var err error
		if _, at, err = s.Next(ctx); err == io.EOF {
			return changed(s, to.Run)
		} else if err != nil {
			return err
		}
		if at.Run > to.Run || at.Run == to.Run && at.Row >= to.Row && at != to {
			return changed(s, to.Run)
		}
	}
	for i, in := range s.Inputs() {
		if i < len(opt.Inputs) && !in.Same(opt.Inputs[i]) {
			return changed(s, i)
		}
	}
	return nil
}

func changed(s Source, run int) error {
	path := "the input"
	if in := s.Inputs(); run < len(in) {
		path = in[run].Path
	}
	return &Error{
		Path: path, Offset: -1, What: "the input changed since the run began, so the run can't be resumed",
		Help: "Start a new run, or put the file back as it was",
	}
}
