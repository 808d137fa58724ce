package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// meanings lists the settings whose keys are looked for inside objects, with the names that the keys have there.
var meanings = []meaning{
	{"prompt_key", "the prompt", isPassage, []string{
		"prompt", "question", "query", "instruction", "input", "inputs", "problem", "messages", "user_input",
	}, []string{"output", "outputs", "response", "expected", "expectedoutput", "expected_output"}},
	{"output_key", "the answer", isPassage, []string{
		"output", "outputs", "answer", "response", "completion", "generation", "messages", "expected",
		"expected_output", "expectedoutput", "target", "text",
	}, []string{"input", "inputs", "request"}},
	{"score_key", "the score", (*source.Column).Number, source.ScoreNames(), nil},
}

// meaning describes a setting whose value is a key, and the keys that it may be set to.
type meaning struct {
	setting, means string
	is             func(*source.Column) bool
	names          []string // names of these keys
	not            []string // the objects in which these names mean something else
}

// isPassage accepts text, messages and parts.
func isPassage(c *source.Column) bool { return c.Text() && !c.Number() || c.List() }

// byPaths determines how to read an input that no source recognises, using keys inside its objects, such as {"inputs":
// {"question"}, "outputs": {"answer"}}. It returns nil if the user named any keys, or if the prompt or the answer
// doesn't have exactly one possible key.
func byPaths(all []source.Factory, only string, h *source.Head) *Found {
	if len(h.Given) > 0 || len(h.Entries) == 0 ||
		h.Whole && len(h.Entries) == 1 && listWithin(h.Entries[0], "", 1) != "" {
		return nil
	}
	given, guessed := map[string]string{}, []string{}
	columns := slices.Concat(h.Columns().All(), h.Paths())
	for _, m := range meanings {
		var keys []string
		for _, c := range columns {
			if m.fits(c) && c.Key != given["prompt_key"] {
				keys = append(keys, c.Key)
			}
		}
		switch {
		case len(keys) == 1:
			given[m.setting] = keys[0]
			guessed = append(guessed, fmt.Sprintf("%s is read from %q", m.means, keys[0]))
		case m.setting != "score_key": // a missing or ambiguous score key is not set
			return nil
		}
	}
	answer := given["output_key"][strings.LastIndexByte(given["output_key"], '.')+1:]
	if given["score_key"] != "" && slices.Contains(references, source.CommonName(answer)) {
		return nil // the score is that of another answer
	}
	mapped := *h
	mapped.Given = given
	found, err := Choose(all, only, &mapped)
	if err != nil {
		return nil
	}
	found.Guessed = append(guessed, found.Guessed...)
	return found
}

// references lists the key names of reference answers, with which the model's answers are compared.
var references = []string{"expected", "expected_output", "expectedoutput", "target"}

// fits reports whether a column may have the meaning, judging by its name and values. It rejects prompts inside
// answers, answers inside prompts, and anything inside the first element of a list.
func (m *meaning) fits(c *source.Column) bool {
	parts := strings.Split(c.Key, ".")
	return c.Present > 0 && slices.Contains(m.names, source.CommonName(parts[len(parts)-1])) && m.is(c) &&
		!slices.Contains(m.not, source.CommonName(parts[0])) && !strings.Contains(c.Key, ".0.")
}

// harnesses lists programs whose logs can't be read, with paths that identify their entries.
var harnesses = []struct {
	name  string
	paths []string
}{
	{"Cursor", []string{"message.content.0.type", "role"}},
	{"Droid", []string{"sessionTitle", "owner"}},
	{"Letta Code", []string{"captured_at", "source_line_id"}},
}

// unsupportedHarness returns a message that names the unsupported program that wrote the input, or "" if it is unknown.
func unsupportedHarness(h *source.Head) string {
	for _, p := range harnesses {
		if !slices.ContainsFunc(p.paths, func(path string) bool { return !at(h, path) }) {
			return "It is a session of " + p.name + `, which can't be read: write each session as {"messages": [...]} ` +
				"in the form of the chat API, with tool_calls"
		}
	}
	return ""
}

