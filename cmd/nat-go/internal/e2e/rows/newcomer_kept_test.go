package rows

import (
	"fmt"
	"testing"
)

// keptElsewhere are files that other programs export, and those that people write without training in mind.
func keptElsewhere() []arrival {
	both := func(make func(i int) object) func(*testing.T, string) {
		return func(t *testing.T, path string) { t.Helper(); asLines(lines(20, make))(t, path) }
	}
	return []arrival{
		{"chatgpt.json", asJSON(lines(20, exported)), 20, "trl"},
		{"claude.json", asJSON(lines(20, func(i int) object {
			return object{"uuid": fmt.Sprint(i), "name": "Towns", "chat_messages": []object{
				{"sender": "human", "text": question(i)}, {"sender": "assistant", "text": answer(i)},
			}}
		})), 20, "trl"},
		{"dialog.jsonl", both(func(i int) object {
			return object{"dialog": []string{question(i), answer(i), "Sure?", "Yes."}}
		}), 20, "messages"},
		{"speakers.jsonl", both(func(i int) object {
			return object{"dialogue": []object{
				{"speaker": "user", "utterance": question(i)}, {"speaker": "bot", "utterance": answer(i)},
			}}
		}), 20, "trl"},
		{"saferlhf.jsonl", both(func(i int) object {
			return object{
				"prompt": question(i), "response_0": answer(i), "response_1": "No idea.", "better_response_id": 0,
				"safer_response_id": 1,
			}
		}), 20, "trl"},
		{"webgpt.jsonl", both(func(i int) object {
			return object{
				"question": object{"full_text": question(i), "id": i}, "answer_0": answer(i), "answer_1": "No idea.",
				"score_0": 1, "score_1": -1,
			}
		}), 20, "trl"},
		{"paired.jsonl", both(func(i int) object {
			return object{"qid": i, "question": question(i), "response_j": answer(i), "response_k": "No idea."}
		}), 20, "trl"},
		{"thumbs.jsonl", asLines(lines(40, func(i int) object {
			return object{"prompt": question(i / 2), "response": answer(i), "thumbs_up": i%2 == 1}
		})), 20, "trl"},
		{"correct.jsonl", both(func(i int) object {
			return object{
				"question":  question(i),
				"responses": []string{answer(i), "No."},
				"correct":   []bool{true, false},
			}
		}), 20, "trl"},
		{"short.jsonl", both(func(i int) object { return object{"q": question(i), "a": answer(i)} }), 20, "trl"},
		{"evals.jsonl", both(func(i int) object {
			return object{"input": turns(question(i)), "ideal": answer(i)}
		}), 20, "trl"},
		{"swe.traj", asJSON(object{
			"environment": "swe", "trajectory": []object{{"action": "ls", "observation": "a"}},
			"history": turns(question(1), answer(1), question(2), answer(2)),
		}), 1, "messages"},
	}
}

// exported is a conversation as ChatGPT exports it, with an answer that was made again.
func exported(i int) object {
	said := func(role, text, parent string, children ...string) object {
		return object{"parent": parent, "children": children, "message": object{
			"author": object{"role": role}, "content": object{"content_type": "text", "parts": []string{text}},
		}}
	}
	return object{"title": "Towns", "current_node": "c", "mapping": object{
		"root": object{"message": nil, "parent": nil, "children": []string{"a"}},
		"a":    said("user", question(i), "root", "b", "c"), "b": said("assistant", "No.", "a"),
		"c": said("assistant", answer(i), "a"),
	}}
}
