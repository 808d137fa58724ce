package ttc

// Gaps is a set of parts of the model's actual input and output that a trace omits or records differently. Gaps lower
// a trace's Fidelity.
type Gaps uint8

// The gaps.
const (
	NoTools         Gaps = 1 << iota // the tool definitions
	NoSystem                         // the system prompt
	HiddenReasoning                  // the reasoning text
	ParsedArguments                  // the call arguments as written by the model
	AlteredResults                   // tool results as the model saw them
	RebuiltHistory                   // the request's messages, which were reconstructed from the log
	PromptDiffers                    // the full prompt, whose recorded token count doesn't match the messages
	IDsDiffer                        // agreement between a response's ids and its recorded text
	allGaps         Gaps = 1<<iota - 1
)

// gapNames holds, in bit order, each gap's name in files and the content that a complete capture would have.
var gapNames = [...]struct{ name, cure string }{
	{"no_tools", "the tool definitions"},
	{"no_system_prompt", "the system prompt"},
	{"hidden_reasoning", "the reasoning text"},
	{"parsed_arguments", "arguments as the model wrote them"},
	{"altered_results", "tool results as the model saw them"},
	{"rebuilt_history", "the requests themselves"},
	{"prompt_tokens_differ", "the complete prompt"},
	{"ids_differ", "ids and text from the same answer"},
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

// Lowering returns the gaps that make a trace partial. ParsedArguments isn't one of them: differently written
// arguments still make the same call.
func (g Gaps) Lowering() Gaps { return g &^ ParsedArguments & allGaps }

// Proofs is a set of properties of a trace that were verified with the model's own tokenizer and template.
type Proofs uint8

// The proofs.
const (
	PromptProven Proofs = 1 << iota // the messages have as many tokens as were recorded for the prompt
	IDsProven                       // the recorded ids decode to the recorded text
)

// Names lists the proofs, in a fixed order.
func (p Proofs) Names() []string {
	var out []string
	for i, name := range [...]string{"prompt_tokens", "ids"} {
		if p&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Cure returns the content that a capture without the gap would have, or "" for an unknown name.
func Cure(gap string) string {
	for _, n := range gapNames {
		if n.name == gap {
			return n.cure
		}
	}
	return ""
}
