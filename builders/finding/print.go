package finding

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
)

// Text writes findings as text: position, code, message, the line with a caret, and the fix.
func Text(w io.Writer, fs []Finding, color bool) error {
	paint := func(code, s string) string {
		if !color {
			return s
		}
		return terminal.Style(code, s)
	}
	hue := map[Severity]string{Error: "31;1", Warning: "33;1", Note: "36;1"}
	var b strings.Builder
	for _, f := range fs {
		if f.File != "" {
			b.WriteString(paint("1", terminal.Line(f.Place())) + ": ")
		}
		fmt.Fprintf(&b, "%s %s: %s\n", paint(hue[f.Severity], string(f.Severity)), f.Code, f.Message)
		if line, caret, ok := strings.Cut(f.Snippet, "\n"); ok {
			number := fmt.Sprint(f.Line)
			gap := strings.Repeat(" ", len(number))
			fmt.Fprintf(&b, "  %s | %s\n  %s | %s", number, line, gap, paint(hue[f.Severity], caret))
			if f.Suggestion != "" {
				fmt.Fprintf(&b, " did you mean %s?", f.Suggestion)
			}
			b.WriteByte('\n')
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", f.Fix)
		}
	}
	_, err := io.WriteString(terminal.For(w), b.String())
	return err
}

// Place returns the finding's position: file, line and column.
func (f Finding) Place() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

func (f Finding) inFile() bool { return f.File != "" && f.File != CommandLine }

// String returns the finding as a single line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s %s: %s", f.Place(), f.Severity, f.Code, f.Message)
	if f.Fix != "" {
		s += " (" + f.Fix + ")"
	}
	return s
}

// Count returns the number of findings of each severity: "2 errors, 1 warning".
func Count(fs []Finding) string {
	var parts []string
	for _, s := range []Severity{Error, Warning, Note} {
		n := 0
		for _, f := range fs {
			if f.Severity == s {
				n++
			}
		}
		switch {
		case n == 1:
			parts = append(parts, "1 "+string(s))
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	if parts == nil {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// JSON writes findings as one object {"ok": bool, "findings": [...]}.
func JSON(w io.Writer, fs []Finding) error {
	if fs == nil {
		fs = []Finding{}
	}
	return encode(w, map[string]any{"ok": !Failed(fs), "findings": fs})
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// GitHub writes findings as GitHub Actions workflow commands, which GitHub shows next to the line in question.
func GitHub(w io.Writer, fs []Finding) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	level := map[Severity]string{Error: "error", Warning: "warning", Note: "notice"}
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "::%s title=%s", level[f.Severity], property.Replace(f.Code))
		if f.inFile() {
			fmt.Fprintf(&b, ",file=%s", property.Replace(f.File))
		}
		if f.inFile() && f.Line > 0 {
			fmt.Fprintf(&b, ",line=%d,col=%d,endColumn=%d", f.Line, f.Column, f.EndColumn)
		}
		text := f.Message
		if f.Fix != "" {
			text += "\nfix: " + f.Fix
		}
		fmt.Fprintf(&b, "::%s\n", data.Replace(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// SARIF writes findings in the Static Analysis Results Interchange Format 2.1.0. explain returns the explanation of a
// code.
func SARIF(w io.Writer, fs []Finding, version string, explain func(code string) string) error {
	type object = map[string]any
	rules, results := []object{}, []object{}
	codes := lists.Map(fs, func(f Finding) string { return f.Code })
	slices.Sort(codes)
	codes = slices.Compact(codes)
	for _, c := range codes {
		rules = append(rules, object{"id": c, "shortDescription": object{"text": explain(c)}})
	}
	for _, f := range fs {
		text := f.Message
		if f.Fix != "" {
			text += ". Fix: " + f.Fix
		}
		where := object{"artifactLocation": object{"uri": f.File}}
		if f.Line > 0 {
			where["region"] = object{"startLine": f.Line, "startColumn": f.Column, "endColumn": f.EndColumn}
		}
		result := object{
			"ruleId": f.Code, "ruleIndex": slices.Index(codes, f.Code), "level": string(f.Severity),
			"message":    object{"text": text},
			"properties": object{"pointer": f.Pointer},
		}
		if f.inFile() {
			result["locations"] = []object{{"physicalLocation": where}}
		}
		results = append(results, result)
	}
	return encode(w, object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []object{{
			"tool":       object{"driver": object{"name": "nat-go", "version": version, "rules": rules}},
			"columnKind": "unicodeCodePoints",
			"results":    results,
		}},
	})
}
