package traces

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/published"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/transcript"
)

// Alternative names for the keys of traces, demonstrations and ready-made pairs.
var (
	messagesKey = source.Key{
		Setting: "messages_key", Default: "messages", Means: "the conversation", Is: isConversation,
		Others: []string{
			"conversations", "conversation", "dialog", "dialogue", "chat", "trajectory", "history", "items", "contents",
			"msgs", "chat_messages", "utterances", "transcript",
		},
	}
	toolsKey = source.Key{
		Setting: "tools_key", Default: "tools", Means: "the list of tools",
		Others: []string{"available_tools", "tool_definitions"},
	}

	promptKey = source.Key{
		Setting: "prompt_key", Default: "prompt", Means: "the prompt",
		Others: []string{"question", "query", "instruction", "input", "problem", "user", "human", "q"},
		Last:   []string{"context"},
	}
	systemKey = source.Key{
		Setting: "system_key", Default: "system", Means: "the system message", Is: (*source.Column).Text,
		Others: []string{"system_prompt", "system_message"},
	}
	responseKey = source.Key{
		Setting: "response_key", Default: "response", Means: "the answer", Is: isPassage,
		Others: []string{
			"output", "completion", "answer", "generation", "assistant", "reply", "solution", "target",
			"bot", "a", "ideal", "canonical_solution", "model_answer", "model_response", "expected_output",
			"expectedoutput", "expected",
		},
		Last: []string{"text", "transcript"},
	}
	chosenKey = source.Key{
		Setting: "chosen_key", Default: "chosen", Means: "the better answer", Is: isPassage,
		Others: []string{
			"chosen_response", "preferred", "preferred_output", "winner", "accepted", "good", "response_chosen",
			"win", "better", "response_j",
		},
	}
	rejectedKey = source.Key{
		Setting: "rejected_key", Default: "rejected", Means: "the worse answer", Is: isPassage,
		Others: []string{
			"rejected_response", "non_preferred_output", "dispreferred", "loser", "bad", "response_rejected",
			"lose", "worse", "response_k",
		},
	}
	chosenScoreKey = source.Key{
		Setting: "chosen_score_key", Default: "chosen_score", Means: "the better answer's score",
		Others: []string{
			"score_chosen", "chosen_rating", "rating_chosen", "chosen_reward", "reward_chosen",
		},
		Is: (*source.Column).Number,
	}
	rejectedScoreKey = source.Key{
		Setting: "rejected_score_key", Default: "rejected_score", Means: "the worse answer's score",
		Others: []string{
			"score_rejected", "rejected_rating", "rating_rejected", "rejected_reward",
			"reward_rejected",
		},
		Is: (*source.Column).Number,
	}
)

// isConversation accepts lists, or their JSON text.
func isConversation(c *source.Column) bool { return c.List() }

// isPassage accepts strings, lists of messages, and single messages.
func isPassage(c *source.Column) bool {
	return c.Kinds[json.String]+c.Kinds[json.Array]+c.Kinds[json.Object] == c.Present
}

// own lists the keys that only this format has.
var own = []string{"traj", "turns", "dpo_pairs", "replays"}

// recognize identifies conversations by their messages, pairs by their two sides, and demonstrations by a prompt and an
// answer without a score: entries with a score are candidates.
func recognize(h *source.Head) (r source.Reading) {
	cols := h.Columns()
	if shape := published.ConversationsOf(h); shape != nil {
		return published.Reading(shape.Name, shape.Told)
	}
	if conversations(h) {
		r.Fit = source.Fits
		return r
	}
	if isOneConversation(h) {
		r.Fit = source.Fits
		if !asks(h.Entries) {
			r.Problem = "the file contains a model's answers, as in the AI SDK's response.messages, but not its input: " +
				`write {"messages": [...]} with the messages that were sent, followed by these`
			return r
		}
		r.Problem = fmt.Sprintf("the file is one conversation, whose messages are its entries: jq -c '{messages: .}' %s > rows.jsonl "+
			"writes it as an entry", h.Path)
		return r
	}
	spoken := messagesKey
	spoken.Is = func(c *source.Column) bool { return c.List() && speaks(h, c.Key) }
	messages := cols.Find(spoken)
	if messages.Given && !speaks(h, messages.Key) {
		messages = source.Choice{}
	}
	chosen, rejected := cols.Find(chosenKey), cols.Find(rejectedKey)
	reward := cols.Outcome(keyOf(messages))
	if h.Given["choice_key"] != "" {
		return recognizeChoice(h)
	}
	switch {
	case chosen.Column != nil && rejected.Column != nil:
		r.Fit = source.Fits
		takePairs(&r, h, chosen, rejected)
		if messages.Column == nil {
			return r
		}
	case messages.Column != nil:
		r.Fit = source.Fits
		if answered(cols, messages.Key, reward, h) {
			return source.Reading{} // these are candidates whose prompts are messages
		}
	default:
		for _, key := range own {
			if c := cols.Of(key); c != nil && c.List() {
				r.Fit = source.Fits
				r.TakeScore(source.RewardKey, reward)
				return r
			}
		}
		return recognizeDemonstrations(h)
	}
	takeConversations(&r, h, cols, messages, reward)
	return r
}

