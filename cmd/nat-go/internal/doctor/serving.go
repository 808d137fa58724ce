package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Serving describes the differences between the folder from which a model is served and the folder used for training.
type Serving struct {
	Dir      string       `json:"dir"`
	Checked  []string     `json:"checked"` // descriptions of the compared parts, such as "special tokens"
	Findings []Difference `json:"findings"`
}

// Difference is a difference that matters when the model is served.
type Difference struct {
	About string `json:"about"` // template, vocabulary, tokenizer, special_tokens, stop or model
	Text  string `json:"text"`
}

func (s *Serving) text(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s  compared: %s\n", s.Dir, strings.Join(s.Checked, ", "))
	for _, f := range s.Findings {
		fmt.Fprintf(b, "  %s: %s\n", f.About, f.Text)
	}
	if len(s.Findings) == 0 {
		b.WriteString("  the model is served as it was trained\n")
	}
}

func (s *Serving) find(about, format string, a ...any) {
	s.Findings = append(s.Findings, Difference{about, fmt.Sprintf(format, a...)})
}

// folder is one side of the comparison.
type folder struct {
	dir    string
	tok    *tokenizer.Tokenizer
	render *turns.Renderer
	file   *vocabulary
}

// compareServing compares cfg's template and the tokenizer in dir with those in the folder from which a model is
// served. To compare the templates, it renders the inputs' conversations.
func compareServing(cfg collator.Config, dir, serving string, inputs []*Input) (*Serving, error) {
	s := &Serving{Dir: serving, Findings: []Difference{}}
	render, err := rendererOf(cfg, cfg.Tokenizer, cfg.Template)
	if err != nil {
		return nil, err
	}
	ours := folder{dir: dir, tok: cfg.Tokenizer, render: render}
	theirs := folder{dir: serving}
	if theirs.tok, err = tokenizer.Load(serving); err != nil {
		return nil, fmt.Errorf("%s: %w", serving, err)
	}
	defer theirs.tok.Close()
	for _, f := range []*folder{&ours, &theirs} {
		if f.file, err = readVocabulary(f.dir); err != nil {
			return nil, err
		}
	}
	s.compareVocabularies(ours.file, theirs.file)
	s.compareSpecials(ours.tok.Config, theirs.tok.Config)
	text, err := collator.TemplateText(theirs.tok.Config, "")
	if err != nil || text == collator.PlainTemplate {
		s.find("template", "the chat template is missing, so a server uses a different template or rejects chat requests")
	} else if theirs.render, err = rendererOf(cfg, theirs.tok, text); err != nil {
		s.find("template", "cannot compile the chat template: %v", err)
	} else {
		s.compareTemplates(cfg.Template == text, &ours, &theirs, inputs)
	}
	return s, s.checkStops(&ours, &theirs)
}

func rendererOf(cfg collator.Config, tok *tokenizer.Tokenizer, text string) (*turns.Renderer, error) {
	at := cfg.TemplateTime
	if at.IsZero() {
		at, _ = collator.ParseTemplateTime(collator.DefaultTemplateTime)
	}
	return turns.New(text, turns.Settings{Vars: collator.TemplateVars(tok.Config, cfg.TemplateVars), Now: at})
}

// vocabulary holds the token ids in a tokenizer.json, and the parts of the file that determine how text is split.
type vocabulary struct {
	ids   map[string]int
	parts map[string]json.RawMessage
}

// readVocabulary reads the tokenizer.json in dir, or dir itself if it is a file.
func readVocabulary(dir string) (*vocabulary, error) {
	path := dir
	if !isFile(dir) {
		path = filepath.Join(dir, "tokenizer.json")
	}
	var file struct {
		Model struct {
			Type   string          `json:"type"`
			Vocab  json.RawMessage `json:"vocab"`
			Merges json.RawMessage `json:"merges"`
		} `json:"model"`
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
		Normalizer    json.RawMessage `json:"normalizer"`
		PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
		PostProcessor json.RawMessage `json:"post_processor"`
	}
	if err := readJSON(path, tokenizer.MaxTokenizerBytes, &file); err != nil {
		return nil, err
	}
	v := &vocabulary{ids: map[string]int{}, parts: map[string]json.RawMessage{
		"merges": file.Model.Merges, "normalizer": file.Normalizer,
		"pre_tokenizer": file.PreTokenizer, "post_processor": file.PostProcessor,
	}}
	if json.Unmarshal(file.Model.Vocab, &v.ids) != nil {
		var pieces [][2]any // each piece of a unigram model is [text, score]
		if err := json.Unmarshal(file.Model.Vocab, &pieces); err != nil {
			return nil, fmt.Errorf("%s: model.vocab is neither a table nor a list of pieces", path)
		}
		for i, p := range pieces {
			text, _ := p[0].(string)
			v.ids[text] = i
		}
	}
	for _, a := range file.Added {
		v.ids[a.Content] = a.ID
	}
	return v, nil
}

