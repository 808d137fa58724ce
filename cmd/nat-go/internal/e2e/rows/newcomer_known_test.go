package rows

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/text/encoding/unicode"
)

// asJSON writes a file that is a single value.
func asJSON(v any) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, path, b)
	}
}

// turns is a conversation with alternating user and assistant texts.
func turns(texts ...string) (all []object) {
	for i, text := range texts {
		all = append(all, message([]string{"user", "assistant"}[i%2], text))
	}
	return all
}

// transcribed is a conversation in the form that HH-RLHF uses.
func transcribed(texts ...string) string {
	var b strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&b, "\n\n%s: %s", []string{"Human", "Assistant"}[i%2], text)
	}
	return b.String()
}

// inUTF16 writes a file as Windows programs do: in UTF-16, with a byte order mark and Windows line endings.
func inUTF16(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		text := strings.ReplaceAll(text, "\n", "\r\n")
		b, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, path, []byte(b))
	}
}

// publicSets are files in the format of well-known public data sets.
func publicSets() []arrival {
	return []arrival{
		{"hh-rlhf.jsonl.gz", asZipped(lines(40, func(i int) object {
			return object{
				"chosen":   transcribed(question(i), "Which way?", "The short one.", answer(i)),
				"rejected": transcribed(question(i), "Which way?", "The short one.", "No idea."),
			}
		})), 40, "trl"},
		{"ultrafeedback.jsonl", asLines(lines(20, func(i int) object {
			rated := func(name string, score float64) object {
				text := answer(i) + name
				return object{
					"response":           text,
					"model":              name,
					"overall_score":      score,
					"fine-grained_score": 3,
					"critique":           "Well.",
				}
			}
			answers := []object{rated("a", 4), rated("b", 7.5)}
			return object{
				"source":      "web",
				"instruction": question(i),
				"models":      []string{"a", "b"},
				"completions": answers,
			}
		})), 20, "trl"},
		{"nectar.jsonl", asLines(lines(20, func(i int) object {
			ranked := []object{
				{"answer": answer(i), "model": "a", "rank": 1.0},
				{"answer": "No.", "model": "b", "rank": 2.0},
			}
			return object{"prompt": transcribed(question(i), ""), "answers": ranked, "turns": 1}
		})), 20, "trl"},
		{"helpsteer.jsonl", asLines(lines(60, func(i int) object {
			text := fmt.Sprint(answer(i/2), i%2)
			return object{
				"prompt": question(i / 2), "response": text, "helpfulness": i%2 + 2, "correctness": 3, "verbosity": 1,
			}
		})), 30, "trl"},
		{"argilla.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"conversation": []object{{"input": question(i), "output": answer(i)}}, "prompt": question(i),
				"chosen": turns(question(i), answer(i)), "chosen-rating": 5, "chosen-model": "a",
				"rejected": turns(question(i), "No idea."), "rejected-rating": 2.5, "rejected-model": "b",
			}
		})), 40, "trl"},
		{"openai-preferences.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"input":            object{"messages": turns(question(i)), "tools": []object{}},
				"preferred_output": turns(question(i), answer(i))[1:], "non_preferred_output": turns("", "No.")[1:],
			}
		})), 40, "trl"},
		{"tulu.parquet", func(t *testing.T, path string) {
			t.Helper()
			type turn struct {
				Role    string `parquet:"role"`
				Content string `parquet:"content"`
			}
			type row struct {
				ID       string            `parquet:"id"`
				Messages []turn            `parquet:"messages,list"`
				Source   map[string]string `parquet:"source"`
			}
			var all []row
			for i := range 40 {
				spoken := []turn{{"user", question(i)}, {"assistant", answer(i)}}
				all = append(all, row{fmt.Sprint(i), spoken, map[string]string{"lang": "en"}})
			}
			if err := parquet.WriteFile(path, all); err != nil {
				t.Fatal(err)
			}
		}, 40, "trl"},
	}
}

