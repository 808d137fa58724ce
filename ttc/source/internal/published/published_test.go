package published

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// TestAnswers: the lines made of the entries of each shape, or why an entry can't be read.
func TestAnswers(t *testing.T) {
	const post = `"post_id": "p", "history": "h", "human_ref_A": "a", "human_ref_B": "b"`
	const context = `"context": [{"role": "user", "content": "q"}], "response1": "a", "response2": "b"`
	const hi = `{"role": "user", "content": "q"}`
	const battle = `"model_a": "m", "conversation_a": [` + hi + `, {"role": "assistant", "content": "a"}],
		"conversation_b": [` + hi + `, {"role": "assistant", "content": [{"type": "text", "text": "b"}]}]`
	const asked = `"id": 7, "prompt": "[\"q\"]", "response_a": "[\"a\"]", "response_b": "[\"b\"]"`
	prompt := `"prompt":[{"role":"user","content":"q"}]`
	for name, c := range map[string]struct {
		shape, text string
		want        []string
	}{
		"votes": {"shp", `{` + post + `, "score_A": 3, "score_B": 1, "labels": 1,
			"c_root_id_A": "x", "domain": "d"}`, []string{
			`{"id":"p","turn_id":"x or ","prompt":"h","output":"a","score":3,"metadata":{"domain":"d"}}`,
			`{"id":"p","turn_id":"x or ","prompt":"h","output":"b","score":1,"metadata":{"domain":"d"}}`,
		}},
		"the number of the better one": {
			"saferlhf", `{"prompt": "q", "response_0": "a", "response_1": "b", "better_response_id": 1}`,
			[]string{`{"prompt":"q","output":"a","score":0}`, `{"prompt":"q","output":"b","score":1}`},
		},
		"a rollout of verl": {
			"verl", `{"input": "system\nBe brief.\nuser\nWhat is 0*1?\nuser\nassistant\n", "output": "0", "gts": "0",
				"score": 1.0, "step": 1}`,
			[]string{`{"id":"95f9b1942f3f85105deb422e","task_id":"95f9b1942f3f85105deb422e","turn_id":"rollout","prompt":` +
				`[{"role":"system","content":"Be brief."},{"role":"user","content":"What is 0*1?"},{"role":"user","content":""}],` +
				`"output":"0","score":1.0,"metadata":{"step":1,"gts":"0"}}`},
		},
		"a rollout without a score": {
			"verl", `{"input": "user\nWhat is 0*1?\nassistant\n", "output": "0", "gts": "0", "score": null}`,
			[]string{"error: score is null or missing"},
		},
		"a sample of lm-eval": {
			"lm_eval", `{"doc_id": 3, "doc": {"question": "q"}, "target": "a", "arguments": {"gen_args_0": {"arg_0": "Q: q"}},
				"resps": [["a", "b"]], "filtered_resps": ["a"], "filter": "none", "metrics": ["em"], "em": 1}`,
			[]string{
				`{"id":"3","prompt":"Q: q","output":"a","score":1,"metadata":{"doc_id":3,"target":"a","filter":"none"}}`,
				"error: em of this answer is null or missing",
			},
		},
		"an older sample of lm-eval": {
			"lm_eval", `{"doc_id": 3, "doc": {}, "arguments": [["Q: q", {"until": []}]], "resps": [["a"]], "exact_match": 0}`,
			[]string{`{"id":"3","prompt":"Q: q","output":"a","score":0,"metadata":{"doc_id":3}}`},
		},
		"a sample of choices": {
			"lm_eval", `{"doc_id": 3, "doc": {}, "arguments": [["Q: q", " a"]], "resps": [[["-1.5", "False"]]], "acc": 0}`,
			[]string{"error: resps has likelihoods instead of answers"},
		},
		"a number of no answer": {
			"saferlhf", `{"prompt": "q", "response_0": "a", "response_1": "b", "better_response_id": 2}`,
			[]string{"error: better_response_id is neither 0 nor 1"},
		},
		"a question that is an object": {
			"webgpt", `{"question": {"full_text": "q", "id": "i"}, "answer_0": "a", "answer_1": "b", "score_0": 0.5,
				"score_1": -0.5}`,
			[]string{
				`{"prompt":"q","output":"a","score":0.5,"metadata":{"id":"i"}}`,
				`{"prompt":"q","output":"b","score":-0.5,"metadata":{"id":"i"}}`,
			},
		},
		"a label alone": {"shp", `{` + post + `, "labels": 0}`, []string{
			`{"id":"p","prompt":"h","output":"a","score":0}`, `{"id":"p","prompt":"h","output":"b","score":1}`,
		}},
		"a label against the votes": {
			"shp", `{` + post + `, "score_A": 3, "score_B": 1, "labels": 0}`,
			[]string{"error: labels is 0, which contradicts"},
		},
		"a label for the first against the votes": {
			"shp", `{` + post + `, "score_A": 1, "score_B": 3, "labels": 1}`,
			[]string{"error: labels is 1, which contradicts"},
		},
		"a label that is neither": {"shp", `{` + post + `, "labels": 2}`, []string{"error: labels is neither 0 nor 1"}},
		"a vote without end": {
			"shp", `{` + post + `, "score_A": "Inf", "score_B": 3}`,
			[]string{"error: score_A is a string, not a finite number"},
		},
		"neither label nor votes": {"shp", `{` + post + `, "labels": null}`, []string{"error: labels is null"}},
		"the first is better": {"helpsteer3", `{` + context + `, "overall_preference": -3}`, []string{
			`{"prompt":[{"role": "user", "content": "q"}],"output":"a","score":3}`,
			`{"prompt":[{"role": "user", "content": "q"}],"output":"b","score":0}`,
		}},
		"neither is better": {"helpsteer3", `{` + context + `, "overall_preference": 0, "domain": "d"}`, []string{
			`{"prompt":[{"role": "user", "content": "q"}],"output":"a","score":0,"metadata":{"domain":"d"}}`,
			`{"prompt":[{"role": "user", "content": "q"}],"output":"b","score":0,"metadata":{"domain":"d"}}`,
		}},
		"the second version": {
			"helpsteer3", `{"prompt": "q", "response_1": "a", "response_2": "b", "preference_strength": 2}`,
			[]string{`{"prompt":"q","output":"a","score":0}`, `{"prompt":"q","output":"b","score":2}`},
		},
		"no preference": {
			"helpsteer3", `{` + context + `, "overall_preference": null}`,
			[]string{"error: overall_preference is null"},
		},
		"a battle": {"arena", `{` + battle + `, "winner": "model_b", "judge": "j"}`, []string{
			`{` + prompt + `,"output":"a","score":0,"model":"m","metadata":{"judge":"j"}}`,
			`{` + prompt + `,"output":"b","score":1,"metadata":{"judge":"j"}}`,
		}},
		"a tie": {"arena", `{` + asked + `, "winner": "tie (bothbad)"}`, []string{
			`{"id":"7",` + prompt + `,"output":"a","score":0}`, `{"id":"7",` + prompt + `,"output":"b","score":0}`,
		}},
		"two bad answers": {"arena", `{` + asked + `, "winner": "Both bad"}`, []string{
			`{"id":"7",` + prompt + `,"output":"a","score":0}`, `{"id":"7",` + prompt + `,"output":"b","score":0}`,
		}},
		"a column for each winner": {
			"arena", `{` + asked + `, "winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0}`, []string{
				`{"id":"7",` + prompt + `,"output":"a","score":1}`, `{"id":"7",` + prompt + `,"output":"b","score":0}`,
			},
		},
		"a column for ties": {
			"arena", `{` + asked + `, "winner_model_a": 0, "winner_model_b": 0, "winner_tie": 1}`, []string{
				`{"id":"7",` + prompt + `,"output":"a","score":0}`, `{"id":"7",` + prompt + `,"output":"b","score":0}`,
			},
		},
		"conversations of unlike lengths": {
			"arena", `{"winner": "a", "conversation_a": [` + hi + `, {"role": "assistant", "content": "a"}],
				"conversation_b": [` + hi + `, {"role": "assistant", "content": "b"}, ` + hi + `]}`,
			[]string{"error: conversations differ in length"},
		},
		"an answer in two parts": {
			"arena", `{"winner": "a", "conversation_a": [` + hi + `, {"role": "assistant", "content": "a"}],
				"conversation_b": [` + hi + `, {"role": "assistant", "content": [{"text": "b"}, {"text": "c"}]}]}`,
			[]string{"error: conversation_b: content of message 2 is not text"},
		},
		"a conversation that is an object": {
			"arena", `{"winner": "a", "conversation_a": {}, "conversation_b": []}`,
			[]string{"error: conversation_a: expected a list, got an object"},
		},
		"texts": {
			"arena", `{"prompt": "q", "response_a": "a", "response_b": "[b]", "winner": "A"}`,
			[]string{`{` + prompt + `,"output":"a","score":1}`, `{` + prompt + `,"output":"[b]","score":0}`},
		},
		"an unknown winner": {"arena", `{` + battle + `, "winner": "me"}`, []string{`error: invalid winner "me": expected model_a, model_b or tie`}},
		"no winner":         {"arena", `{` + battle + `}`, []string{"error: winner is null or missing"}},
		"a vote on two answers": {
			"arena", `{"prompt": ["q", "r"], "response_a": ["a", "b"], "response_b": ["c", "d"], "winner": "a"}`,
			[]string{"error: conversations differ before the last answer"},
		},
		"the last of two answers": {
			"arena", `{"prompt": ["q", "r"], "response_a": ["a", "b"], "response_b": ["a", "d"], "winner": "a"}`,
			[]string{
				`{"prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},` +
					`{"role":"user","content":"r"}],"output":"b","score":1}`,
				`{"prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},` +
					`{"role":"user","content":"r"}],"output":"d","score":0}`,
			},
		},
		"the turn that was judged": {
			"arena", `{"turn": 1, "winner": "a",
				"conversation_a": [` + hi + `, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}],
				"conversation_b": [` + hi + `, {"role": "assistant", "content": "b"}]}`,
			[]string{`{` + prompt + `,"output":"a","score":1}`, `{` + prompt + `,"output":"b","score":0}`},
		},
		"a tree": {"oasst", `
			{"message_id": "1", "parent_id": null, "message_tree_id": "t",
				"role": "prompter", "text": "q"}
			{"message_id": "2", "parent_id": "1", "message_tree_id": "t",
				"role": "assistant", "text": "a", "rank": 0, "lang": "en"}
			{"message_id": "3", "parent_id": "1", "message_tree_id": "t",
				"role": "assistant", "text": "b", "rank": 1}
			{"message_id": "4", "parent_id": "2", "message_tree_id": "t",
				"role": "prompter", "text": "r"}
			{"message_id": "5", "parent_id": "4", "message_tree_id": "t",
				"role": "assistant", "text": "c", "rank": null}
			{"message_id": "6", "parent_id": "4", "message_tree_id": "t",
				"role": "assistant", "text": "d", "rank": 0,
				"deleted": true}
			{"message_id": "7", "parent_id": "4", "message_tree_id": "t",
				"role": "assistant", "text": "d", "rank": 0,
				"review_result": false}
			{"message_id": "8", "parent_id": "2", "message_tree_id": "u",
				"role": "assistant", "text": "e", "rank": 0}`, []string{
			`{"id":"t","turn_id":"1",` + prompt + `,"output":"a","score":0,"metadata":{"message_id":"2","lang":"en"}}`,
			`{"id":"t","turn_id":"1",` + prompt + `,"output":"b","score":-1,"metadata":{"message_id":"3"}}`,
			`error: message 5: rank is null or missing`, `error: message 6: deleted`,
			`error: message 7: failed review`,
			`error: message 8: cannot find parent message 2 earlier in the tree`,
		}},
		"a nested tree": {"oasst", `{"message_tree_id": "t", "prompt": {
			"message_id": "1", "role": "prompter", "text": "q",
			"replies": [{"role": "assistant", "text": "a", "rank": 0, "replies": [
				{"message_id": "3", "role": "prompter", "text": "r",
					"replies": [{"message_id": "4", "role": "assistant", "text": "c", "rank": 0}]},
				{"message_id": "5", "role": "bot", "text": "b"}]}]}}`, []string{
			`{"id":"t","turn_id":"1",` + prompt + `,"output":"a","score":0}`,
			`{"id":"t","turn_id":"3","prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},` +
				`{"role":"user","content":"r"}],"output":"c","score":0,"metadata":{"message_id":"4"}}`,
			`error: message 5: unknown role "bot": expected prompter or assistant`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := headOf(t, c.text)
			if s := AnswersOf(h); s == nil || s.Name != c.shape {
				if name != "no winner" {
					t.Errorf("recognised as %v", s)
				}
			}
			rewrite := NewRewriter(c.shape)
			var got []string
			for _, e := range h.Entries {
				id, lines, err := rewrite(e)
				if err != nil {
					lines = append(lines, Line{Err: err})
				}
				for _, line := range lines {
					if line.Err != nil {
						got = append(got, "error: "+line.Err.Error())
						continue
					}
					got = append(got, string(line.Answer))
					if v, _ := line.Answer.Get(IDKey); source.IDText(v) != id {
						t.Errorf("id %q for %s", id, line.Answer)
					}
				}
			}
			begins := cmp.Comparer(func(x, y string) bool {
				return x == y || strings.HasPrefix(x, "error") && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x))
			})
			if diff := cmp.Diff(c.want, got, begins); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLongTree: a chain of messages whose prompts are too large together ends with an error.
func TestLongTree(t *testing.T) {
	rewrite, parent, failed := NewRewriter("oasst"), "null", ""
	for i := range 200 {
		id := string(json.AppendString(nil, strings.Repeat("x", i+1)))
		role := []string{"prompter", "assistant"}[i%2]
		text := `{"message_id": ` + id + `, "parent_id": ` + parent + `, "message_tree_id": "t", "role": "` + role +
			`", "rank": 0, "text": "` + strings.Repeat("a", 10_000) + `"}`
		if _, lines, err := rewrite(json.Raw(text)); err != nil {
			t.Fatal(err)
		} else if len(lines) == 1 && lines[0].Err != nil {
			failed = lines[0].Err.Error()
			break
		}
		parent = id
	}
	if !strings.Contains(failed, "exceed 64 MiB in total") {
		t.Errorf("%q", failed)
	}
}

// TestConversations: the entries of each shape, rewritten.
func TestConversations(t *testing.T) {
	for name, c := range map[string]struct {
		shape, text, want string
		unread            []string
	}{
		"the branch that was shown": {
			shape: "chatgpt",
			text: `{"title": "t", "current_node": "c", "mapping": {"r": {"message": null},
				"a": {"parent": "r", "message": {"author": {"role": "user"},
					"content": {"content_type": "text", "parts": ["q"]}}},
				"b": {"parent": "a", "message": {"author": {"role": "tool"},
					"content": {"content_type": "execution_output", "text": "7"}}},
				"c": {"parent": "b", "message": {"author": {"role": "assistant"},
					"content": {"content_type": "text", "parts": ["a"]}}}}}`,
			want:   `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"title":"t"}`,
			unread: []string{"mapping: messages from tools, or with content other than text"},
		},
		"a circle": {
			shape: "chatgpt", text: `{"current_node": "a", "mapping": {"a": {"parent": "a"}}}`,
			want: `mapping has no message "a", or its messages form a cycle`,
		},
		"a message twice": {
			shape: "chatgpt",
			text: `{"current_node": "a", "mapping": {"a": {"parent": "b"},
				"a": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["q"]}}}}}`,
			want: `{"messages":[{"role":"user","content":"q"}]}`,
		},
		"capybara": {
			shape: "capybara",
			text:  `{"source": "s", "conversation": [{"input": "q", "output": "a"}, {"input": "r", "output": "b"}]}`,
			want: `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},` +
				`{"role":"user","content":"r"},{"role":"assistant","content":"b"}],"source":"s"}`,
		},
		"capybara with tools": {
			shape: "capybara", text: `{"conversation": [{"input": "q", "output": "a"}], "tools": [{"name": "f"}]}`,
			want: `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],` +
				`"tools":[{"name": "f"}]}`,
		},
		"capybara with names of tools": {
			shape: "capybara", text: `{"conversation": [{"input": "q", "output": "a"}], "tools": ["f"]}`,
			want: `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`, unread: []string{"tools"},
		},
		"capybara with a map of tools": {
			shape: "capybara", text: `{"conversation": [{"input": "q", "output": "a"}], "tools": {"f": {}}}`,
			want: `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`, unread: []string{"tools"},
		},
		"capybara with a number": {
			shape: "capybara", text: `{"conversation": [{"input": 1, "output": "a"}]}`,
			want: "conversation: input is a number, not text",
		},
		"squad": {
			shape: "squad",
			text: `{"id": 1, "question": "q", "context": "c",
				"answers": {"text": ["a", "a"], "answer_start": [1, 1]}}`,
			want: `{"messages":[{"role":"user","content":"q\n\nc"},{"role":"assistant","content":"a"}],"id":1}`,
		},
		"squad with two answers": {
			shape: "squad", text: `{"question": "q", "context": "c", "answers": {"text": ["a", "b", "c"]}}`,
			want:   `{"messages":[{"role":"user","content":"q\n\nc"},{"role":"assistant","content":"a"}]}`,
			unread: []string{"answers: texts after the first"},
		},
		"squad without an answer": {
			shape: "squad", text: `{"question": "q", "context": "c", "answers": {"text": []}}`,
			want: "the passage has no answer to the question",
		},
		"xlam": {
			shape: "xlam",
			text: `{"id": 1, "query": "q", "answers": "[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
				"tools": "[{\"name\": \"f\", \"parameters\": {\"a\": {\"description\": \"d\", \"type\": \"int\"},
					\"type\": {\"type\": \"List[str]\"}, \"o\": {\"type\": \"str, optional\"},
					\"p\": {\"type\": \"Optional[bool]\"},
					\"u\": {\"type\": \"Callable[int]\", \"default\": \"\"}}}]"}`,
			want: `{"messages":[{"role":"user","content":"q"},` +
				`{"role":"assistant","tool_calls":[{"name": "f", "arguments": {"a": 1}}]}],` +
				`"tools":[{"name":"f","parameters":{"type":"object","properties":{` +
				`"a":{"type":"integer","description":"d"},"type":{"type":"array","items":{"type":"string"}},` +
				`"o":{"type":"string"},"p":{"type":"boolean"},` +
				`"u":{"type":"Callable[int]","default":""}},"required":["a","type"]}}],"id":1}`,
		},
		"xlam with a schema": {
			shape: "xlam",
			text: `{"query": "q", "answers": [{"name": "f", "arguments": {}}],
				"tools": [{"name": "f", "parameters": {"type": "object", "properties": {}}},
					{"name": "g", "parameters": {}}]}`,
			want: `{"messages":[{"role":"user","content":"q"},` +
				`{"role":"assistant","tool_calls":[{"name": "f", "arguments": {}}]}],` +
				`"tools":[{"name": "f", "parameters": {"type": "object", "properties": {}}},` +
				`{"name":"g","parameters":{"type":"object","properties":{}}}]}`,
		},
		"xlam without a call": {
			shape: "xlam", text: `{"query": "q", "answers": "[]", "tools": "[]"}`,
			want: "answers is empty: no tool is called",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := headOf(t, strings.NewReplacer("\n", " ", "\t", "").Replace(c.text))
			if s := ConversationsOf(h); (s == nil || s.Name != c.shape) && name != "xlam without a call" {
				t.Errorf("recognised as %v", s)
			}
			got, unread, err := ConversationsNamed(c.shape).Rewrite(h.Entries[0])
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.unread, unread); diff != "" {
				t.Error(diff)
			}
			if _, err := json.Parse(got, json.Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLongBranch: a branch is read in time proportional to its length, and a cycle is noticed when a message repeats.
func TestLongBranch(t *testing.T) {
	const length = 5000
	export := func(first string) json.Raw {
		var text strings.Builder
		fmt.Fprintf(&text, `{"current_node": "%d", "mapping": {`, length)
		for i := length; i > 1; i-- {
			fmt.Fprintf(&text, `"%d": {"parent": "%d"}, `, i, i-1)
		}
		return json.Raw(text.String() + `"1": {"parent": "` + first + `"}}}`)
	}
	tree, circle := export(""), export(strconv.Itoa(length))
	begin := time.Now()
	if _, _, err := ConversationsNamed("chatgpt").Rewrite(tree); err != nil {
		t.Error(err)
	}
	if _, _, err := ConversationsNamed("chatgpt").Rewrite(circle); err == nil {
		t.Error("a circle was read")
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("%d messages took %v", length, took)
	}
}

// TestGivenKeys: an input whose keys the user named is read as plain rows.
func TestGivenKeys(t *testing.T) {
	h := headOf(t, `{"query": "q", "answers": [{"name": "f", "arguments": {}}], "tools": []}`)
	h.Given = map[string]string{"id_key": "x"}
	if ConversationsOf(h) == nil {
		t.Error("an id hides the shape")
	}
	h.Given = map[string]string{"response_key": "answers"}
	if s := ConversationsOf(h); s != nil {
		t.Error(s.Name)
	}
}

func headOf(t *testing.T, text string) *source.Head {
	t.Helper()
	h := &source.Head{}
	r := json.NewReader(strings.NewReader(text), json.Auto, json.Limits{})
	for {
		e, _, err := r.Next()
		if err != nil {
			if len(h.Entries) == 0 {
				t.Fatal(err)
			}
			return h
		}
		h.Entries = append(h.Entries, append(json.Raw(nil), e...))
	}
}
