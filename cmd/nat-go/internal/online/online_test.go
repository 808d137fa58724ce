//go:build tokenizers

package online

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/internal/tensors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hints = "../../../../examples/hints/"

// examples returns the traces of examples/hints as a JSON list.
func examples(t *testing.T) json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(hints + "traces.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return json.RawMessage("[" + strings.Join(strings.Split(strings.TrimSpace(string(data)), "\n"), ",") + "]")
}

func framed(v any) []byte {
	text, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v)
		text = string(b)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// answered is the answer to a frame.
type answered struct {
	Ready *Ready
	Answer
	Error *Error
	body  []byte
}

func (a *answered) shapes(t *testing.T) map[string][]int {
	t.Helper()
	f, err := tensors.Open(bytes.NewReader(a.body), int64(len(a.body)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]int{}
	for _, x := range all {
		out[x.Name] = x.Shape
	}
	return out
}

func read(t *testing.T, out io.Reader) *answered {
	t.Helper()
	var lengths [12]byte
	if _, err := io.ReadFull(out, lengths[:]); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	head := make([]byte, binary.LittleEndian.Uint32(lengths[:]))
	a := &answered{body: make([]byte, binary.LittleEndian.Uint64(lengths[4:]))}
	for _, b := range [][]byte{head, a.body} {
		if _, err := io.ReadFull(out, b); err != nil {
			t.Fatalf("the answer is cut short: %v", err)
		}
	}
	if err := json.Unmarshal(head, a); err != nil {
		t.Fatalf("%v: %s", err, head)
	}
	return a
}

// serve answers all frames and returns how it ended.
func serve(t *testing.T, frames ...[]byte) ([]*answered, error) {
	t.Helper()
	var out bytes.Buffer
	err := Serve(t.Context(), bytes.NewReader(bytes.Join(frames, nil)), &out)
	var all []*answered
	for out.Len() > 0 {
		all = append(all, read(t, &out))
	}
	return all, err
}

func settings(channels ...string) map[string]any {
	return map[string]any{
		"tokenizer": hints + "tokenizer", "channels": channels, "collator": map[string]any{"policy": "booker-1"},
	}
}

// TestAnswers checks that the requested channels come with their rows in order and with books that balance, and that
// each request is independent.
func TestAnswers(t *testing.T) {
	request := framed(map[string]any{"id": 7, "traces": examples(t)})
	all, err := serve(t, framed(settings("sdpo", "sft")), request, request)
	if err != nil || len(all) != 3 || all[0].Ready == nil || all[0].Ready.VocabSize == 0 {
		t.Fatalf("%v: %+v", err, all)
	}
	if !bytes.Equal(all[1].body, all[2].body) {
		t.Error("the same request got a different answer the second time")
	}
	a := all[1]
	shapes := a.shapes(t)
	if a.ID != 7 || len(a.Channels) != 2 || shapes["sft.labels"][0] != 2 || shapes["sdpo.student_input_ids"][0] != 4 {
		t.Errorf("%d: %+v %v", a.ID, a.Channels, shapes)
	}
	for _, m := range a.Channels {
		if m.Channel == "sdpo" && strings.Join(m.Examples, " ") != "video-0 video-1 small-0 small-1" {
			t.Errorf("the examples are %v", m.Examples)
		}
	}
	dropped := int64(0)
	for _, acc := range a.Books {
		if acc.In != acc.Out+acc.DroppedTotal() {
			t.Errorf("the books don't balance: %+v", acc)
		}
		dropped += acc.DroppedTotal()
	}
	told := a.LeftOut
	for _, d := range a.Drops {
		told += d.N()
	}
	if dropped == 0 || told != dropped {
		t.Errorf("%d were dropped, %d were reported", dropped, told)
	}
}

// TestComposer checks that the composer format gives one set of tensors, with the names of the reference collator, and
// none without rows.
func TestComposer(t *testing.T) {
	s := settings("rl", "sdpo", "dpo")
	s["collator"] = map[string]any{"format": "composer", "rl": map[string]any{"ids": "rendered"}}
	text := `{"traces": [{"turns": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
		"final_reward": 1, "dpo_pairs": [{"state_messages": [{"role": "user", "content": "Hi"}], "chosen": "Yes",
		"rejected": "No"}]}]}`
	all, err := serve(t, framed(s), framed(text), framed(`{"traces": []}`))
	if err != nil || len(all) != 3 {
		t.Fatalf("%v: %+v", err, all)
	}
	shapes := all[1].shapes(t)
	for _, name := range []string{"input_ids", "attention_mask", "response_mask", "rewards", "dpo_chosen_input_ids"} {
		if shapes[name] == nil || shapes[name][0] != 1 {
			t.Errorf("%s has shape %v: %+v", name, shapes[name], all[1].Drops)
		}
	}
	if len(all[2].shapes(t)) != 0 {
		t.Errorf("a request without traces gives %v", all[2].shapes(t))
	}
}

// TestRefused checks that a request that can't be answered is refused with what is wrong, where and why, and that the
// next one is answered.
func TestRefused(t *testing.T) {
	s := settings("sft")
	s["request_bytes"] = 60_000
	s["collator"] = map[string]any{"batch_tokens": 5000, "max_length": 1000}
	s["builders"] = map[string]any{"sft": map[string]any{"select": "all"}}
	good := framed(map[string]any{"id": 1, "traces": examples(t)})
	many := framed(map[string]any{"id": 2, "traces": json.RawMessage("[" +
		strings.Trim(strings.Repeat(","+strings.Trim(string(examples(t)), "[]"), 4), ",") + "]")})
	for name, c := range map[string]struct {
		frame             []byte
		code, where, what string
	}{
		"text":     {framed("nonsense"), badRequest, "", "not JSON"},
		"half":     {framed(`{"traces": [`), badRequest, "", "not JSON"},
		"a list":   {framed("[]"), badRequest, "", "expected an object"},
		"no list":  {framed(`{"id": 3, "traces": {}}`), badRequest, "traces", "expected a list"},
		"an id":    {framed(`{"id": "x", "traces": []}`), badRequest, "id", "expected a whole number"},
		"deep":     {framed(strings.Repeat("[", 5000)), badRequest, "", "not JSON"},
		"too long": {framed(strings.Repeat(" ", 60_001)), tooLarge, "", "the limit is 60000"},
		"too many": {many, tooLarge, "traces", "the budget is 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := serve(t, framed(s), c.frame, good)
			if err != nil || len(all) != 3 {
				t.Fatalf("%v, %d answers", err, len(all))
			}
			e := all[1].Error
			if e == nil || e.Code != c.code || e.Where != c.where || !strings.Contains(e.Message, c.what) {
				t.Errorf("the error is %+v", e)
			}
			if all[2].Error != nil || len(all[2].Channels) != 1 {
				t.Errorf("the next answer is %+v", all[2])
			}
		})
	}
}

