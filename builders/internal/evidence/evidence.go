package evidence

import (
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/json"
)

// Classes of evidence.
const (
	ExitCode  = "exit_code" // the exit code of a process, as shown by a harness
	Status    = "status"    // a status or flag inside a JSON object
	Exception = "exception" // an exception, a framework's wrapper or an error object
	Message   = "message"   // wording typical of programs or services
	Flag      = "flag"      // a protocol-defined flag on the result itself
)

// Rule is one way to recognise a failed call.
type Rule struct {
	Name, Class, Doc string
}

// Rules are all the rules, roughly in the order in which they are tried.
var Rules = []Rule{
	{"result_flag", Flag, "an object with isError, is_error or an error-text type, as MCP, Anthropic and the AI SDK write it"},
	{"exit_code", ExitCode, "an exit code other than 0 where a harness puts it: first or last, or in a process's object"},
	{"time_limit", ExitCode, "a harness says that the command ran into its limit"},
	{"rpc_error", Exception, "a JSON-RPC error, or GraphQL errors without data"},
	{"error_object", Exception, "an object that consists only of an error"},
	{"status_object", Status, "an object with ok or success false, or with an error status, and a reason"},
	{"error_page", Message, "a short page or XML document that is an HTTP error, a SOAP fault or a storage service's error"},
	{"framework_text", Exception, "the words that an agent framework puts around an error"},
	{"traceback", Exception, "an exception with its stack at the end of the result, or as the whole of it"},
	{"error_prefix", Message, "a result that begins with Error: followed only by an explanation"},
	{"program_message", Message, "the final message of a program or compiler, in the form program: file: problem"},
	{"http_status", Message, "a short result that gives an HTTP status of 400 or more"},
	{"refusal", Message, "a one- or two-sentence refusal: cannot, already taken, not found, must be"},
	{"wording", Message, "a one- or two-sentence result whose words, weighed together, read as a refusal"},
}

// Named returns the rule with the given name.
func Named(name string) (Rule, bool) {
	return lists.Find(Rules, func(r Rule) bool { return r.Name == name })
}

// Call describes the call that a result answers.
type Call struct {
	Arguments json.Raw // an object, or nil
	weights   weights  // weights for text that no rule matches; nil means the trained weights
}

// Verdict is the verdict on a call, based on its result. The zero value means that no rule matched.
type Verdict struct {
	Rule   string // name of the rule; empty if none matches
	Failed bool   // whether the call failed; if false although a rule matched, the result is a near miss
	Why    string // evidence that contradicts the rule of a near miss
	Quote  string // the line that the rule matched
	// Supported reports whether the agent's next turn can make this near miss count as a failure.
	Supported bool
	by        string // "form" if only a program writes that way, so neither weights nor the surroundings overrule the rule
}

func failed(rule, quote string) Verdict {
	return Verdict{Rule: rule, Failed: true, Quote: shortFirstLine(quote)}
}

func nearMiss(rule, quote, why string) Verdict {
	return Verdict{Rule: rule, Quote: shortFirstLine(quote), Why: why}
}

// shortFirstLine returns the first line of s, shortened.
func shortFirstLine(s string) string {
	const maxLen = 120
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if len(s) > maxLen {
		s = strings.ToValidUTF8(s[:maxLen], "") + "..."
	}
	return s
}

// maxJSON is the size of the largest result that is parsed as JSON.
const maxJSON = 4 << 20

// Read judges a call by the text of its result.
func Read(text string, c Call) Verdict {
	return c.read(text, 0)
}

const maxDepth = 4

func (c Call) read(text string, depth int) Verdict {
	text = strings.TrimSpace(text)
	if text == "" || depth > maxDepth {
		return Verdict{}
	}
	if v := value(text); v != nil {
		return c.value(v, depth)
	}
	if text[0] == '{' { // the frame that a process or framework puts around plain text can't begin with a brace
		if v := literal(text); v != nil {
			return c.value(v, depth)
		}
	}
	if f := c.logged(text, depth); f.Failed {
		return f
	}
	text = stripEscapes(text)
	if v := members(text); v != nil {
		return c.value(v, depth)
	}
	if f, framed := c.frame(text, depth); framed {
		return f
	}
	return c.words(text)
}

// logged reads a result whose first line is an object, followed by a program's log.
func (c Call) logged(text string, depth int) Verdict {
	first, rest, more := strings.Cut(text, "\n")
	if !more || text[0] != '{' {
		return Verdict{}
	}
	v := value(first)
	if v.Kind() != json.Object ||
		!looksLikeLog(firstLines(rest, 1)) && !matches(firstLines(rest, 1)[0], "level") {
		return Verdict{}
	}
	return c.value(v, depth+1)
}

