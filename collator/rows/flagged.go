package rows

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// axolotl is a conversation in the format of Axolotl's chat_template data sets (0.19,
// prompt_strategies/chat_template.py), with a train member in each assistant message. Axolotl reads the member named by
// message_field_training; without that setting, it trains on every turn. It passes other members to the template if
// message_property_mappings names them, or if jinja_template_analyzer.py finds them in the template, which works only
// if the template's loop variable is called message. Arguments and tools are strings, which Axolotl parses. If they
// were objects, loaders would merge their keys, and tokenize_prompt would remove every null.
//
// If a turn's reasoning is context, the train_detail member gives the character range of the turn's text, because
// find_turn then looks only for the text. Axolotl's message_field_training_detail must name this member.
var axolotl = Format{
	Name:     "axolotl",
	Consumer: "Axolotl (type: chat_template, message_field_training: train, message_field_training_detail: train_detail, message_property_mappings)",
	Shape:    `{"messages": [messages; the assistant's with "train": true or false], "tools"?: JSON text}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files:    splitFiles,
	holds:    "demonstrations",
	encode:   (*Encoder).axolotlRow,
	read:     (*rowReader).axolotl,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.withToolsText(parquet.Group{"messages": parquet.List(c.value())})
	},

	TakesNull:     true, // tokenize_prompt removes nulls
	textArguments: true,
	cannotMask:    axolotlCannotMask,
}

// openAISFT is the chat format of OpenAI's supervised fine-tuning, and of Azure's, where an assistant message with
// weight 0 isn't trained on (https://platform.openai.com/docs/guides/supervised-fine-tuning). Messages without a weight
// are trained on.
var openAISFT = Format{
	Name:     "openai_sft",
	Service:  true,
	Consumer: "OpenAI and Azure fine-tuning (method supervised)",
	Shape:    `{"messages": [messages; the assistant's with "weight": 0 if not trained], "tools"?: [definitions]}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files:    splitFiles,
	holds:    "demonstrations",
	encode:   (*Encoder).openAISFTRow,
	read:     func(r *rowReader) *Row { return r.flagged("weight", openAIMessage, r.tools) },
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.withTools(parquet.Group{"messages": parquet.List(c.value())})
	},

	textArguments: true,
}

func splitFiles(_ builders.Kind, s Split) string { return s.String() + ".jsonl" }

func (e *Encoder) axolotlRow(dst []byte, r *builders.Resolved) []byte {
	nodes, trained := e.demonstrated(r)
	member := func(dst []byte, m *chat.Message, trained bool) []byte {
		dst = strconv.AppendBool(append(dst, `, "train": `...), trained)
		if trained && e.masked && m.Thinks() {
			dst = strconv.AppendInt(append(dst, `, "train_detail": [{"begin_offset": 0, "end_offset": `...), lastRune(m), 10)
			dst = append(dst, `, "train": true}]`...)
		}
		return dst
	}
	dst = e.flagged(append(dst, `{"messages": `...), nodes, trained, member)
	return append(e.appendToolsText(dst, r.Origin.Tools), '}')
}

func lastRune(m *chat.Message) int64 { return int64(utf8.RuneCountInString(m.Text)) - 1 }

// axolotlCannotMask explains why Axolotl (0.19, _tokenize_single_prompt) would mask more or less than a turn's
// reasoning. Axolotl encodes only the turn's text and overlays those tokens on the conversation's, starting where the
// text begins.
func axolotlCannotMask(m *chat.Message) string {
	switch {
	case len(m.ToolCalls) > 0:
		return "Axolotl would mask the turn's calls, too"
	case m.Thought() > 0:
		return "the reasoning is part of the turn's text, which templates rewrite"
	case strings.TrimSpace(m.Text) != m.Text:
		return "the turn's text begins or ends in white space, which templates remove"
	}
	return ""
}

func (r *rowReader) axolotl() *Row {
	masked := false
	row := r.flagged("train", func(m *chat.Message) (wrong string) {
		m.Extra = slices.DeleteFunc(m.Extra, func(x chat.Member) bool {
			if x.Key != "train_detail" || x.Value.Kind() == json.Null {
				return x.Key == "train_detail" // loaders fill in null for a missing key
			}
			masked = true
			for part := range x.Value.Elements() {
				from, _ := part.Get("begin_offset")
				to, _ := part.Get("end_offset")
				begin, _ := from.Int64()
				if end, ok := to.Int64(); !ok || begin != 0 || end != lastRune(m) {
					wrong = "has a train_detail that does not cover the whole content"
				}
			}
			return true
		})
		return cmp.Or(wrong, axolotlMessage(m))
	}, r.toolsText)
	row.MaskReasoning = masked
	return row
}

func (e *Encoder) openAISFTRow(dst []byte, r *builders.Resolved) []byte {
	nodes, trained := e.demonstrated(r)
	e.hasRole(nodes, "system", "user", "assistant", "tool")
	dst = e.flagged(append(dst, `{"messages": `...), nodes, trained, func(dst []byte, _ *chat.Message, trained bool) []byte {
		if trained {
			return dst
		}
		return append(dst, `, "weight": 0`...)
	})
	return append(e.appendTools(dst, r.Origin.Tools), '}')
}

// flagged reads a conversation whose assistant messages have a key that says whether they are trained on; assistant
// messages without the key are trained on.
func (r *rowReader) flagged(key string, check func(*chat.Message) string, tools func()) *Row {
	var trained []bool
	row := r.conversation(flagReader(key, &trained, check))
	row.Trained = trained
	if n := len(trained); n > 0 && !trained[n-1] {
		r.fail("messages", "ends in a message that isn't trained")
	}
	tools()
	return row
}

// flagReader returns a check for messages. The check also reads the member that says whether the message is trained on,
// and appends that value to trained.
func flagReader(key string, trained *[]bool, check func(*chat.Message) string) func(*chat.Message) string {
	return func(m *chat.Message) string {
		ours := m.Role == "assistant" || m.Role == swiftCall
		flag, rest, wrong := true, m.Extra[:0], ""
		for _, x := range m.Extra {
			switch n, isNumber := x.Value.Int64(); {
			case x.Key != key:
				rest = append(rest, x)
			case x.Value.Kind() == json.Null: // loaders fill in null for a missing key
			case !ours:
				wrong = "is not the assistant's and has the key " + key
			case x.Value.Kind() == json.Bool:
				flag, _ = x.Value.Bool()
			case isNumber && (n == 0 || n == 1):
				flag = n == 1
			default:
				wrong = "has an unknown value of " + key
			}
		}
		m.Extra = rest
		*trained = append(*trained, flag && ours)
		return cmp.Or(wrong, check(m))
	}
}

// axolotlMessage is like fullMessage, but a call's arguments may also be a string with an object, which Axolotl parses.
func axolotlMessage(m *chat.Message) string {
	plain := *m
	plain.ToolCalls = nil
	for i := range m.ToolCalls {
		if m.ToolCalls[i].Parsed.Kind() != json.Object {
			return "has a tool call whose arguments are neither an object nor a string containing one"
		}
	}
	return fullMessage(&plain)
}
