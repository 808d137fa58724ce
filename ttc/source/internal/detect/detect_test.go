package detect_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/traces"
)

// TestRecognize checks what an input is recognised as by its first lines, and the message when it isn't.
func TestRecognize(t *testing.T) {
	for name, c := range map[string]struct {
		text, only string
		given      map[string]string
		want       string // the source and its settings, or part of the error
	}{
		"plain candidates": {text: `{"id": 1, "prompt": "p", "output": "o", "score": 1}`, want: "candidates"},
		"other names": {
			text: `{"question": "p", "response": "o", "rating": 1}`,
			want: "candidates output_key=response prompt_key=question score_key=rating",
		},
		"a loss": {
			text: `{"prompt": "p", "output": "o", "loss": 1}`,
			want: "candidates score_key=loss lower",
		},
		"ids of lines": {
			text: `{"id": 1, "prompt": "p", "output": "o", "score": 1} {"id": 2, "prompt": "p", "output": "q", "score": 2}`,
			want: "candidates id_key=",
		},
		"scores as texts": {text: `{"prompt": "p", "output": "o", "score": "0.5"}`, want: "candidates"},
		"messages":        {text: `{"messages": [{"role": "user", "content": "q"}]}`, want: "traces"},
		"JSON in a text":  {text: `{"messages": "[{\"role\": \"user\", \"content\": \"q\"}]"}`, want: "traces"},
		"ShareGPT": {
			text: `{"conversations": [{"from": "human", "value": "q"}]}`,
			want: "traces messages_key=conversations",
		},
		"an instruction": {
			text: `{"instruction": "i", "input": "x", "output": "o"}`,
			want: "traces context_key=input prompt_key=instruction response_key=output",
		},
		"pairs": {text: `{"prompt": "p", "chosen": "a", "rejected": "b"}`, want: "traces"},
		"pairs of instructions": {
			text: `{"instruction": "i", "input": "x", "chosen": "a", "rejected": "b", "system_prompt": "s"}`,
			want: "traces context_key=input prompt_key=instruction system_key=system_prompt",
		},
		"a system message beside a question": {
			text: `{"system_prompt": "s", "question": "q", "response": "a"}`,
			want: "traces prompt_key=question system_key=system_prompt",
		},
		"a system message beside scored answers": {
			text: `{"system": "s", "prompt": "p", "output": "o", "score": 1}`,
			want: "candidates system_key=system",
		},
		"messages answered": {
			text: `{"messages": [{"role": "user", "content": "q"}], "response": "o", "reward": 1}`,
			want: "candidates output_key=response prompt_key=messages score_key=reward",
		},
		"NAT": {text: `[{"id": 1, "intermediate_steps": [], "messages": []}]`, want: "workflow_output"},
		"CSV": {
			text: "question,answer\nwhat,that\n",
			want: "traces prompt_key=question response_key=answer",
		},

		"transcripts": {
			text: `{"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b"}`,
			want: "traces transcripts=split",
		},
		"one transcript among texts": {
			text: `{"prompt": "Human: q\n\nAssistant: a", "response": "b"} {"prompt": "q", "response": "b"}`,
			want: "traces",
		},
		"a transcript in a text": {
			text: `{"text": "### Human: q### Assistant: a"}`,
			want: "traces messages_key=text transcripts=split",
		},
		"answers with scores": {
			text: `{"instruction": "p", "completions": [{"response": "a", "overall_score": 1}]}`,
			want: "candidates answer_key=response output_key=completions prompt_key=instruction score_key=overall_score",
		},
		"ranked answers": {
			text: `{"prompt": "p", "turns": 1, "answers": [{"answer": "a", "rank": 1}]}`,
			want: "candidates answer_key=answer output_key=answers score_key=rank lower",
		},
		"a labelled message": {
			text: `{"prompt": "p", "completion": [{"role": "assistant", "content": "a"}], "label": true}`,
			want: "candidates output_key=completion score_key=label",
		},
		"rated pairs": {
			text: `{"conversation": [{"input": "q"}], "prompt": "p", "chosen": "a", "rejected": "b",
				"chosen-rating": 2, "rejected-rating": 1}`,
			want: "traces chosen_score_key=chosen-rating rejected_score_key=rejected-rating",
		},
		"a rendered text beside": {
			text: `{"instruction": "i", "input": "", "output": "o", "text": "i o"}`,
			want: "traces context_key=input prompt_key=instruction response_key=output",
		},
		"a passage": {
			text: `{"question": "q", "context": "c", "answer": "a"}`,
			want: "traces context_key=context prompt_key=question response_key=answer",
		},
		"a context beside a prompt": {
			text: `{"prompt": "q", "context": "c", "response": "a"}`,
			want: "traces",
		},
		"messages of trees": {
			text: `{"message_id": "1", "parent_id": null, "role": "prompter", "text": "q", "rank": null}`,
			want: "candidates shape=oasst",
		},
		"votes": {
			text: `{"history": "q", "human_ref_A": "a", "human_ref_B": "b", "labels": 1, "score_A": 2, "score_B": 1}`,
			want: "candidates shape=shp",
		},
		"preferences": {
			text: `{"context": [{"role": "user", "content": "q"}], "response1": "a", "response2": "b",
				"overall_preference": 1}`,
			want: "candidates shape=helpsteer3",
		},
		"battles": {
			text: `{"prompt": "q", "response_a": "a", "response_b": "b", "winner": "tie"}`,
			want: "candidates shape=arena",
		},
		"battles with the keys given": {
			text:  `{"prompt": "q", "response_a": "a", "response_b": "b", "winner": 1}`,
			given: map[string]string{"output_key": "response_a", "score_key": "winner"},
			want:  "candidates output_key=response_a score_key=winner",
		},
		"exchanges": {text: `{"conversation": [{"input": "q", "output": "a"}]}`, want: "traces shape=capybara"},
		"passages": {
			text: `{"question": "q", "context": "c", "answers": {"text": ["a"], "answer_start": [0]}}`,
			want: "traces shape=squad",
		},
		"queries and calls": {
			text: `{"query": "q", "tools": "[]", "answers": "[{\"name\": \"f\", \"arguments\": {}}]"}`,
			want: "traces shape=xlam",
		},
		"lists": {text: `[[{"role": "user", "content": "q"}]]`, want: "traces"},
		"an object around a list": {
			text: `{"version": 1, "rows": [{"prompt": "p", "response": "a"}], "more": []}`,
			want: "traces entries_key=rows",
		},
		"the answer is named": {
			text:  `{"Frage": "p", "Antwort": "o"}`,
			given: map[string]string{"prompt_key": "Frage", "output_key": "Antwort"},
			want:  "traces prompt_key=Frage response_key=Antwort",
		},
		"the score is named": {
			text:  `{"Frage": "p", "Antwort": "o", "Note": 1}`,
			given: map[string]string{"prompt_key": "Frage", "output_key": "Antwort", "score_key": "Note"},
			want:  "candidates output_key=Antwort prompt_key=Frage score_key=Note",
		},
		"other languages": {
			text: `{"row id": 1, "Frage": "Was ist das?", "Art": "x", "die Antwort": "Es ist nichts.", "Note": 1}`,
			want: "as in --map prompt=Frage --map output='die Antwort' --map score=Note",
		},
		"columns": {text: `{"prompt": ["p", "q"], "output": ["a", "b"]}`, want: "a table stored by column"},
		"numbered cells": {
			text: `{"prompt": {"0": "p", "1": "q"}, "output": {"0": "a", "1": "b"}}`,
			want: `df.to_json("rows.jsonl", orient="records", lines=True)`,
		},
		"columns and rows": {
			text: `{"columns": ["prompt", "output"], "index": [0], "data": [["p", "a"]]}`,
			want: "a table stored by column",
		},
		"a message a line": {
			text: `{"id": 1, "role": "user", "content": "q"} {"id": 1, "role": "assistant", "content": "a"}`,
			want: "put the messages of each conversation into a list under messages",
		},
		"an answer beside the expected one": {
			text: `{"input": "p", "actual_output": "a", "expected_output": "e", "score": 1}`,
			want: "candidates output_key=actual_output prompt_key=input",
		},
		"the score of another answer": {
			text: `{"q": {"input": "p"}, "ref": {"expected": "e"}, "said": "a", "score": 1}`,
			want: "can't tell what",
		},
		"a role is no answer": {
			text: `{"input": {"a": 1}, "output": {"role": "assistant", "stopReason": "end_turn"}}`,
			want: "as in --map prompt=KEY --map output=KEY, or",
		},
		"no keys":    {text: "{} {}", want: "its entries are objects without keys"},
		"texts only": {text: `{"text": "Once upon a time"}`, want: "Plain text, as for pretraining"},

		"two answers": {
			text: `{"prompt": "p", "response": "o", "completion": "o", "score": 1}`,
			want: `the answer may be "response" or "completion": say which with --map output=response`,
		},
		"one is named": {
			text:  `{"prompt": "p", "response": "o", "completion": "o", "score": 1}`,
			given: map[string]string{"output_key": "completion"},
			want:  "candidates output_key=completion",
		},
		"a wrong name": {
			text:  `{"prompt": "p", "response": "o", "score": 1}`,
			given: map[string]string{"output_key": "reply"},
			want:  `no entry has the key "reply"`,
		},
		"a wrong path": {
			text:  `{"prompt": "p", "response": "o", "metadata": {"judge": {"score": 1}}}`,
			given: map[string]string{"score_key": "metadata.judge.scor"},
			want:  "the keys are: metadata.judge, metadata.judge.score",
		},
		"prompts only": {text: `{"prompt": "p"}`, want: "its keys are: prompt. There are prompts, but no answers"},
		"not asked": {
			text: `{"messages": [{"role": "user", "content": "q"}]}`,
			only: "candidates",
			want: "doesn't look like what the source candidates reads",
		},
		"names as in a spreadsheet": {
			text: `{"Question": "q", "Model Answer": "a", "Rating (1-5)": "4"}`,
			want: "candidates output_key=Model Answer prompt_key=Question score_key=Rating (1-5)",
		},
		"within objects": {
			text: `{"id": 1, "inputs": {"question": "q"}, "outputs": {"answer": "a"}, "feedback_stats": {"n": 1}}`,
			want: "traces prompt_key=inputs.question response_key=outputs.answer",
		},
		"messages within objects": {
			text: `{"inputs": {"messages": [{"role": "user", "content": "q"}, {"role": "user", "content": "r"}]}, ` +
				`"outputs": {"messages": [{"role": "assistant", "content": "a"}]}}`,
			want: "traces prompt_key=inputs.messages response_key=outputs.messages",
		},
		"an input that is an object": {
			text: `{"input": {"question": "q"}, "expectedOutput": {"answer": "a"}}`,
			want: "traces prompt_key=input.question response_key=expectedOutput.answer",
		},
		"a score within objects": {
			text: `{"inputs": {"prompt": "q"}, "output": "a", "scores": {"judge": {"score": 0.5}}}`,
			want: "candidates output_key=output prompt_key=inputs.prompt score_key=scores.judge.score",
		},
		"rows of rows": {
			text: `{"rows": [{"row_idx": 0, "row": {"question": "q", "answer": "a"}}, ` +
				`{"row_idx": 1, "row": {"question": "r", "answer": "b"}}]}`,
			want: "traces entries_key=rows prompt_key=row.question response_key=row.answer",
		},
		"two answers within objects": {
			text: `{"doc": {"question": "What is it?", "answer": "It is this."}, "response": "It is that."}`,
			want: `as in --map prompt=doc.question --map output=KEY (output may be "response" or "doc.answer")`,
		},
		"dates and ticket numbers are no scores": {
			text: `{"Ticket No": 4711, "Customer asks": "How do I log in?", "Bot said": "Use the link.", "Stars (1-5)": "4",
				"Reviewed at": "2026-01-03"}`,
			want: "as in --map prompt='Customer asks' --map output='Bot said' --map score='Stars (1-5)', or",
		},
		"the first row is shown": {
			text: `{"Customer asks": "How do I log in?", "Bot said": "Use the link.", "Stars": 4}`,
			want: "\nThe first entry, as read with these keys:\n  prompt  How do I log in?\n  output  Use the link.\n  score   4",
		},
		"nothing is named in doubt": {
			text: `{"timestamp": "2026-01-03T10:00:00Z", "usage": {"input_tokens": 3}, "arguments": {"x": 1}}`,
			want: "as in --map prompt=KEY --map output=KEY, or",
		},
		"rollouts of verl": {
			text: `{"input": "user\nWhat is 0*1?\nassistant\n", "output": "0", "gts": "0", "score": 1.0, "step": 1}`,
			want: "candidates shape=verl",
		},
		"samples of lm-eval": {
			text: `{"doc_id": 0, "doc": {"question": "q"}, "target": "a", "arguments": {"gen_args_0": {"arg_0": "Q: q"}},
				"resps": [["a"]], "filtered_resps": ["a"], "exact_match": 1.0}`,
			want: "candidates shape=lm_eval",
		},
		"a conversation as a file": {
			text: `[{"role": "user", "content": "q"}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]`,
			want: "the file is one conversation, whose messages are its entries: jq -c '{messages: .}'",
		},
		"a choice by label": {
			text: `{"fields": {"prompt": "Where is it?", "response-1": "It is here.", "response-2": "It is there."},
				"responses": [{"values": {"preference": {"value": "response-2"}}}]}`,
			want: "as in --map prompt=fields.prompt --map first=fields.response-1 --map second=fields.response-2 " +
				"--map choice=responses.0.values.preference.value, or",
		},
		"a choice between sides": {
			text: `{"id": 1, "project": 7, "data": {"prompt": "Where is it?", "answer1": "It is here.", "answer2": "It is there."},
				"annotations": [{"id": 3, "result": [{"type": "pairwise", "value": {"selected": "left"}}]}]}`,
			want: "as in --map prompt=data.prompt --map first=data.answer1 --map second=data.answer2 " +
				"--map choice=annotations.0.result.0.value.selected, or",
		},
		"a choice as named": {
			text:  `{"q": "Where?", "a1": "here", "a2": "there", "best": 2}`,
			given: map[string]string{"first_key": "a1", "second_key": "a2", "choice_key": "best", "prompt_key": "q"},
			want:  "traces choice_key=best first_key=a1 prompt_key=q second_key=a2",
		},
		"a choice that names neither": {
			text:  `{"q": "Where?", "a1": "here", "a2": "there", "best": 0}`,
			given: map[string]string{"first_key": "a1", "second_key": "a2", "choice_key": "best", "prompt_key": "q"},
			want:  "best is 0, which names neither a1 nor a2",
		},
		"a choice without sides": {
			text:  `{"q": "Where?", "a1": "here", "best": 0}`,
			given: map[string]string{"choice_key": "best"},
			want:  "add --map first=KEY --map second=KEY",
		},
		"roles and contents as named": {
			text:  `{"history": [{"by": "customer", "words": "q"}, {"by": "agent", "words": "a"}]}`,
			given: map[string]string{"role_key": "by", "content_key": "words", "messages_key": "history"},
			want:  "traces content_key=words messages_key=history role_key=by",
		},
		"scores in words": {
			text: `{"prompt": "p", "output": "o", "score": "high"}`,
			want: `the scores under "score" are words, such as "high": write a number for each`,
		},
		"a score in words, as named": {
			text:  `{"prompt": "p", "output": "o", "how": "high"} {"prompt": "p", "output": "r", "how": "low"}`,
			given: map[string]string{"score_key": "how"},
			want:  `the scores under "how" are words, such as "high" and "low"`,
		},
		"a rating in words beside messages": {
			text: `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rating": "good"}`,
			want: `the scores under "rating" are words`,
		},
		"requests of a batch": {
			text: `{"custom_id": "1", "body": {"messages": [{"role": "user", "content": "q"}]}}`,
			want: "These are the requests of a batch, which have no answers",
		},
		"results of a batch": {
			text: `{"custom_id": "1", "response": {"body": {"choices": [{"message": {"content": "a"}}]}}}`,
			want: "These are the results of a batch, without their prompts",
		},
		"results of the other batch": {
			text: `{"custom_id": "1", "result": {"message": {"content": [{"type": "text", "text": "a"}]}}}`,
			want: "These are the results of a batch, without their prompts",
		},
		"a list in two objects": {
			text: `{"version": 3, "results": {"stats": {}, "results": [{"success": true}, {"success": false}]}}`,
			want: "jq -c '.results.results[]' ",
		},
		"entries by their ids": {
			text: `{"k1": {"question": "q", "answer": "a"}, "k2": {"question": "r", "answer": "b"}}`,
			want: "jq -c '.[]' ",
		},
		"a web page": {text: "<!DOCTYPE html><html><body>Sign in</body></html>", want: "it is a web page"},
		"no data":    {text: "Dear Sir or Madam", want: "neither JSON, nor Parquet, nor CSV"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			all := []source.Factory{nat.Factory(), candidates.Factory(), traces.Factory()}
			found, err := detect.Recognize(context.Background(), all, c.only, path, c.given)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			got := found.Source.Type
			for _, key := range slices.Sorted(maps.Keys(found.Settings)) {
				got += " " + key + "=" + found.Settings[key]
			}
			if found.Lower {
				got += " lower"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestLargeObject: an object too large for an entry is read by its list if that begins early, and otherwise refused.
func TestLargeObject(t *testing.T) {
	row := `{"prompt": "p", "output": "` + strings.Repeat("o", 1<<20) + `", "score": 1},`
	rows := strings.TrimSuffix(strings.Repeat(row, 40), ",")
	for name, c := range map[string]struct{ text, want string }{
		"wrapped":  {`{"n": 40, "data": [` + rows + `]}`, "data"},
		"nested":   {`{"n": {"data": [1]}, "m": [` + rows + `]}`, "larger than the limit"},
		"an entry": {`[{"data": [` + rows + `]}]`, "larger than the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in.json")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := detect.Recognize(context.Background(), []source.Factory{candidates.Factory()}, "", path, nil)
			switch {
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Error(err)
			case err == nil && found.Settings["entries_key"] != c.want:
				t.Errorf("got %v, want %s", found.Settings, c.want)
			}
		})
	}
}

// TestManyKeys: an object with very many keys, such as a tokenizer's words, is refused in a time that grows with it.
func TestManyKeys(t *testing.T) {
	took := func(keys int) time.Duration {
		var words strings.Builder
		for i := range keys {
			fmt.Fprintf(&words, `,"k%d":"two words"`, i)
		}
		var before, after syscall.Rusage
		h := &source.Head{Path: "x", Entries: []json.Raw{json.Raw(`{"model":{"vocab":{` + words.String()[1:] + `}}}`)}}
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		if _, wrong := detect.Choose([]source.Factory{candidates.Factory()}, "", h); wrong == nil || err != nil {
			t.Fatal(wrong, err)
		}
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
			t.Fatal(err)
		}
		return time.Duration(after.Utime.Nano() - before.Utime.Nano())
	}
	few := took(1100)
	if many := took(11_000); many > 40*few {
		t.Errorf("%v for ten times the keys, after %v", many, few)
	}
}

// TestTwoSources: an input that two sources can read is assigned to neither until the user says so; a format's own mark
// wins.
func TestTwoSources(t *testing.T) {
	fits := func(name string, fit source.Fit) source.Factory {
		recognize := func(*source.Head) source.Reading { return source.Reading{Fit: fit} }
		return source.Factory{Type: name, Recognize: recognize}
	}
	all := []source.Factory{fits("one", source.Fits), fits("two", source.Fits)}
	h := &source.Head{Path: "x"}
	if _, err := detect.Choose(all, "", h); err == nil || !strings.Contains(err.Error(), "as one and as two") {
		t.Error(err)
	}
	found, err := detect.Choose(append(all, fits("three", source.Certain)), "", h)
	if err != nil || found.Source.Type != "three" {
		t.Error(found, err)
	}
}
