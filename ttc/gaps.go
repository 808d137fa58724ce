package ttc

// Gaps is a set of things that a trace doesn't say, or shows differently from how the model saw them: the reasons for a
// low Fidelity.
type Gaps uint8

// The gaps. There can be no more than six: the record log keeps them in one byte with the fidelity.
const (
	NoTools         Gaps = 1 << iota // the definitions of the tools
	NoSystem                         // the system prompt
	HiddenReasoning                  // the text of the reasoning
	ParsedArguments                  // the arguments of calls as spelled by the model
	AlteredResults                   // tool results as the model saw them
	RebuiltHistory                   // the messages of the request: they were reconstructed from what was logged
	allGaps         Gaps = 1<<iota - 1
)

// gapNames are the names of the gaps in files, in the order of their bits, and what a better capture would record.
var gapNames = [...]struct{ name, cure string }{
	{"no_tools", "the definitions of tools"},
	{"no_system_prompt", "the system prompt"},
	{"hidden_reasoning", "the text of the reasoning"},
	{"parsed_arguments", "arguments as the model wrote them"},
	{"altered_results", "results of tools as the model saw them"},
	{"rebuilt_history", "the requests themselves"},
}

// Names lists the gaps, in a fixed order.
func (g Gaps) Names() []string {
	var out []string
	for i, n := range gapNames {
		if g&(1<<i) != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// Lowering returns the gaps that make a trace partial. Arguments with a different spelling are still the same call.
func (g Gaps) Lowering() Gaps { return g &^ ParsedArguments & allGaps }

// Cure says, for people, what a capture without the gap would record. It is empty for an unknown name.
func Cure(gap string) string {
	for _, n := range gapNames {
		if n.name == gap {
			return n.cure
		}
	}
	return ""
}
