package tokenizertest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// special matches the usual shapes of a template's special tokens.
var special = regexp.MustCompile(`<[|｜][^\s<>]{1,40}[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>` +
	`|<(?:start_of_turn|end_of_turn|end_of_utterance|bos|eos|sop|/?think|/?tool_response)>|\[gMASK\]` +
	`|\[e~\[|\]~b\]|\[/?(?:INST|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|SYSTEM_PROMPT|ARGS|CALL_ID|THINK)\]` +
	`|<seed:(?:bos|eos)>|<(?:beginning|end)_of_sentence>|<SPECIAL_\d+>|<sep>|</?(?:assistant|user|system|role)>`)

// pieced matches templates that assemble role markers from parts.
var pieced = regexp.MustCompile(`['"]<\|['"]`)

// Family adds special tokens to base, the text of a tokenizer.json, after those it already has: the special strings in
// a template's source, and common begin and end markers.
func Family(base []byte, template string) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(base, &file); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	type token struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	var added []token
	if err := json.Unmarshal(file["added_tokens"], &added); err != nil {
		return nil, fmt.Errorf("tokenizer.json: added_tokens: %w", err)
	}
	known, next := map[string]bool{}, 0
	for _, a := range added {
		known[a.Content] = true
		next = max(next, a.ID+1)
	}
	if strings.Contains(template, "hy_eos") {
		template += "<｜hy_eos:opensource｜><｜hy_User:opensource｜><｜hy_Assistant:opensource｜>"
	}
	if pieced.MatchString(template) {
		template += "<|system|><|user|><|assistant|><|end|>"
	}
	for _, s := range append(special.FindAllString(template, -1), "<s>", "</s>", "<|begin_of_text|>", "<|endoftext|>") {
		if !known[s] {
			known[s] = true
			added = append(added, token{ID: next, Content: s, Special: true})
			next++
		}
	}
	var err error
	if file["added_tokens"], err = json.Marshal(added); err != nil {
		return nil, err
	}
	return json.Marshal(file)
}
