package pairs

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Out is a candidate that must not be in a pair, with the reason.
type Out struct {
	Candidate int
	Reason    ledger.Reason
}

// Filtered is the outcome of Filter for a turn.
type Filtered struct {
	Groups [][]int // candidates to compare: at least two per group, with the same prompt and distinct outputs
	Out    []Out   // all other candidates, once each
	// Contained counts candidates that are kept although their output occurs in the prompt; leaks decides which ones
	// are kept.
	Contained int
}

// FilterConfig configures Filter.
type FilterConfig struct {
	KeepAnswerInPrompt bool // keep candidates whose prompt contains their answer, and count them as contained
	// KeepEndings keeps short answers that end their prompt, unless another candidate has a different prompt. If all
	// share the prompt, its ending may be a choice that it offers.
	KeepEndings bool
}

// Filter divides a turn's candidates into groups to compare and unusable ones. The slice turn holds indices into all.
// The checks run in this order: failed_scorer, non_finite_score, empty_response, repr_prompt, answer_in_prompt,
// different_prompt, same_text, single_candidate.
func Filter(all []ttc.Candidate, turn []int, cfg FilterConfig) Filtered {
	kept, f := Usable(all, turn, cfg)
	for _, group := range byPrompt(all, kept) {
		if len(group) == 1 && len(kept) > 1 {
			f.Out = append(f.Out, Out{group[0], DifferentPrompt})
			continue
		}
		if group = f.eachTextOnce(all, group); len(group) > 1 {
			f.Groups = append(f.Groups, group)
		} else {
			f.Out = append(f.Out, Out{group[0], SingleCandidate})
		}
	}
	return f
}

// Usable runs the first five checks of Filter, which apply even if candidates aren't compared. It returns the
// candidates that pass, and sets Out and Contained.
func Usable(all []ttc.Candidate, turn []int, cfg FilterConfig) (kept []int, f Filtered) {
	kept = make([]int, 0, len(turn))
	for _, i := range turn {
		if r := unfit(&all[i]); r != "" {
			f.Out = append(f.Out, Out{i, r})
		} else {
			kept = append(kept, i)
		}
	}
	return f.leaks(all, kept, cfg), f
}

// unfit returns the reason why a candidate is unusable regardless of the others.
func unfit(c *ttc.Candidate) ledger.Reason {
	switch {
	case c.ScoreError != "":
		return FailedScorer
	case math.IsNaN(c.Score) || math.IsInf(c.Score, 0):
		return ledger.NonFiniteScore
	case strings.TrimSpace(c.Output) == "":
		return ledger.EmptyResponse
	case c.Prompt.Form == ttc.OtherPrompt || c.Prompt.Form == ttc.TextPrompt && isRepr(c.Prompt.Text):
		return ReprPrompt
	}
	return ""
}

