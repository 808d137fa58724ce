package source

import (
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Keeper copies the kept parts of an example out of the reader's buffer, into blocks of memory that belong to the
// example. Strings and raw values are stored side by side; equal prompts, and names that recur throughout the input,
// are stored only once.
type Keeper struct {
	block   []byte
	kept    int // number of bytes stored for this example
	turn    string
	last    xxh3.Uint128 // hash of the last prompt
	made    ttc.Prompt   // the last prompt
	prompts map[xxh3.Uint128]ttc.Prompt
	names   map[string]string
}

// Reset starts an example. Its first block has about the size of the previous example, because the examples of an
// input tend to be similar.
func (k *Keeper) Reset() {
	if k.names == nil {
		k.prompts, k.names = map[xxh3.Uint128]ttc.Prompt{}, map[string]string{}
	}
	k.block = make([]byte, 0, min(k.kept+k.kept/8, 1<<20))
	k.kept = 0
	k.turn, k.last, k.made = "", xxh3.Uint128{}, ttc.Prompt{}
	clear(k.prompts)
}

// Text stores a string's text; it is empty for any other kind of value.
func (k *Keeper) Text(raw json.Raw) string {
	b := raw.AppendText(k.room(len(raw)))
	k.block = k.block[:len(k.block)+len(b)]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Raw stores a value. It returns nil for nil.
func (k *Keeper) Raw(raw json.Raw) json.Raw {
	if raw == nil {
		return nil
	}
	b := append(k.room(len(raw)), raw...)
	k.block = k.block[:len(k.block)+len(b)]
	return json.Raw(b[:len(b):len(b)])
}

// room returns an empty slice at the end of the block, with capacity for at least n bytes. If the block lacks that
// capacity, a new block replaces it; the old block stays in memory as long as any part of it is in use.
func (k *Keeper) room(n int) []byte {
	k.kept += n
	if cap(k.block)-len(k.block) < n {
		k.block = make([]byte, 0, max(n, 4<<10))
	}
	at := len(k.block)
	return k.block[at:at:cap(k.block)]
}

// Turn stores a turn id. A turn's candidates, which are usually adjacent, share it.
func (k *Keeper) Turn(raw json.Raw) string {
	if k.turn == "" || !raw.Is(k.turn) {
		k.turn = k.Text(raw)
	}
	return k.turn
}

// Prompt stores a candidate's input: text, messages, or the JSON text of another value. An absent or null prompt is
// the empty text. Equal prompts within an example are parsed once and share their memory.
func (k *Keeper) Prompt(raw json.Raw) ttc.Prompt {
	if raw == nil || raw.Kind() == json.Null {
		return ttc.Prompt{}
	}
	hash := xxh3.Hash128(raw)
	if hash == k.last {
		return k.made
	}
	made, ok := k.prompts[hash]
	if !ok {
		made = k.prompt(raw)
		k.prompts[hash] = made
	}
	k.last, k.made = hash, made
	return made
}

func (k *Keeper) prompt(raw json.Raw) ttc.Prompt {
	switch raw.Kind() {
	case json.String:
		return ttc.Prompt{Form: ttc.TextPrompt, Text: k.Text(raw)}
	case json.Array:
		if messages, err := chat.ParseMessages(raw); err == nil {
			if messages == nil {
				messages = []chat.Message{}
			}
			return ttc.Prompt{Form: ttc.MessagesPrompt, Messages: messages}
		}
	}
	return ttc.Prompt{Form: ttc.OtherPrompt, Text: string(raw)}
}

// maxNameBytes is the maximum length, in bytes, of a string that is stored for reuse because it may recur.
const maxNameBytes = 256

// Name stores a string that recurs throughout the input.
func (k *Keeper) Name(b []byte) string {
	if s, ok := k.names[string(b)]; ok {
		return s
	}
	if k.names == nil {
		k.Reset()
	}
	s := string(b)
	if len(k.names) < 10_000 && len(s) <= maxNameBytes {
		k.names[s] = s
	}
	return s
}
