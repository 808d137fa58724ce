package sdpo

import (
	"slices"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/ttc/chat"
)

// kindOfHint returns the kind of a hint that repeats the environment's message. It is knowable if the tool's
// definition, alone or together with a single message before the target turn, contains all the names, numbers and
// specific words in the hint. The same words in several messages may mean something else: a flight in one message and
// seats in another don't imply that the flight has no seats left. A hint that names nothing is hindsight, because
// only the environment knows that the call fails.
func (s *site) kindOfHint(text string, wording map[string]bool) builders.HintKind {
	var named []string
	tool := strings.ToLower(s.made.Name)
	for _, w := range nameWords(text) {
		if !wording[w] && !empty[w] && w != tool {
			named = append(named, w)
		}
	}
	definition := map[string]bool{}
	if t := s.tool(); t != nil {
		addWords(definition, string(t.Raw))
	} else if len(s.example.Tools) > 0 {
		return builders.Hindsight // the tool doesn't exist
	}
	has := func(message map[string]bool) bool {
		return !slices.ContainsFunc(named, func(w string) bool {
			one := singular(w)
			return !message[w] && !message[one] && !definition[w] && !definition[one]
		})
	}
	if len(named) == 0 {
		return builders.Hindsight
	}
	if has(nil) {
		return builders.Knowable
	}
	for at := range s.at {
		if has(s.wordsOf(at)) {
			return builders.Knowable
		}
	}
	return builders.Hindsight
}

// wordsOf returns the words of a message on the walk.
func (t *trace) wordsOf(at int) map[string]bool {
	if at == len(t.words) {
		words := map[string]bool{}
		addMessage(words, &t.walk[at].Message)
		t.words = append(t.words, words)
	}
	return t.words[at]
}

// addWords adds the words in text, their underscore-separated parts, and the singulars of both.
func addWords(all map[string]bool, text string) {
	for _, w := range nameWords(text) {
		all[w] = true
		all[singular(w)] = true
		for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return r == '_' }) {
			all[part] = true
			all[singular(part)] = true
		}
	}
}

func addMessage(all map[string]bool, m *chat.Message) {
	addWords(all, m.AllText())
	addWords(all, m.Reasoning)
	for i := range m.ToolCalls {
		addWords(all, m.ToolCalls[i].Name)
		addWords(all, m.ToolCalls[i].Arguments)
	}
}

// nameWords returns the words in text, lower-cased. A word consists of letters, digits and underscores. A number keeps
// its decimal point but not the commas between its digits.
func nameWords(text string) (all []string) {
	var word []rune
	runes := []rune(text)
	digit := func(i int) bool { return i >= 0 && i < len(runes) && unicode.IsDigit(runes[i]) }
	flush := func() {
		if len(word) > 0 {
			all = append(all, string(word))
			word = word[:0]
		}
	}
	for i, r := range runes {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
			word = append(word, unicode.ToLower(r))
		case r == '.' && digit(i-1) && digit(i+1):
			word = append(word, r)
		case r == ',' && digit(i-1) && digit(i+1):
		default:
			flush()
		}
	}
	flush()
	return all
}

// singular strips the s of a plural.
func singular(w string) string {
	if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
		return w[:len(w)-1]
	}
	return w
}

// empty lists words that name nothing: function words, and words that programs use to report errors.
var empty = evidence.Set(strings.Fields(`
		a an the this that these those it its he she they them their you your i we our is are was were be been being am
		has have had do does did done will would can could cannot can't may might must shall should not no none nor and
		or but if then else than so as of at by for from in into on onto off to up out over under with without within
		about after before again already yet still also only just more less enough too very any all some each every
		other another same such there here when where which who what why how because due while until s t don doesn didn
		isn aren wasn weren won couldn shouldn wouldn
		error errors failed fail fails failure failing invalid illegal wrong bad exception traceback most recent call
		last calls called tried unable unknown unexpected denied refused rejected missing unsupported valueerror
		keyerror typeerror runtimeerror oserror please try use used using`))
