package rows

import "fmt"

// compared are files in the shapes of public data sets that differ from the usual ones by more than their keys.
func compared() []arrival {
	return []arrival{
		{"oasst.jsonl", asLines(trees(20)), 20, "trl"},
		{"shp.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"post_id": fmt.Sprint("p", i/2), "history": question(i / 2), "human_ref_A": answer(i),
				"human_ref_B": "No idea.",
				"labels":      1, "score_A": 9, "score_B": 2, "c_root_id_A": fmt.Sprint("a", i), "c_root_id_B": "b",
			}
		})), 40, "trl"},
		{"helpsteer3.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"domain": "general", "context": turns(question(i)), "response1": answer(i), "response2": "No idea.",
				"overall_preference":    -1 - i%3,
				"individual_preference": []object{{"score": -1, "reasoning": "Because."}},
			}
		})), 40, "trl"},
		{"arena.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"question_id": fmt.Sprint(i), "model_a": "a", "model_b": "b", "turn": 1,
				"winner":         []string{"model_a", "tie"}[i%2],
				"conversation_a": turns(question(i), answer(i)), "conversation_b": turns(question(i), "No idea."),
			}
		})), 20, "trl"},
		{"squad.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"id": fmt.Sprint(i), "title": "Towns", "question": question(i),
				"context": "By road, that is. " + answer(i),
				"answers": object{"text": []string{answer(i)}, "answer_start": []int{18}},
			}
		})), 40, "trl"},
		{"xlam.jsonl", asLines(lines(40, func(i int) object {
			return object{
				"id": i, "query": question(i),
				"answers": fmt.Sprintf(`[{"name": "distance", "arguments": {"from": %d}}]`, i),
				"tools":   `[{"name": "distance", "parameters": {"from": {"description": "a town", "type": "int"}}}]`,
			}
		})), 40, "messages"},
		{"capybara.jsonl", asLines(lines(40, func(i int) object {
			return object{"source": "made up", "conversation": []object{
				{"input": question(i), "output": answer(i)}, {"input": "Sure?", "output": "Yes."},
			}}
		})), 40, "messages"},
	}
}

// trees are questions with two ranked answers each; every message is an entry.
func trees(n int) (all []object) {
	for i := range n {
		id := fmt.Sprint("t", i)
		said := func(name, parent any, role, text string, rank any) object {
			return object{
				"message_id": name, "parent_id": parent, "message_tree_id": id, "role": role, "text": text,
				"rank": rank,
			}
		}
		all = append(all, said(id, nil, "prompter", question(i), nil),
			said(id+"a", id, "assistant", "No idea.", 1), said(id+"b", id, "assistant", answer(i), 0))
	}
	return all
}