func (c Call) value(v json.Raw, depth int) Verdict {
	switch v.Kind() {
	case json.Object:
		return c.object(v, depth)
	case json.Array:
		return c.array(v, depth)
	case json.String:
		s, _ := v.Text()
		return c.read(s, depth+1)
	}
	return Verdict{}
}

// value parses text as a JSON object, array or string.
func value(text string) json.Raw {
	if len(text) > maxJSON || !strings.ContainsRune(`{["`, rune(text[0])) {
		return nil
	}
	v, _ := json.Parse([]byte(text), json.Limits{})
	return v
}

// literal converts text written like a Python dict to JSON.
func literal(text string) json.Raw {
	const maxLen = 256 << 10
	if len(text) > maxLen || !strings.ContainsRune(text[:min(len(text), 200)], '\'') {
		return nil
	}
	var b strings.Builder
	for text != "" {
		n := strings.IndexAny(text, `'"`)
		if n < 0 {
			n = len(text)
		}
		_, _ = constants.WriteString(&b, text[:n]) // writing to a strings.Builder never fails
		if text = text[n:]; text == "" {
			break
		}
		end, s := quoted(text)
		if end < 0 {
			return nil
		}
		b.Write(json.AppendString(nil, s))
		text = text[end:]
	}
	v, _ := json.Parse([]byte(b.String()), json.Limits{})
	if v.Kind() != json.Object {
		return nil
	}
	return v
}

// constants translates Python's constants to JSON.
var constants = strings.NewReplacer("None", "null", "True", "true", "False", "false")

// quoted reads the Python string literal that a text begins with. It decodes only the simple escapes, because only the
// words matter.
func quoted(text string) (end int, s string) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case text[0]:
			return i + 1, strings.ToValidUTF8(b.String(), "")
		case '\\':
			if i++; i == len(text) {
				return -1, ""
			}
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		case '\n':
			return -1, ""
		default:
			b.WriteByte(text[i])
		}
	}
	return -1, ""
}

// members parses a few lines of the form "key: value", or a single line of the form "Name(key=value, key=value)", as an
// object.
func members(text string) json.Raw {
	const maxLen, maxPairs = 8, 20
	at := strings.IndexAny(text, ":=")
	if at < 0 || len(text) > 1000 || strings.Count(text, "\n") >= maxLen {
		return nil
	}
	first := fold(strings.TrimSpace(text[strings.LastIndexByte(text[:at], '(')+1 : at]))
	if !envelope[first] && first != "iserror" {
		return nil
	}
	pairs := pattern("assigned").FindAllStringSubmatchIndex(text, maxPairs)
	if len(pairs) < 2 || pairs[0][0] > 0 {
		pairs = pattern("labels").FindAllStringSubmatchIndex(text, maxPairs)
		if len(pairs) < max(2, strings.Count(text, "\n")+1) || errorKey[first] || first == "message" {
			return nil // text that begins with "error:" or "message:" is not read as an object
		}
	}
	b, sep := []byte(nil), "{"
	for i, p := range pairs {
		k, end := strings.ToLower(text[p[2]:p[3]]), len(text)
		if i+1 < len(pairs) {
			end = pairs[i+1][0]
		}
		b, sep = append(json.AppendString(append(b, sep...), k), ':'), ","
		switch v := strings.Trim(text[p[1]:end], " \n,;)]\"'"); {
		case v == "True" || v == "False" || v == "true" || v == "false" || v == "null":
			b = append(b, strings.ToLower(v)...)
		case digits(v) && v != "":
			b = append(b, strings.TrimLeft(v[:len(v)-1], "0")+v[len(v)-1:]...)
		default:
			b = json.AppendString(b, v)
		}
	}
	v, _ := json.Parse(append(b, '}'), json.Limits{})
	return v
}

// stripEscapes removes terminal escape sequences from text, and carriage returns before newlines.
func stripEscapes(text string) string {
	if strings.IndexByte(text, 0x1b) < 0 && strings.IndexByte(text, '\r') < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
		case text[i] == 0x1b && i+1 < len(text) && text[i+1] == '[':
			for i += 2; i < len(text) && (text[i] < 0x40 || text[i] > 0x7e); i++ {
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return strings.TrimSpace(b.String())
}