// printed matches Python's repr of a list of message dicts or of LangChain message objects.
var printed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^\s*[\[(]?\s*(\{\s*'(role|content|type)'\s*:|(Human|AI|System|Tool|Function|Chat)Message(Chunk)?\()`,
	)
})

func isRepr(prompt string) bool {
	if prompt == "" || strings.IndexByte("[({HAST FC\t\n", prompt[0]) < 0 { // nearly every prompt is ruled out here
		return false
	}
	return printed().MatchString(prompt)
}

// leaks removes candidates whose prompt gives the answer away. Such a prompt ends with an assistant message or with
// the answer, or contains an answer that is too long to occur by chance. If other candidates answered a prompt
// differently, it was recorded without an answer, so its ending belongs to the task ("Answer with A or B"). If the
// prompt contains every candidate of the turn in full, the task is to choose among them.
func (f *Filtered) leaks(all []ttc.Candidate, turn []int, cfg FilterConfig) []int {
	copied := 0
	where := make([]place, len(turn))
	for k, i := range turn {
		where[k] = find(&all[i].Prompt, all[i].Output)
		if (where[k] == inside || where[k] == atEnd) && isLong(all[i].Output) {
			copied++
		}
	}
	var added []bool // computed when needed
	for k, i := range turn {
		if where[k] != inside && where[k] != atEnd {
			continue // true for almost all candidates, so isLong is rarely called
		}
		if where[k] == atEnd && added == nil {
			added = addedAnswers(all, turn, cfg.KeepEndings)
		}
		if where[k] == atEnd && added[k] || isLong(all[i].Output) && copied < len(turn) {
			where[k] = answered
		}
	}
	kept := turn[:0]
	for k, i := range turn {
		if where[k] == answered && !cfg.KeepAnswerInPrompt {
			f.Out = append(f.Out, Out{i, AnswerInPrompt})
			continue
		}
		if where[k] != nowhere {
			f.Contained++
		}
		kept = append(kept, i)
	}
	return kept
}

// addedAnswers reports, for each candidate, whether an answer at the end of its prompt was added there after sampling.
// It wasn't added if another candidate has the same prompt and a different output or, with keepEndings, if all have the
// same prompt.
func addedAnswers(all []ttc.Candidate, turn []int, keepEndings bool) []bool {
	numbers, n := numbered(all, turn)
	outputs, differ := make([]string, n), make([]bool, n)
	for k, i := range turn {
		output, first := strings.TrimSpace(all[i].Output), &outputs[numbers[k]]
		differ[numbers[k]] = differ[numbers[k]] || *first != "" && *first != output // outputs are never empty
		*first = output
	}
	added := make([]bool, len(turn))
	for k := range turn {
		added[k] = !differ[numbers[k]] && !(keepEndings && n == 1)
	}
	return added
}

// isLong reports whether an output is too long to occur in its prompt by chance.
func isLong(output string) bool {
	const minLongRunes = 64 // characters
	return len(output) >= minLongRunes && utf8.RuneCountInString(strings.TrimSpace(output)) >= minLongRunes
}

// place is the position of an output in a prompt.
type place uint8

const (
	nowhere place = iota
	inside
	atEnd    // the prompt ends with the output
	answered // the prompt gives the answer away, for example by ending with an assistant message
)

func find(p *ttc.Prompt, output string) place {
	output = strings.TrimSpace(output)
	if p.Form == ttc.TextPrompt {
		return findText(p.Text, output)
	}
	found := nowhere
	for k := range p.Messages {
		m := &p.Messages[k]
		last := k == len(p.Messages)-1
		if last && m.Role == "assistant" {
			return answered
		}
		texts := []string{m.Text}
		for _, part := range m.Parts {
			texts = append(texts, part.Text)
		}
		for t, text := range texts {
			at := findText(text, output)
			if at > inside && !(last && t == len(texts)-1) {
				at = inside
			}
			found = max(found, at)
		}
	}
	return found
}

func findText(text, output string) place {
	if !contains(text, output) {
		return nowhere
	}
	before, ok := strings.CutSuffix(strings.TrimRight(text, " \t\r\n"), output)
	switch {
	case !ok || len(output) < wordBytes && endsInWord(before):
		return inside
	case strings.TrimSpace(before) == "" || speaker().MatchString(before[max(0, len(before)-40):]):
		return answered
	}
	return atEnd
}

// speaker matches the end of a transcript that announces the model's turn, on its own line or as a label before the
// text.
var speaker = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[\n\r|>])[ \t<|\[*#]*(assistant|ai|bot|model|gpt)[ \t>|\]*]*:?[ \t]*[\n\r]*$`)
})

// anchorBytes is the length of the substring to search for first. Package strings compares substrings of up to about
// this length directly, but uses a rolling hash over every byte for longer ones. The substring begins at a rare byte
// near the start, because the search jumps from one occurrence of that byte to the next.
const anchorBytes = 32

// contains is like strings.Contains, but tuned for strings that usually do not occur.
func contains(text, output string) bool {
	if len(text) < len(output) {
		return false
	}
	if skip := rarest(output[:max(0, min(len(output)-anchorBytes, 64))]); skip >= 0 {
		anchor := output[skip : skip+anchorBytes]
		at := skip
		for range 8 { // leave repetitive text to the rolling hash, which takes linear time
			i := strings.Index(text[at:], anchor)
			if i < 0 {
				return false
			}
			if at += i; strings.HasPrefix(text[at-skip:], output) {
				return true
			}
			at++
		}
	}
	return strings.Contains(text, output)
}

// rarity holds the rarity of each byte in prose. Letters are ranked by their frequency in English; text in other
// scripts may consist mostly of non-ASCII bytes.
var rarity = func() (r [256]byte) {
	const letters = " etaoinsrhldcumfpgwybvkxjqz"
	for b := range r {
		if r[b] = byte(strings.IndexByte(letters, 'w')); b >= utf8.RuneSelf {
			r[b] = byte(strings.IndexByte(letters, 'h'))
		}
	}
	for i := range len(letters) {
		r[letters[i]] = byte(i)
	}
	return r
}()

// rarest returns the index of the first byte of s that is at least as rare as the letter v, or, if there is none, the
// index of the rarest byte. It returns -1 if s is empty.
func rarest(s string) int {
	enough := rarity['v']
	at, most := -1, -1
	for i := range len(s) {
		if r := rarity[s[i]]; int(r) > most {
			at, most = i, int(r)
			if r >= enough {
				break
			}
		}
	}
	return at
}

// wordBytes is the minimum length of an output that is unlikely to match the end of a word by accident: "a" is not an
// answer in "pick a banana".
const wordBytes = 8

func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// SamePrompt reports whether two prompts are the same text or the same messages.
func SamePrompt(a, b *ttc.Prompt) bool {
	if a.Form != b.Form || a.Text != b.Text || len(a.Messages) != len(b.Messages) {
		return false
	}
	if len(a.Messages) > 0 && &a.Messages[0] == &b.Messages[0] {
		return true
	}
	for k := range a.Messages {
		if !chat.Equal(&a.Messages[k], &b.Messages[k]) {
			return false
		}
	}
	return true
}

// eachTextOnce removes candidates whose output already occurred in their group.
func (f *Filtered) eachTextOnce(all []ttc.Candidate, group []int) []int {
	var seen map[string]bool
	if len(group) > 32 { // small groups, which are common, don't need a map
		seen = make(map[string]bool, len(group))
	}
	kept := group[:0]
	for _, i := range group {
		again := seen[all[i].Output]
		if seen == nil {
			again = slices.ContainsFunc(kept, func(k int) bool { return all[k].Output == all[i].Output })
		} else {
			seen[all[i].Output] = true
		}
		if again {
			f.Out = append(f.Out, Out{i, ledger.SameText})
		} else {
			kept = append(kept, i)
		}
	}
	return kept
}
