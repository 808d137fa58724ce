package kit

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// Status is a check's verdict.
type Status string

// The statuses.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Result is the outcome of a check.
type Result struct {
	Name    string  `json:"name"`
	Wants   string  `json:"wants"`
	Status  Status  `json:"status"`
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Report is the outcome of all checks.
type Report struct {
	Plugin  string   `json:"plugin"` // the plugin's own name; empty if it never started
	Version string   `json:"version"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Checks  []Result `json:"checks"`
}

func (r *Report) add(c check, err error, took time.Duration) {
	out := Result{Name: c.name, Wants: c.wants, Status: Pass, Seconds: took.Seconds()}
	switch e := err.(type) {
	case nil:
		r.Passed++
	case skipError:
		r.Skipped++
		out.Status, out.Detail = Skip, string(e)
	default:
		r.Failed++
		out.Status, out.Detail = Fail, err.Error()
	}
	r.Checks = append(r.Checks, out)
}

// Text writes the report as text.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	name := cmp.Or(r.Plugin, "the plugin")
	fmt.Fprintln(&b, strings.TrimSpace(name+" "+r.Version))
	for _, c := range r.Checks {
		mark := map[Status]string{Pass: "ok  ", Fail: "FAIL", Skip: "skip"}[c.Status]
		fmt.Fprintf(&b, "  %s  %-20s %s\n", mark, c.Name, c.Wants)
		if c.Detail != "" {
			fmt.Fprintf(&b, "        %s\n", strings.ReplaceAll(c.Detail, "\n", "\n        "))
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

// skipError explains why a check was skipped.
type skipError string

func (e skipError) Error() string { return string(e) }
