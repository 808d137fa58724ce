package published

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// maxPrompts is the maximum total size of a tree's prompts, in bytes, because each prompt repeats all messages above
// it.
const maxPrompts = 64 << 20

// isOASST recognises message trees, given as one message per entry or one tree per entry.
func isOASST(h *source.Head) bool {
	return hasAll(h, "message_id", "parent_id", "role", "text") ||
		hasAll(h, "message_tree_id", "prompt") && !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
			root := value(e, "prompt")
			return value(root, "text") == nil || value(root, "role") == nil
		})
}

// oasst reads trees of messages. Each message with answers is a prompt, and its answers are compared.
type oasst struct {
	tree    string
	above   map[string]compose.List // the conversation up to and including a message of the tree
	roles   map[string]string
	prompts int // total size of the prompts, in bytes
}

func newOASST() Rewriter { return (&oasst{}).read }

func (o *oasst) begin(tree string) {
	*o = oasst{tree: tree, above: map[string]compose.List{}, roles: map[string]string{}}
}

func (o *oasst) read(e json.Raw) (string, []Line, error) {
	if root := value(e, "prompt"); root.Kind() == json.Object {
		o.begin(source.IDText(value(e, "message_tree_id")))
		return o.tree, o.walk(root, "", nil), nil
	}
	id, parent := source.IDText(value(e, "message_id")), source.IDText(value(e, "parent_id"))
	if id == "" {
		return "", nil, fmt.Errorf("message_id is null or missing; the keys are: %s", source.KeysOf(e))
	}
	tree := source.IDText(value(e, "message_tree_id"))
	if parent == "" || tree != "" && tree != o.tree {
		tree = cmp.Or(tree, id)
		o.begin(tree)
	}
	return o.tree, o.add(nil, e, id, parent), nil
}

// add adds the line for a message if the message is an answer.
func (o *oasst) add(lines []Line, m json.Raw, id, parent string) []Line {
	switch answer, err := o.message(m, id, parent); {
	case err != nil:
		return append(lines, Line{Err: fmt.Errorf("message %s: %w", id, err)})
	case answer != nil:
		return append(lines, Line{Answer: answer})
	}
	return lines
}

// walk adds the lines for a message and for the messages below it, which are under "replies".
func (o *oasst) walk(m json.Raw, parent string, lines []Line) []Line {
	id := cmp.Or(source.IDText(value(m, "message_id")), parent+"/"+strconv.Itoa(len(o.above)))
	lines = o.add(lines, m, id, parent)
	for reply := range value(m, "replies").Elements() {
		lines = o.walk(reply, id, lines)
	}
	return lines
}

// message returns the line for an answer, or nil for a prompter's message. It stores m, to which the messages below
// it are added.
func (o *oasst) message(m json.Raw, id, parent string) (json.Raw, error) {
	r := reading{Raw: m}
	text, role := r.text("text"), r.text("role")
	switch {
	case r.err != nil:
		return nil, r.err
	case role == "prompter":
		role = "user"
	case role != "assistant":
		return nil, fmt.Errorf("unknown role %q: expected prompter or assistant", role)
	}
	above, known := o.above[parent]
	if parent != "" && !known {
		return nil, fmt.Errorf("cannot find parent message %s earlier in the tree: messages must be "+
			"ordered from the root", parent)
	}
	if o.prompts += len(above) + len(text); o.prompts > maxPrompts {
		return nil, fmt.Errorf("prompts of the message tree exceed %d MiB in total", maxPrompts>>20)
	}
	o.above[id], o.roles[id] = append(compose.List(nil), above...).AddMessage(role, text), role
	switch {
	case role == "user":
		return nil, nil
	case parent == "" || o.roles[parent] != "user":
		return nil, errors.New("not an answer to a prompter's message")
	}
	if deleted, _ := value(m, "deleted").Bool(); deleted {
		return nil, errors.New("deleted")
	}
	if passed, ok := value(m, "review_result").Bool(); ok && !passed {
		return nil, errors.New("failed review")
	}
	rank := r.score("rank") // 0 is the best rank
	line := compose.Object(nil).Name(IDKey, o.tree).Name(TurnKey, parent).Set(PromptKey, above.End())
	line = line.Text(OutputKey, text).Set(ScoreKey, strconv.AppendFloat(nil, 0-rank, 'g', -1, 64))
	metadata := pick(m, "message_id", "lang", "labels", "emojis", "synthetic")
	return line.Set(ModelKey, value(m, "model_name")).Set(MetadataKey, metadata).End(), r.err
}