// readJSON reads a file of bounded size.
func readJSON(path string, limit int64, to any) error {
	b, err := durable.ReadFile(path, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// compareVocabularies compares ids and the parts that decide how text is split.
func (s *Serving) compareVocabularies(ours, theirs *vocabulary) {
	s.Checked = append(s.Checked, fmt.Sprintf("vocabulary of %d tokens", len(ours.ids)))
	var missing, moved []string
	for _, token := range slices.Sorted(maps.Keys(ours.ids)) {
		switch id, ok := theirs.ids[token]; {
		case !ok:
			missing = append(missing, strconv.Quote(token))
		case id != ours.ids[token]:
			moved = append(moved, fmt.Sprintf("%q is %d there, %d here", token, id, ours.ids[token]))
		}
	}
	if len(moved) > 0 {
		s.find("vocabulary", "%s with a different id: %s", quantity(len(moved), "token"), firstOf(moved))
	}
	if len(missing) > 0 {
		s.find("vocabulary", "%s of the training vocabulary missing: %s", quantity(len(missing), "token"),
			firstOf(missing))
	}
	if extra := len(theirs.ids) - (len(ours.ids) - len(missing)); extra > 0 {
		s.find("vocabulary", "%s not in the training vocabulary", quantity(extra, "token"))
	}
	for _, part := range slices.Sorted(maps.Keys(ours.parts)) {
		if !sameJSON(ours.parts[part], theirs.parts[part]) {
			s.find("tokenizer", "%s differs: the same text may be split differently", part)
		}
	}
}

func firstOf(list []string) string {
	const maxListed = 3
	if len(list) > maxListed {
		list = append(list[:maxListed:maxListed], "...")
	}
	return strings.Join(list, ", ")
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y) // a missing value counts as null
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// compareSpecials compares the special tokens that templates refer to by name.
func (s *Serving) compareSpecials(ours, theirs *tokenizer.Config) {
	s.Checked = append(s.Checked, "special tokens")
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
		a, inOurs := ours.Token(name)
		b, inTheirs := theirs.Token(name)
		if a != b || inOurs != inTheirs {
			s.find("special_tokens", "%s is %s there, %s here", name, orNone(b, inTheirs), orNone(a, inOurs))
		}
	}
}

func orNone(text string, ok bool) string {
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%q", text)
}

// compareTemplates compares the text that the templates render for the rows' conversations and for a few built-in
// ones. If the text is the same, it compares the ids that the folders' tokenizers produce.
func (s *Serving) compareTemplates(sameText bool, ours, theirs *folder, inputs []*Input) {
	conversations := probes()
	for _, in := range inputs {
		for _, r := range in.rows {
			if c := r.conversation(); c != nil {
				conversations = append(conversations, c)
			}
		}
	}
	count := quantity(len(conversations), "conversation")
	s.Checked = append(s.Checked, "template, on "+count)
	texts, cut, first := 0, 0, ""
	for _, c := range conversations {
		a, errA := ours.render.Render(c)
		b, errB := theirs.render.Render(c)
		switch {
		case errA != nil && errB != nil:
		case errA != nil || errB != nil || a.Text != b.Text:
			if texts++; texts == 1 {
				first = contrast(a.Text, b.Text, errA, errB)
			}
		default:
			x, errX := ours.tok.Encode(a.Text, tokenizer.Options{ParseSpecial: true})
			y, errY := theirs.tok.Encode(b.Text, tokenizer.Options{ParseSpecial: true})
			if errX != nil || errY != nil || !slices.Equal(x.IDs, y.IDs) {
				cut++
			}
		}
	}
	switch {
	case texts > 0:
		s.find("template", "%d of %s rendered differently: %s", texts, count, first)
	case !sameText:
		s.Checked = append(s.Checked, "(the templates differ, but their output is the same)")
	}
	if cut > 0 {
		s.find("tokenizer", "%s with the same text tokenised differently", quantity(cut, "conversation"))
	}
}

// contrast describes the first difference between a, which the training template renders, and b, which the serving
// template renders. If a template rejects the conversation, contrast names that template.
func contrast(a, b string, errA, errB error) string {
	switch {
	case errA != nil:
		return fmt.Sprintf("the training template rejects the conversation (%v)", errA)
	case errB != nil:
		return fmt.Sprintf("the serving template rejects the conversation (%v)", errB)
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return fmt.Sprintf("after %q the serving template writes %q, the training template %q", a[max(0, at-20):at],
		b[at:min(len(b), at+40)], a[at:min(len(a), at+40)])
}

// conversation returns a row's input for templates, or nil if the row contains tokens or can't be rendered.
func (r *row) conversation() *turns.Conversation {
	if r.item == nil {
		return nil
	}
	rec := r.item.Record
	nodes := nodesOf(rec.Messages, "user")
	if len(r.roles) == 2 {
		nodes = append(nodesOf(rec.Prompt, "user"), nodesOf(rec.Chosen, "assistant")...)
	}
	messages := lists.Map(nodes, func(n ttc.Node) chat.Message { return n.Message })
	values, err := template.Conversation(messages)
	tools, toolsErr := template.ToolList(rec.Origin.Tools)
	if err != nil || toolsErr != nil {
		return nil
	}
	return &turns.Conversation{Messages: values, Tools: tools}
}

// probes returns short conversations that most templates accept.
func probes() (out []*turns.Conversation) {
	say := func(role, text string) chat.Message { return chat.Message{Role: role, Form: chat.Text, Text: text} }
	for _, messages := range [][]chat.Message{
		{say("user", "Hello")},
		{say("user", "Hello"), say("assistant", "Hi."), say("user", "Bye")},
		{say("system", "Be brief."), say("user", "Hello"), say("assistant", "Hi.")},
	} {
		values, _ := template.Conversation(messages) // cannot fail for these messages
		out = append(out, &turns.Conversation{Messages: values, Open: messages[len(messages)-1].Role == "user"})
	}
	return out
}

// checkStops checks that the server stops at a token with which trained turns end, and that the model has an
// embedding for each id.
func (s *Serving) checkStops(ours, theirs *folder) error {
	type config struct {
		EOS   json.RawMessage `json:"eos_token_id"`
		Vocab int             `json:"vocab_size"`
		Text  struct {
			Vocab int `json:"vocab_size"`
		} `json:"text_config"`
	}
	var generation, model config
	for name, to := range map[string]*config{"generation_config.json": &generation, "config.json": &model} {
		if err := readJSON(filepath.Join(theirs.dir, name), tokenizer.MaxConfigBytes, to); err != nil &&
			!errors.Is(err, fs.ErrNotExist) && !isFile(theirs.dir) {
			return err
		}
	}
	if size := max(model.Vocab, model.Text.Vocab); size > 0 && size <= int(ours.tok.MaxID()) {
		s.find("model", "config.json has a vocabulary of %d tokens, but training uses ids up to %d", size,
			ours.tok.MaxID())
	}
	s.Checked = append(s.Checked, "stop tokens")
	stops := idsOf(generation.EOS)
	if stops == nil {
		stops = idsOf(model.EOS)
	}
	if text, ok := theirs.tok.Config.Token("eos_token"); ok {
		if id, ok := theirs.tok.ID(text); ok {
			stops = append(stops, int(id))
		}
	}
	var ends []string
	for _, text := range ours.render.Terminators() {
		for name, id := range ours.file.ids {
			if !strings.HasPrefix(text, name) || name == "" || !ours.tok.IsSpecial(int32(id)) {
				continue
			}
			if slices.Contains(stops, id) {
				return nil
			}
			ends = append(ends, fmt.Sprintf("%q (%d)", name, id))
		}
	}
	if len(ends) > 0 {
		slices.Sort(ends)
		s.find("stop", "turns are trained to end with %s, but the server stops only at %v, so it would continue past the end of a turn", strings.Join(slices.Compact(ends), ", "), stops)
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// idsOf parses an id or a list of ids. It returns nil for anything else.
func idsOf(raw json.RawMessage) (ids []int) {
	var one *int
	if json.Unmarshal(raw, &one) == nil && one != nil {
		return []int{*one}
	}
	_ = json.Unmarshal(raw, &ids)
	return ids
}
