package sdpo

import (
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
)

// kindOfHint returns the kind of a hint that repeats the environment. It is knowable if everything it names stands in
// the context of the target turn: names, numbers and words that aren't the wording's own. A hint that names nothing is
// hindsight, since only the environment knows that the call fails.
func (s *site) kindOfHint(text string, wording map[string]bool) builders.HintKind {
	named, tool := 0, strings.ToLower(s.made.Name)
	context := s.contextWords()
	for _, w := range nameWords(text) {
		switch {
		case wording[w] || empty[w]:
		case !context[w] && !context[singular(w)]:
			return builders.Hindsight
		case w != tool:
			named++
		}
	}
	if named == 0 {
		return builders.Hindsight
	}
	return builders.Knowable
}

// contextWords returns what stands before the target turn: in the messages and in the list of tools.
func (s *site) contextWords() map[string]bool {
	all := map[string]bool{}
	add := func(text string) {
		for _, w := range nameWords(text) {
			all[w] = true
			all[singular(w)] = true
			for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return r == '_' }) { // of an identifier
				all[part] = true
				all[singular(part)] = true
			}
		}
	}
	for i := range s.example.Tools {
		add(s.example.Tools[i].Name)
		add(string(s.example.Tools[i].Raw))
	}
	for _, n := range s.walk[:s.at] {
		addMessage(&n.Message, add)
	}
	return all
}

func addMessage(m *chat.Message, add func(string)) {
	add(textOf(m))
	add(m.Reasoning)
	for i := range m.ToolCalls {
		add(m.ToolCalls[i].Name)
		add(m.ToolCalls[i].Arguments)
	}
}

// nameWords returns the words of a text in lower case. A word is letters, digits and underscores; a number keeps its
// point, and loses the commas between its digits.
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

// singular strips a plural's s.
func singular(w string) string {
	if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
		return w[:len(w)-1]
	}
	return w
}

// empty are words that name nothing: those of grammar, and those by which programs report errors.
var empty = func() map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(`
		a an the this that these those it its he she they them their you your i we our is are was were be been being am
		has have had do does did done will would can could cannot can't may might must shall should not no none nor and or
		but if then else than so as of at by for from in into on onto off to up out over under with without within about
		after before again already yet still also only just more less enough too very any all some each every other
		another same such there here when where which who what why how because due while until s t don doesn didn isn
		aren wasn weren won couldn shouldn wouldn
		error errors failed fail fails failure failing invalid illegal wrong bad exception traceback most recent call last
		calls called tried found unable unknown unexpected denied refused rejected missing unsupported not_found valueerror
		keyerror typeerror runtimeerror oserror please try use used using be`) {
		all[w] = true
	}
	return all
}()
