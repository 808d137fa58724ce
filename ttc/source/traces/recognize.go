package traces

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// What the keys of traces, of demonstrations and of ready pairs are also called.
var (
	messagesKey = source.Key{
		Setting: "messages_key", Default: "messages", Means: "the conversation", Is: isConversation,
		Others: []string{"conversations", "conversation", "dialog", "dialogue", "chat", "trajectory", "history"},
	}
	toolsKey = source.Key{
		Setting: "tools_key", Default: "tools", Means: "the list of tools",
		Others: []string{"available_tools", "tool_definitions"},
	}
	rewardKey = source.Key{
		Setting: "reward_key", Default: "reward", Means: "the score", Others: source.ScoreNames(),
		Is: (*source.Column).Number,
	}
	taskKey = source.Key{
		Setting: "task_key", Default: "task_id", Means: "the task", Others: []string{"task", "problem_id"},
	}

	promptKey = source.Key{
		Setting: "prompt_key", Default: "prompt", Means: "the prompt",
		Others: []string{"question", "query", "instruction", "input", "problem", "user", "context"},
	}
	responseKey = source.Key{
		Setting: "response_key", Default: "response", Means: "the answer", Is: isPassage,
		Others: []string{
			"output", "completion", "answer", "text", "generation", "assistant", "reply", "solution", "target",
		},
	}
	chosenKey = source.Key{
		Setting: "chosen_key", Default: "chosen", Means: "the better answer", Is: isPassage,
		Others: []string{
			"chosen_response", "preferred", "preferred_output", "winner", "accepted", "good", "response_chosen",
		},
	}
	rejectedKey = source.Key{
		Setting: "rejected_key", Default: "rejected", Means: "the worse answer", Is: isPassage,
		Others: []string{
			"rejected_response", "non_preferred_output", "dispreferred", "loser", "bad", "response_rejected",
		},
	}
)

// isConversation accepts lists of objects, or the JSON texts of such.
func isConversation(c *source.Column) bool { return c.List() }

// isPassage accepts texts, messages, and a message.
func isPassage(c *source.Column) bool {
	return c.Kinds[json.String]+c.Kinds[json.Array]+c.Kinds[json.Object] == c.Present
}

// own are keys that no other format has.
var own = []string{"traj", "turns", "dpo_pairs", "replays"}

// recognize knows conversations by their messages, pairs by their two sides, demonstrations by a prompt and an answer
// without a score: with one they are candidates.
func recognize(h *source.Head) (r source.Reading) {
	cols := h.Columns()
	messages := cols.Find(messagesKey)
	chosen, rejected := cols.Find(chosenKey), cols.Find(rejectedKey)
	reward := cols.Find(rewardKey)
	pairs := chosen.Column != nil && rejected.Column != nil
	switch {
	case pairs || messages.Column != nil && speaks(h, messages.Key):
		r.Fit = source.Fits
	default:
		for _, key := range own {
			if cols.Of(key) != nil {
				r.Fit = source.Fits
				return r
			}
		}
		return recognizeDemonstrations(cols)
	}
	if pairs {
		r.Take(chosenKey, chosen)
		r.Take(rejectedKey, rejected)
		r.Take(promptKey, cols.Find(promptKey))
		if messages.Column == nil {
			return r
		}
	} else if answered(cols, messages.Key, reward, h) {
		return source.Reading{} // candidates whose prompts are messages
	}
	r.Take(messagesKey, messages)
	r.Take(toolsKey, cols.Find(toolsKey))
	if cols.Of("final_reward") == nil { // which the source tries by itself
		r.TakeScore(rewardKey, reward)
	}
	r.Take(taskKey, cols.Find(taskKey))
	return r
}

// speaks says whether the lists under a key are of messages: an empty one may be.
func speaks(h *source.Head, key string) bool {
	for _, e := range h.Entries {
		v, _ := e.Get(key)
		if text, ok := v.Text(); ok {
			v, _ = json.Parse([]byte(text), source.InTexts)
		}
		for m := range v.Elements() {
			_, role := m.Get("role")
			_, from := m.Get("from")
			return role || from
		}
	}
	return false
}