// at reports whether any entry has a value at a path.
func at(h *source.Head, path string) bool {
	return slices.ContainsFunc(h.Entries, func(e json.Raw) bool { return source.At(e, path) != nil })
}

// conversionHint explains how to convert an input of a known kind that can't be read directly. It is empty if the
// input's kind is unknown.
func conversionHint(h *source.Head) string {
	switch {
	case at(h, "custom_id") && (at(h, "body.messages") || at(h, "params.messages")):
		return "These are the requests of a batch, which have no answers: join them with its results, by custom_id, into " +
			`{"messages": [...]} with the answer as the last message`
	case at(h, "custom_id") && (at(h, "response.body") || at(h, "result.message")):
		return "These are the results of a batch, without their prompts: join each with its request, by custom_id, into " +
			`{"messages": [...]} with the answer as the last message`
	}
	if help := cmp.Or(unsupportedHarness(h), conversationIn(h)); help != "" || !h.Whole || len(h.Entries) != 1 {
		return help
	}
	if list := listWithin(h.Entries[0], "", 1); list != "" {
		return fmt.Sprintf("The entries may be in a list inside the file's object: jq -c '%s[]' %s > rows.jsonl "+
			"writes them as lines", list, quoted(h.Path))
	}
	if byID(h.Entries[0]) {
		return fmt.Sprintf("The values of the file's object may be the entries: jq -c '.[]' %s > rows.jsonl "+
			"writes them as lines", quoted(h.Path))
	}
	return ""
}

// conversationIn explains how to read entries that hold a conversation as a list of objects with a text and a speaker.
// Speakers that are identified only by numbers can't be converted. It returns "" for other entries.
func conversationIn(h *source.Head) string {
	for key, list := range h.Entries[0].Members() {
		name, _ := key.Text()
		var first json.Raw
		n := 0
		for e := range list.Elements() {
			if n++; n == 1 {
				first = e
			}
		}
		content := named(first, "body", "content", "text", "message", "said")
		role := named(first, "role", "author", "from", "sender", "speaker", "who", "author_id", "sender_id")
		if n < 2 || content == "" || role == "" {
			continue
		}
		who, _ := first.Get(role)
		if who.Kind() != json.String {
			return fmt.Sprintf("%s is a conversation in which %s identifies the speaker by a number: give each message a role, "+
				"user or assistant", name, role)
		}
		return fmt.Sprintf("%s is a conversation: add --map messages=%s --map role=%s --map content=%s", name, name, role,
			content)
	}
	return ""
}

// named returns the first of the keys that has a value in an object.
func named(o json.Raw, keys ...string) string {
	for _, key := range keys {
		if v, ok := o.Get(key); ok && v.Kind() != json.Null {
			return key
		}
	}
	return ""
}

// listWithin returns the path, in jq's notation, to the first list of several objects nested within an object.
func listWithin(v json.Raw, path string, depth int) string {
	for key, value := range v.Members() {
		name, _ := key.Text()
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) }) {
			continue // jq requires quotes around such a key
		}
		objects := 0
		for element := range value.Elements() {
			if _, isMessage := element.Get("role"); element.Kind() == json.Object && !isMessage {
				objects++
			}
		}
		if objects > 1 {
			return path + "." + name
		}
		if value.Kind() != json.Object || depth == maxListDepth {
			continue
		}
		if list := listWithin(value, path+"."+name, depth+1); list != "" {
			return list
		}
	}
	return ""
}

// maxListDepth is the maximum number of objects within which a list of entries may be nested.
const maxListDepth = 4

// byID reports whether an object's values are objects that all have the same keys, like entries stored under their ids.
func byID(e json.Raw) bool {
	n, keys := 0, ""
	for _, v := range e.Members() {
		if v.Kind() != json.Object || n > 0 && source.KeysOf(v) != keys {
			return false
		}
		keys = source.KeysOf(v)
		n++
	}
	return n > 1
}