// takeConversations records the columns of conversations.
func takeConversations(r *source.Reading, h *source.Head, cols source.Columns, messages, reward source.Choice) {
	r.Take(messagesKey, messages)
	if inTurn(h, messages.Key) {
		r.Guess("the messages in %q alternate between the user and the assistant", messages.Key)
	}
	r.Problem = cmp.Or(r.Problem, h.TextScores(source.RewardKey.Setting), unanswered(h, messages.Key))
	r.Take(toolsKey, cols.Find(toolsKey))
	r.Take(systemKey, cols.Find(systemKey))
	r.TakeScore(source.RewardKey, reward)
	if reward.Column == nil && reward.Doubt == "" {
		r.NoScore(cols)
	}
	for _, key := range []source.Key{source.TaskKey, source.IDKey, source.ModelKey} {
		r.Take(key, cols.Find(key))
	}
}

// unanswered explains what to do about conversations that have no message from the assistant, but messages from a
// speaker with an unknown name; it returns "" for others.
func unanswered(h *source.Head, key string) string {
	stranger, by := "", ""
	for _, e := range h.Entries {
		for m := range source.At(e, key).Elements() {
			by = cmp.Or(h.Given["role_key"], speaker(m))
			name := session.Text(m, by)
			switch lower := strings.ToLower(name); {
			case name == "" || roles[lower] == "assistant" || lower == "assistant":
				return ""
			case roles[lower] == "" && !slices.Contains(standard, lower):
				stranger = name
			}
		}
	}
	if stranger == "" {
		return ""
	}
	return fmt.Sprintf("no message under %q is the assistant's, and the speaker %q is unknown: if it is the model, rename it to "+
		"assistant: jq -c '(.. | .%s? | select(. == %q)) |= \"assistant\"' %s > rows.jsonl", key, stranger,
		by, stranger, h.Path)
}

// isOneConversation reports whether a file is a single JSON list whose entries are the messages in a conversation.
func isOneConversation(h *source.Head) bool {
	begin := bytes.TrimLeft(h.Bytes, "\xEF\xBB\xBF \t\r\n")
	return h.Whole && len(h.Given) == 0 && bytes.HasPrefix(begin, []byte("[")) && areOfOne(h.Entries)
}

// asks reports whether any of the messages has a role other than assistant, tool or system.
func asks(messages []json.Raw) bool {
	return slices.ContainsFunc(messages, func(m json.Raw) bool {
		return !slices.Contains([]string{"assistant", "tool", "system"}, session.Text(m, "role"))
	})
}

// recognizeChoice reads entries with two answers and a label that says which of them is better, under the keys that the
// user specified.
func recognizeChoice(h *source.Head) (r source.Reading) {
	first, second, choice := h.Given["first_key"], h.Given["second_key"], h.Given["choice_key"]
	if first == "" || second == "" {
		r.Fit = source.Fits
		r.Problem = "a choice needs the two answers that it chooses from: add --map first=KEY --map second=KEY"
		return r
	}
	for _, e := range h.Entries {
		label := source.At(e, choice)
		if source.ChoiceOf(label, first, second) != source.NoChoice {
			continue
		}
		r.Fit = source.Fits
		r.Problem = fmt.Sprintf("%s is %s, which names neither %s nor %s: expected left or right, first or second, "+
			"or the ending of one of the two names", choice, shorten(label), first, second)
		return r
	}
	r.Fit = source.Certain
	prompt, context := instruction(h.Columns(), first, second)
	takePrompt(&r, h.Columns(), prompt, context)
	return r
}