func asZipped(all []object) func(*testing.T, string) {
	return func(t *testing.T, path string) { t.Helper(); putFile(t, path, zipped(t, jsonLines(t, all))) }
}

// oddShapes are files in the shapes in which programs and people leave them.
func oddShapes() []arrival {
	call := object{"type": "tool_use", "id": "c", "name": "distance", "input": object{"from": 1}}
	result := object{"type": "tool_result", "tool_use_id": "c", "content": "7 miles"}
	return []arrival{
		{"alpaca-with-text.json", asJSON(lines(40, func(i int) object {
			return object{
				"instruction": question(i),
				"input":       "",
				"output":      answer(i),
				"text":        "Below is " + question(i),
			}
		})), 40, "trl"},
		{"dolly.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"instruction": question(i),
				"context":     "By road.",
				"response":    answer(i),
				"category":    "closed_qa",
			}
		})), 40, "trl"},
		{"labelled.jsonl", asLines(lines(40, func(i int) object {
			return object{"prompt": turns(question(i)), "completion": turns("", answer(i))[1:], "label": i < 20}
		})), 20, "trl"},
		{"partly-scored.jsonl", asLines(lines(40, func(i int) object {
			talk := object{"messages": turns(question(i), answer(i))}
			if i < 30 {
				talk["reward"] = 0.5
			}
			return talk
		})), 30, "trl"},
		{"grouped.jsonl", asLines(lines(20, func(i int) object {
			both := []object{{"text": answer(i), "score": 1}, {"text": "No.", "score": 0}}
			return object{"prompt": question(i), "responses": both}
		})), 20, "trl"},
		{
			"wrapped.json",
			asJSON(object{"version": "1.0", "about": object{"data": []int{1}}, "data": lines(40, func(i int) object {
				return object{"question": question(i), "answer": answer(i)}
			})}),
			40,
			"trl",
		},
		{"lists.json", func(t *testing.T, path string) {
			t.Helper()
			var all [][]object
			for i := range 40 {
				all = append(all, turns(question(i), answer(i)))
			}
			asJSON(all)(t, path)
		}, 40, "trl"},
		{"blocks.jsonl", asLines(lines(40, func(i int) object {
			return object{"system": "Be brief.", "messages": []object{
				message("user", question(i)),
				{"role": "assistant", "content": []object{{"type": "text", "text": "I'll see."}, call}},
				{"role": "user", "content": []object{result}},
				message("assistant", answer(i)),
			}}
		})), 40, "messages"},
		{"contents.jsonl", asLines(lines(40, func(i int) object {
			said := func(role, text string) object { return object{"role": role, "parts": []object{{"text": text}}} }
			return object{"contents": []object{said("user", question(i)), said("model", answer(i))}}
		})), 40, "trl"},
		{"capitals.jsonl", asLines(lines(40, func(i int) object {
			said := func(from, text string) object { return object{"from": from, "value": text} }
			return object{"items": []object{said("USER", question(i)), said("Claude", answer(i))}}
		})), 40, "trl"},
		{
			"windows.csv",
			inUTF16("Question;Answer\n" + strings.Repeat("\"How far; and why?\";\"\"\"Far\"\"\"\n", 1)),
			1,
			"trl",
		},
		{"windows.jsonl", inUTF16(`{"query": "How far?", "reply": "Seven miles – or so."}` + "\n"), 1, "trl"},
		{"pretrained.jsonl", asLines(lines(40, func(i int) object {
			return object{"text": fmt.Sprintf("### Human: %s### Assistant: %s", question(i), answer(i))}
		})), 40, "trl"},
		{filepath.Join("hub", ""), func(t *testing.T, path string) {
			t.Helper()
			asJSON(object{"default": object{"rows": []int{1}}})(t, filepath.Join(path, "dataset_infos.json"))
			asLines(lines(20, func(i int) object {
				return object{"prompt": question(i), "response": answer(i)}
			}))(t, filepath.Join(path, "data", "train-00000-of-00001.jsonl"))
		}, 20, "trl"},
	}
}
