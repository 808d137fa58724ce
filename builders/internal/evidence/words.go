package evidence

import (
	"slices"
	"strings"
)

// window is the number of bytes examined at each end of the text.
const window = 16 << 10

// sample is the number of lines examined at each end.
const sample = 40

// words judges text by its words and their positions.
func (c Call) words(text string) Verdict {
	if text == "" {
		return Verdict{}
	}
	if c.command() != "" && c.reads() == "" && !strings.Contains(text, "\n") {
		text = pattern("lastLog").ReplaceAllString(text, "Error: ")
		text = pattern("stamp").ReplaceAllString(text, "") // a program's final line is not a log, even with a timestamp
	}
	t := textOf(text)
	if q := t.framework(); q != "" {
		return failed("framework_text", q)
	}
	if f, is := t.page(); is {
		return f
	}
	f := t.strongest()
	switch {
	case f.Rule == "":
		f = c.voice(t)
	case !f.Failed:
		own := c.complaint(t, c.command())
		switch explained := c.command() != "" && c.reads() == "" && t.short && f.Rule == "error_prefix"; {
		case own.Failed:
			f = own
		case explained && t.paragraphs() > 0 && t.kind() == "":
			f = failed(f.Rule, f.Quote) // a program's error, followed by advice on fixing it
		}
	}
	if (f.Rule == "" || f.Rule == "refusal") && t.one() && c.command() == "" && !report(t.all) {
		f = c.weigh(t, f)
	}
	switch {
	case f.Rule == "":
		return Verdict{}
	case f.Failed && slices.Contains([]string{"http_status", "refusal", "wording", "error_prefix"}, f.Rule) &&
		matches(t.head[0], "seen"):
		return nearMiss(f.Rule, f.Quote, "the text describes what a person saw or said")
	case f.Failed && c.command() == "" && t.conversation():
		return nearMiss(f.Rule, f.Quote, "the text is a conversation")
	case f.Failed && t.one() && matches(t.all, "recovers") && !matches(t.all, "unrecovered"):
		return nearMiss(f.Rule, f.Quote, "the text describes how the failure was handled")
	case f.Failed && f.Rule == "error_prefix" && len(t.head) > 1 && matches(t.last(), "wellEnded"):
		return nearMiss(f.Rule, f.Quote, "the program continued and reported success")
	case f.Failed && c.providesFor(f.Quote):
		return nearMiss(f.Rule, f.Quote, "the command provides for a failure")
	case len(t.head) == 1 && matches(t.head[0], "defines"):
		return nearMiss(f.Rule, f.Quote, "the text says what the error means")
	}
	if why := t.document(f.Rule); why != "" && f.by != "form" && !c.crashed(f.Rule, why) {
		return nearMiss(f.Rule, f.Quote, why)
	}
	if reader := c.reads(); reader != "" && f.Failed {
		alone := len(t.head) == 1 && (reader == "docker" || reader == "kubectl")
		if voice := strings.TrimSuffix(speaks(f.Quote), ":"); voice != reader && !shells[voice] && !alone &&
			voice != "fatal" && !strings.HasSuffix(voice, "/"+reader) {
			return nearMiss(f.Rule, f.Quote, "the command is "+reader+": it prints text from elsewhere")
		}
	}
	return f
}

// providesFor reports whether the command continues after failures, or prints the line itself if another program fails.
func (c Call) providesFor(line string) bool {
	command := c.command()
	return matches(command, "providedFor") || matches(command, "echoes") && strings.Contains(command, line)
}

// crashed reports whether a traceback ends the output of the program that the call runs, rather than a file that it
// reads. The output may contain logs, lists, headings and prose, because programs also print these.
func (c Call) crashed(rule, why string) bool {
	own := strings.HasPrefix(why, "the text is a l") || strings.Contains(why, "headings")
	return rule == "traceback" && own && c.reads() == "" &&
		(c.command() != "" || member(c.Arguments, "code") != nil) && !matches(string(c.Arguments), "readsFile")
}

// shells are programs that report errors for the programs that they can't start.
var shells = Set(strings.Fields("bash sh zsh dash ksh /bin/sh /bin/bash -bash timeout sudo"))

// text is a result's text, together with the lines that are examined.
type text struct {
	all        string
	head, tail []string // first and last non-blank lines; all non-blank lines of a short text
	short      bool     // whether the text has at most a dozen lines and 2,000 bytes
	count      int      // number of words, up to the window
}

func textOf(s string) *text {
	first, last := s[:min(len(s), window)], s[max(0, len(s)-window):]
	t := &text{all: s, head: firstLines(first, sample), tail: lastLines(last, sample)}
	t.short = len(s) <= 2000 && len(t.head) <= 12
	t.count = len(strings.Fields(first))
	return t
}

func (t *text) last() string { return t.tail[len(t.tail)-1] }

// one reports whether the text consists of only a sentence or two.
func (t *text) one() bool { return len(t.head) <= 2 && len(t.all) <= 400 && t.count <= 50 }

// strongest returns the finding of the first rule that matches.
func (t *text) strongest() Verdict {
	for _, try := range []func() Verdict{t.traceback, t.prefix, t.program, t.http, t.refusal} {
		if f := try(); f.Rule != "" {
			return f
		}
	}
	return Verdict{}
}