// takePairs records the columns of the two sides of ready-made pairs, their scores and their prompt.
func takePairs(r *source.Reading, h *source.Head, chosen, rejected source.Choice) {
	cols := h.Columns()
	r.Take(chosenKey, chosen)
	r.Take(rejectedKey, rejected)
	prompt, context := instruction(cols, chosen.Key, rejected.Key)
	takePrompt(r, cols, prompt, context)
	better, worse := cols.Find(chosenScoreKey), cols.Find(rejectedScoreKey)
	if better.Column != nil && worse.Column != nil {
		r.Take(chosenScoreKey, better)
		r.Take(rejectedScoreKey, worse)
	}
	splitTranscripts(r, h, chosen, rejected, prompt)
}

// splitTranscripts makes the source split transcripts if one of the columns holds only transcripts.
func splitTranscripts(r *source.Reading, h *source.Head, columns ...source.Choice) {
	for _, c := range columns {
		if c.Column != nil && c.Text() && h.Texts(c.Key, transcript.Is) {
			r.Set("transcripts", "split")
			r.Guess("%q holds transcripts, which are split into messages", c.Key)
			return
		}
	}
}

// conversations reports whether the entries are lists of messages.
func conversations(h *source.Head) bool {
	for _, e := range h.Entries {
		if e.Kind() != json.Array || !isSpoken(e) || texts(e) { // the strings may be the cells of a row
			return false
		}
	}
	return len(h.Entries) > 0
}

// speaks reports whether the lists under a key contain messages, judging by the first that isn't empty.
func speaks(h *source.Head, key string) bool {
	for _, e := range h.Entries {
		v, _ := source.Inner(source.At(e, key))
		if v.Kind() == json.Array && len(bytes.Trim(v, "[] \t\r\n")) > 0 {
			role := h.Given["role_key"]
			return isSpoken(v) || role != "" && session.Has(session.First(v), role)
		}
	}
	return false
}

// isSpoken reports whether a list begins with a message, or consists of strings spoken in turn.
func isSpoken(list json.Raw) bool {
	m := session.First(list)
	return m.Kind() == json.Object && (speaker(m) != "" || isItem(m) || isPydantic(m)) || texts(list)
}

// speakers are the keys that name the speaker of a message, in the order in which they are looked for.
var speakers = []string{"role", "from", "speaker", "sender", "who"}

// speaker returns the key that names the speaker of a message. It is empty if no such key is present.
func speaker(m json.Raw) string {
	for _, key := range speakers {
		if _, ok := m.Get(key); ok {
			return key
		}
	}
	return ""
}

// texts reports whether a list consists of two or more strings.
func texts(list json.Raw) bool {
	n := 0
	for m := range list.Elements() {
		if n++; m.Kind() != json.String {
			return false
		}
	}
	return n > 1
}

// inTurn reports whether any of the conversations is a list of strings.
func inTurn(h *source.Head, key string) bool {
	return slices.ContainsFunc(h.Entries, func(e json.Raw) bool { return texts(source.At(e, key)) })
}

// answered reports whether the conversations end just before an answer, which is given separately with its score.
func answered(cols source.Columns, messages string, score source.Choice, h *source.Head) bool {
	if score.Column == nil || cols.Find(responseKey, messages).Column == nil {
		return false
	}
	for _, e := range h.Entries {
		role := ""
		for m := range source.At(e, messages).Elements() {
			role = session.Text(m, "role")
		}
		if role == "assistant" {
			return false
		}
	}
	return true
}

// recognizeDemonstrations recognises entries that consist of a prompt and an answer, or of a single string containing a
// conversation.
func recognizeDemonstrations(h *source.Head) (r source.Reading) {
	cols := h.Columns()
	score := cols.Find(source.RewardKey)
	response := cols.Find(responseKey)
	if score.Column != nil || response.Column == nil || h.TextScores(source.RewardKey.Setting) != "" {
		return r // entries with a score, even one in words, are candidates
	}
	prompt, context := instruction(cols, response.Key)
	if prompt.Column == nil {
		return recognizeTexts(h, response)
	}
	if !isMessage(h, prompt.Key) || !isMessage(h, response.Key) {
		return r
	}
	r.Fit = source.Fits
	takePrompt(&r, cols, prompt, context)
	r.Take(responseKey, response)
	r.NoScore(cols)
	splitTranscripts(&r, h, prompt)
	return r
}