// answered says whether the conversations end before an answer, which stands beside them with its score.
func answered(cols source.Columns, messages string, score source.Choice, h *source.Head) bool {
	if score.Column == nil || cols.Find(responseKey, messages).Column == nil {
		return false
	}
	for _, e := range h.Entries {
		v, _ := e.Get(messages)
		role := ""
		for m := range v.Elements() {
			r, _ := m.Get("role")
			role, _ = r.Text()
		}
		if role == "assistant" {
			return false
		}
	}
	return true
}

func recognizeDemonstrations(cols source.Columns) (r source.Reading) {
	score := cols.Find(source.Key{
		Setting: "score_key", Default: "score", Others: source.ScoreNames(), Is: (*source.Column).Number,
	})
	response := cols.Find(responseKey)
	if score.Column != nil || response.Column == nil {
		return r
	}
	prompt := cols.Find(promptKey, response.Key)
	instruction, input := cols.Of("instruction"), cols.Of("input")
	if instruction != nil && input != nil && response.Key != "input" {
		prompt = source.Choice{Column: instruction, Guessed: true}
		r.Settings = map[string]string{"context_key": "input"}
		r.Guessed = append(r.Guessed, `"input" is put below the instruction`)
	}
	if prompt.Column == nil {
		return source.Reading{}
	}
	r.Fit = source.Fits
	r.Take(promptKey, prompt)
	r.Take(responseKey, response)
	return r
}

// roles are names of roles that are not those of the chat API, as ShareGPT's files and others have them.
var roles = map[string]string{
	"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
	"ai": "assistant", "bot": "assistant", "model": "assistant", "function_call": "assistant", "tool_call": "assistant",
	"observation": "tool", "function_response": "tool", "tool_response": "tool",
}

// asMessages makes messages of ShareGPT's {"from", "value"}. Other entries it leaves as they are.
func asMessages(raw json.Raw) json.Raw {
	changed := false
	out := []byte{'['}
	for m := range raw.Elements() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		text := asMessage(m)
		changed = changed || text != nil
		if text == nil {
			text = m
		}
		out = append(out, text...)
	}
	if !changed {
		return raw
	}
	return append(out, ']')
}

// asMessage is nil where nothing has to be changed.
func asMessage(m json.Raw) json.Raw {
	role, ok := m.Get("role")
	value, _ := m.Get("content")
	keys := []string{"role", "content"}
	if !ok {
		role, ok = m.Get("from")
		value, _ = m.Get("value")
		keys = []string{"from", "value"}
	}
	name, isText := role.Text()
	to, known := roles[strings.ToLower(name)]
	if !ok || !isText || keys[0] == "role" && !known {
		return nil
	}
	if !known {
		to = name
	}
	out := json.AppendString([]byte(`{"role":`), to)
	if name == "function_call" || name == "tool_call" {
		if calls := callsOf(value); calls != nil {
			return append(append(append(out, `,"content":null,"tool_calls":`...), calls...), '}')
		}
	}
	if value == nil {
		value = json.Raw("null")
	}
	out = append(append(out, `,"content":`...), value...)
	for key, v := range m.Members() {
		if !key.Is(keys[0]) && !key.Is(keys[1]) {
			out = append(append(append(append(out, ','), key...), ':'), v...)
		}
	}
	return append(out, '}')
}

// callsOf is the list of calls in the text of ShareGPT's function_call: an object {"name", "arguments"}, or several.
func callsOf(value json.Raw) json.Raw {
	text, _ := value.Text()
	inner, err := json.Parse([]byte(text), source.InTexts)
	if err != nil {
		return nil
	}
	switch inner.Kind() {
	case json.Object:
		return json.Raw("[" + string(inner) + "]")
	case json.Array:
		return inner
	}
	return nil
}
