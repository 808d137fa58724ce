package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Workflow answers like `nat serve`, with three scored candidates per question.
func Workflow(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in map[string]string
	_ = json.Unmarshal(body, &in) // an invalid request counts as an empty question
	fmt.Fprintf(w, "data: {\"value\": \"answer\"}\n\n")
	for i := range 3 {
		payload, _ := json.Marshal(map[string]any{
			"event_type": "TTC_END", "event_timestamp": 1.5, "span_event_timestamp": nil, "framework": nil,
			"name": "dpo_candidate_move", "tags": nil, "metadata": map[string]any{}, "usage_info": nil, "UUID": "u",
			"data": map[string]any{
				"input": in["input_message"], "output": fmt.Sprintf("move %d", i), "chunk": nil, "payload": nil,
				"turn_id": "t", "turn_index": 0, "candidate_index": i, "score": float64(i),
			},
		})
		line, _ := json.Marshal(map[string]any{
			"id": "u", "parent_id": "p", "type": "TTC_END", "name": "dpo_candidate_move", "payload": string(payload),
		})
		fmt.Fprintf(w, "intermediate_data: %s\n\n", line)
	}
}