// isMessage reports whether the objects found under a key are messages or contain some, judging by the first. It
// returns true if it finds no objects.
func isMessage(h *source.Head, key string) bool {
	for _, e := range h.Entries {
		v := source.At(e, key)
		if v.Kind() != json.Object {
			continue
		}
		return slices.ContainsFunc([]string{"role", "content", "messages", "parts"}, func(key string) bool {
			return session.Has(v, key)
		})
	}
	return true
}

// instruction finds the columns of the prompt and of the text appended to it. These are instruction and input, if
// columns with these names exist. answers are the answer columns.
func instruction(cols source.Columns, answers ...string) (prompt, context source.Choice) {
	prompt = cols.Find(promptKey, answers...)
	context = cols.Find(source.ContextKey, append(answers, keyOf(prompt))...)
	task, input := cols.Of("instruction"), cols.Of("input")
	if task != nil && input != nil && !slices.Contains(answers, "input") && !prompt.Given {
		prompt = source.Choice{Column: task, Guessed: true}
		context = source.Choice{Column: input, Guessed: true}
	}
	return prompt, context
}

// takePrompt records the columns of the prompt, the text appended to it, and the system message next to it.
func takePrompt(r *source.Reading, cols source.Columns, prompt, context source.Choice) {
	r.Take(promptKey, prompt)
	if prompt.Guessed || context.Given { // a column called prompt doesn't need a context
		r.Take(source.ContextKey, context)
	}
	r.Take(systemKey, cols.Find(systemKey))
}

func keyOf(c source.Choice) string {
	if c.Column == nil {
		return ""
	}
	return c.Key
}

// recognizeTexts recognises entries that consist of a single string containing a conversation.
func recognizeTexts(h *source.Head, text source.Choice) (r source.Reading) {
	if !text.Text() || !h.Texts(text.Key, transcript.Is) {
		return r
	}
	r.Fit = source.Fits
	r.Set("messages_key", text.Key)
	r.Guess("the conversation is read from %q", text.Key)
	splitTranscripts(&r, h, text)
	return r
}

// roles maps role names that the chat API doesn't have, as found in ShareGPT and other files.
var roles = map[string]string{
	"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
	"ai": "assistant", "bot": "assistant", "model": "assistant", "function_call": "assistant", "tool_call": "assistant",
	"observation": "tool", "function_response": "tool", "tool_response": "tool",
	"prompter": "user", "claude": "assistant", "llm": "assistant",
	"customer": "user", "client": "user", "visitor": "user", "agent": "assistant", "support": "assistant",
}

// standard lists the roles of the chat API, which some files write in capitals.
var standard = []string{"system", "developer", "user", "assistant", "tool", "function"}

// asMessages converts ShareGPT's {"from", "value"} and similar entries to messages. Other entries are unchanged.
func asMessages(raw json.Raw) json.Raw {
	changed := false
	var out compose.List
	for m := range raw.Elements() {
		if text := asMessage(m); text != nil {
			m, changed = text, true
		}
		out = out.Add(m)
	}
	if !changed {
		return raw
	}
	return out.End()
}

// areStandard reports whether all messages are in the chat API's own form, so asMessage wouldn't change anything.
// Nearly all are, and the check takes only one pass.
func areStandard(messages json.Raw) bool {
	c := messages.Cursor()
	if !c.Enter(json.Array) {
		return true
	}
	for c.Element() {
		var role, content json.Raw
		elsewhere := false // there may be content under another key
		if !c.Enter(json.Object) {
			return false
		}
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			v := c.Value()
			switch string(key.Bytes()) {
			case "role":
				role = v
			case "content":
				content = v
			case "text", "parts":
				elsewhere = true
			}
		}
		if !slices.ContainsFunc(standard, role.Is) || content == nil && elsewhere || isUntyped(content) ||
			isItemContent(content) {
			return false
		}
	}
	return true
}