// TestSettings checks that a mistake in the settings is reported with its position and ends the collator.
func TestSettings(t *testing.T) {
	with := func(key string, value any) map[string]any {
		s := settings("rl")
		s[key] = value
		return s
	}
	for where, s := range map[string]any{
		"settings":                      `{"tokeniser": "x"}`,
		"tokenizer":                     with("tokenizer", hints+"nothing"),
		"channels":                      with("channels", []string{"rl", "grpo"}),
		"builders":                      with("builders", map[string]any{"dpo": map[string]any{}}),
		"/collator/max_tokens":          with("collator", map[string]any{"max_tokens": 3}),
		"/collator/template":            with("collator", map[string]any{"template": "nothing.jinja"}),
		"/collator/teacher":             with("collator", map[string]any{"teacher": map[string]any{"dumps": "x"}}),
		"/collator":                     with("collator", map[string]any{"max_length": 100, "batch_tokens": 10}),
		"/sources/traces/reward_kye":    with("source", map[string]any{"reward_kye": "r"}),
		"/sources/traces":               with("source", map[string]any{"tools_file": hints + "nothing"}),
		"/trajectory_builders/rl/other": with("builders", map[string]any{"rl": map[string]any{"other": 1}}),
	} {
		t.Run(where, func(t *testing.T) {
			all, err := serve(t, framed(s), framed(`{"traces": []}`))
			if err == nil || len(all) != 1 || all[0].Error == nil || all[0].Error.Code != badSettings ||
				all[0].Error.Where != where || all[0].Error.Message == "" {
				t.Errorf("%s: %v", where, err)
			}
		})
	}
}

// TestEnds checks that the collator ends with its input, even if that is empty; an input that ends in the middle of a
// frame is an error.
func TestEnds(t *testing.T) {
	whole := framed(settings("rl"))
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{nil, ""},
		{whole, ""},
		{whole[:2], "end of input in the length"},
		{whole[:20], "end of input after 16 of"},
		{append(bytes.Clone(whole), 9, 0, 0, 0, '{'), "end of input after 1 of 9 bytes of a frame"},
		{append(bytes.Clone(whole), 255, 255, 255, 255, '{'), "end of input after 1 of"},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := serve(t, c.in)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("after %d bytes: got %v, want %q", len(c.in), err, c.want)
			}
		})
	}
	// A signal also ends it while it is waiting.
	ctx, stop := context.WithCancel(t.Context())
	in, send := io.Pipe()
	receive, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, in, out) }()
	go func() { _, _ = send.Write(whole) }()
	read(t, receive)
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the signal did not end it")
	}
	send.Close() // this is what ends the reading
}

// TestSignalsAreHeard checks that a signal ends the collator before its settings arrive, and while its answer isn't
// read.
func TestSignalsAreHeard(t *testing.T) {
	for name, frames := range map[string][][]byte{
		"no settings":       nil,
		"half settings":     {framed(settings("rl"))[:9]},
		"ready is not read": {framed(settings("rl"))},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			in, send := io.Pipe()
			receive, out := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, in, out) }()
			for _, frame := range frames {
				if _, err := send.Write(frame); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(50 * time.Millisecond) // it has begun to write an answer, which isn't read
			stop()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the signal did not end it")
			}
			send.Close()
			receive.Close() // these end the blocked read and the blocked write
		})
	}
}

// TestAnswerNobodyReads checks that a signal ends the collator while an answer waits for its reader.
func TestAnswerNobodyReads(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, send := io.Pipe()
	receive, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, in, out) }()
	go func() { _, _ = send.Write(framed(settings("rl"))) }()
	read(t, receive)
	if _, err := send.Write(framed(map[string]any{"id": 1, "traces": examples(t)})); err != nil {
		t.Fatal(err)
	}
	if _, err := receive.Read(make([]byte, 4)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the signal did not end it")
	}
	send.Close()
	receive.Close()
}
