//go:build linux

package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// field returns a field of bytes in protobuf.
func field(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(parts, nil))
}

// span returns a span of a model call, with more fields.
func span(number uint64, more ...[]byte) []byte {
	attribute := func(key, value string) []byte {
		return field(9, field(1, []byte(key)), field(2, field(1, []byte(value))))
	}
	said := func(role string) string { return `[{"role":"` + role + `","parts":[{"type":"text","content":"a"}]}]` }
	id := binary.BigEndian.AppendUint64(nil, number)
	return bytes.Join([][]byte{
		field(1, make([]byte, 8), id), field(2, id), attribute("gen_ai.operation.name", "chat"),
		attribute("gen_ai.input.messages", said("user")), attribute("gen_ai.output.messages", said("assistant")),
		bytes.Join(more, nil),
	}, nil)
}

// exportOf writes an export request for each of n spans, preceded by its length.
func exportOf(n int, span func(i int) []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		for i := range n {
			request := field(1, field(2, field(2, span(i))))
			_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// protobufAttacks are attacks by spans in protobuf, which take far more memory as JSON or as the lists that they are,
// and by sessions that take much memory before there is one.
func protobufAttacks() (as []attack) {
	const size = 31 << 20
	empty := func(number protowire.Number) []byte { return bytes.Repeat(field(number), size/2) }
	value := func(parts ...[]byte) []byte { return field(9, field(1, []byte("x")), field(2, parts...)) }
	for name, more := range map[string][]byte{
		"empty attributes":       empty(9),
		"empty events":           empty(11),
		"empty members":          value(field(6, empty(1))),
		"empty values":           value(field(5, empty(1))),
		"attributes of an event": field(11, empty(3)),
		"control characters":     value(field(1, bytes.Repeat([]byte{1}, size))),
		"bytes":                  value(field(7, make([]byte, size))),
		"a long id":              field(4, make([]byte, size)),
		"names":                  empty(5),
		"statuses":               empty(15),
	} {
		as = append(as, attack{
			name: "otlp in protobuf " + name, config: fmt.Sprintf(memoryConfig, "otlp, path: in.json"),
			pipe: exportOf(1, func(int) []byte { return span(1, more) }), code: 1, says: "session_too_large",
		})
	}
	as = append(as, attack{
		name:   "otlp names of many sessions",
		config: fmt.Sprintf(memoryConfig, "otlp, path: in.json"),
		pipe: exportOf(1_000_000, func(i int) []byte {
			name := fmt.Sprintf("%0300d", i)
			return span(uint64(i), field(9, field(1, []byte("session.id")), field(2, field(1, []byte(name)))))
		}),
		code: 1,
		says: "max_names_bytes",
	})
	const response = `{"request":{"model":"m","input":"q","previous_response_id":"%[2]d"},"response":{"id":"%[1]d",` +
		`"object":"response","output":[{"type":"message","role":"assistant","content":` +
		`[{"type":"output_text","text":"a%[1]d"}]}]}}` + "\n"
	const event = `{"kind":"scope","atof_version":"0.1","uuid":"%[1]d","propagation_root_uuid":"%[1]dLONG",` +
		`"timestamp":"2026-01-01T00:00:00Z","category":"llm","scope_category":"start","name":"x",` +
		`"metadata":{"session_id":"%[1]dLONG"},"data":{}}` + "\n"
	first := strings.Replace(fmt.Sprintf(response, 0, 0), `,"previous_response_id":"0"`, "", 1)
	// Each response continues the one before, and the first continues the last.
	circle := func(w io.Writer) error {
		n := 20_000
		if _, err := fmt.Fprintf(w, response, 0, n); err != nil {
			return err
		}
		return repeated("", response, "", n)(w)
	}
	for _, c := range []struct {
		name, source string
		text         func(io.Writer) error
		says         string
	}{
		{"long chain", "responses", repeated(first, response, "", 22_000), "session_too_large"},
		{"longer chain", "responses", repeated(first, response, "", 100_000), "session_too_large"},
		{"circle", "responses", circle, "missing_history"},
		{
			"long ids",
			"atof",
			repeated("", strings.ReplaceAll(event, "LONG", strings.Repeat("x", 2<<20)), "", 200),
			"failed_call",
		},
	} {
		as = append(as, attack{
			name: c.source + " " + c.name, config: fmt.Sprintf(memoryConfig, c.source+", path: in.json"),
			pipe: c.text, code: 1, says: c.says,
		})
	}
	const rollout = `{"id":"r%[1]d","task":"t","reward":%[1]d,"messages":[{"role":"user","content":"q%[1]d"},` +
		`{"role":"assistant","content":"a"}]}` + "\n"
	diverging := func(compare, source string) string {
		config := fmt.Sprintf(memoryConfig, source)
		return strings.Replace(config, "dpo_traj_builder", "divergence_traj_builder, compare: "+compare, 1)
	}
	return append(as, attack{
		name: "branches of a long session", config: diverging("branches", "claude_code, path: in.jsonl"),
		files: map[string]string{"in.jsonl": comb(1800)}, code: 1, says: "builder_failed",
	}, attack{
		name:   "rollouts with setups of their own",
		config: diverging("rollouts", "traces, path: in.json, task_key: task"),
		pipe:   repeated("", rollout, "", 70_000),
		code:   1,
		says:   "different_setup",
	})
}

// comb returns a session of so many turns, each of which has an answer that the session didn't go on from.
func comb(turns int) string {
	const line = `{"parentUuid":%s,"isSidechain":false,"type":"%s","uuid":"%s","sessionId":"s",` +
		`"timestamp":"2026-03-01T22:38:00Z","message":%s}` + "\n"
	const answer = `{"id":"m%[1]s","role":"assistant","model":"x","content":[{"type":"text","text":"%[1]s"}]}`
	var b strings.Builder
	before := "null"
	for i := range turns {
		question := fmt.Sprintf("q%d", i)
		fmt.Fprintf(&b, line, before, "user", question, `{"role":"user","content":"`+question+`"}`)
		for _, name := range []string{fmt.Sprintf("left%d", i), fmt.Sprintf("kept%d", i)} {
			fmt.Fprintf(&b, line, `"`+question+`"`, "assistant", name, fmt.Sprintf(answer, name))
		}
		before = fmt.Sprintf(`"kept%d"`, i)
	}
	return b.String()
}