// alternating converts strings spoken in turn by the user and the assistant to messages.
func alternating(raw json.Raw) json.Raw {
	var out compose.List
	role, next := "user", "assistant"
	for text := range raw.Elements() {
		out = out.Add(compose.Object(nil).Text("role", role).Set("content", text).End())
		role, next = next, role
	}
	return out.End()
}

// said lists the keys of a message's text if its speaker is not under role.
var said = []string{"value", "text", "content", "message", "utterance", "said"}

// asMessage converts an entry to a message. It returns nil if nothing needs changing.
func asMessage(m json.Raw) json.Raw {
	role, ok := m.Get("role")
	value, has := m.Get("content")
	keys := []string{"role", "content"}
	untyped := has && isUntyped(value)
	if untyped {
		value = textParts(value)
	}
	if text, isThere := m.Get("text"); ok && !has && isThere {
		value, keys[1] = text, "text"
		if prompt := session.At(m, "system_prompt"); text.Kind() == json.Null && prompt.Kind() == json.String {
			value = prompt // Nebius's SWE-agent trajectories
		}
	}
	if name := speaker(m); !ok && name != "" {
		role, ok = m.Get(name)
		keys = []string{name, "value"}
		for _, key := range said {
			if v, isThere := m.Get(key); isThere {
				value, keys[1] = v, key
				break
			}
		}
	}
	name, isText := role.Text()
	lower := strings.ToLower(name)
	to, known := roles[lower]
	if !known && name != lower && slices.Contains(standard, lower) {
		to, known = lower, true
	}
	if keys[0] == "role" && keys[1] == "text" && to == "" {
		to, known = lower, true
	}
	if parts, ok := m.Get("parts"); ok && value == nil {
		value, known = textParts(parts), true
		keys[1] = "parts"
		to = cmp.Or(to, lower)
	}
	if !ok || !isText || keys[0] == "role" && !known && !untyped {
		return nil
	}
	if !known {
		to = name
	}
	return rewritten(m, name, to, value, keys)
}

// rewritten returns a message with its role and its value under the usual keys instead of its own.
func rewritten(m json.Raw, name, to string, value json.Raw, keys []string) json.Raw {
	out := compose.Object(nil).Text("role", to)
	if name == "function_call" || name == "tool_call" {
		if calls := callsOf(value); calls != nil {
			out, value = out.Set("tool_calls", calls), nil
		}
	}
	if text, _ := value.Text(); keys[0] != "role" && strings.Contains(text, "<tool_") {
		if results := taggedResults(to, text); results != nil {
			return results
		}
		if said, calls := taggedCalls(to, text); calls != nil {
			value = json.AppendString(nil, said)
			out = out.Set("tool_calls", calls)
		}
	}
	if value == nil {
		value = json.Raw("null")
	}
	out = out.Member(json.Raw(`"content"`), value)
	for key, v := range m.Members() {
		if !key.Is(keys[0]) && !key.Is(keys[1]) {
			out = out.Member(key, v)
		}
	}
	return out.End()
}

// isUntyped reports whether content consists of Amazon-style parts, {"text": ...} without a type.
func isUntyped(content json.Raw) bool {
	n := 0
	for p := range content.Elements() {
		_, typed := p.Get("type")
		if text, _ := p.Get("text"); typed || text.Kind() != json.String {
			return false
		}
		n++
	}
	return n > 0 && content.Kind() == json.Array
}

// textParts converts Google-style and Amazon-style parts, {"text": ...}, to the chat API's parts. It returns other
// parts unchanged.
func textParts(parts json.Raw) json.Raw {
	var out compose.List
	for p := range parts.Elements() {
		if text, ok := p.Get("text"); ok {
			p = compose.Object(nil).Text("type", "text").Member(json.Raw(`"text"`), text).End()
		}
		out = out.Add(p)
	}
	return out.End()
}

// callsOf reads the list of calls from the text of ShareGPT's function_call: an object {"name", "arguments"}, or
// several.
func callsOf(value json.Raw) json.Raw {
	inner, _ := json.Parse([]byte(session.Text(value)), source.InTexts)
	switch inner.Kind() {
	case json.Object:
		return json.Raw("[" + string(inner) + "]")
	case json.Array:
		return inner
	}
	return nil
}
