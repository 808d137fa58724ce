//go:build linux

package hostile

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// repeated writes begin, then each n times, with its number in place of %[1]d, and then end.
func repeated(begin, each, end string, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		_, _ = b.WriteString(begin) // Flush reports whether all was written
		for i := 1; i <= n; i++ {
			text := each
			if strings.Contains(each, "%[1]d") {
				text = fmt.Sprintf(each, i, i-1)
			}
			if _, err := b.WriteString(text); err != nil {
				return err
			}
		}
		_, _ = b.WriteString(end)
		return b.Flush()
	}
}

// sessionAttacks are attacks by stored sessions: many small things in one, calls that each repeat a long history, long
// ids.
func sessionAttacks() (as []attack) {
	const million = 1_000_000
	long := strings.Repeat("x", 1<<20)
	const (
		claude = `{"parentUuid":"u%[2]d","isSidechain":false,"type":"assistant","uuid":"u%[1]d","sessionId":"s",` +
			`"timestamp":"2026-03-01T22:38:00Z","message":{"id":"m%[1]d","role":"assistant","model":"x","content":[`
		codexHead = `{"timestamp":"2026-11-20T23:23:01Z","ordinal":0,"type":"session_meta","payload":{"id":"s","base_instructions":{"text":"y"}}}` + "\n"
		codexItem = `{"timestamp":"2026-11-20T23:23:01Z","ordinal":1,"type":"response_item","payload":{"type":"message","role":"%s","content":[`
		steps     = `{"schema_version":"ATIF-v1.7","session_id":"s","agent":{"name":"a"},"steps":[` +
			`{"source":"user","message":"q"}`
		episode = `{"id":"e","env":{"id":"E"},"task":{},"ok":true,"errors":[],"traces":[`
		trace   = `{"version":1,"id":"t","agent":{"name":"a"},"ok":true,"nodes":[` +
			`{"parent":null,"message":{"role":"user","content":"q"},"sampled":false}`
		spans = `{"resourceSpans":[{"scopeSpans":[{"spans":[`
		span  = `{"traceId":"%032[1]d","spanId":"%016[1]d","attributes":[` +
			`{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}`
	)
	first := fmt.Sprintf(claude, 0, 0) + `{"type":"text","text":"a"}]}}` + "\n"
	answer := strings.ReplaceAll(fmt.Sprintf(codexItem, "assistant"), "%", "%%")
	asked := fmt.Sprintf(codexItem, "user")
	for _, c := range []struct {
		name, source string
		text         func(io.Writer) error
	}{
		{"empty blocks", "claude_code", repeated(first+fmt.Sprintf(claude, 1, 0), "{},", "{}]}}\n", 9*million)},
		{"blocks", "claude_code", repeated(
			first+fmt.Sprintf(claude, 1, 0), `{"type":"text","text":""},`, "{}]}}\n", million,
		)},
		{"long chain", "claude_code", repeated(first, claude+`{"type":"text","text":"a"}]}}`+"\n", "", 30_000)},
		{"empty parts", "codex", repeated(codexHead+asked, "{},", "{}]}}\n", 9*million)},
		{"long history", "codex", repeated(
			codexHead, asked+`{"type":"input_text","text":"q"}]}}`+"\n"+
				answer+`{"type":"output_text","text":"a"}]}}`+"\n", "", 30_000,
		)},
		{"empty steps", "atif", repeated(steps, ",{}", "]}", 9*million)},
		{"long history", "atif", repeated(steps, `,{"source":"agent","message":"a"}`, "]}", 150_000)},
		{"empty traces", "verifiers", repeated(episode, "{},", "{}]}\n", 9*million)},
		{"long chain", "verifiers", repeated(
			episode+trace, `,{"parent":%[2]d,"message":{"role":"assistant","content":"a%[1]d"},"sampled":true}`,
			"]}]}\n", 60_000,
		)},
		{"empty messages in a text", "otlp", repeated(
			spans+fmt.Sprintf(span, 1)+`,{"key":"gen_ai.input.messages","value":{"stringValue":"[`, "{},",
			`{}]"}},{"key":"gen_ai.output.messages","value":{"stringValue":"[{}]"}}]}]}]}]}`+"\n", 9*million,
		)},
		{"empty attributes", "otlp", repeated(spans+fmt.Sprintf(span, 1), ",{}", "]}]}]}]}\n", 9*million)},
	} {
		as = append(as, attack{
			name: c.source + " " + c.name, config: fmt.Sprintf(memoryConfig, c.source+", path: in.json"),
			pipe: c.text, code: 1, says: "session_too_large",
		})
	}
	ids := strings.Replace(fmt.Sprintf(memoryConfig, "otlp, path: in.json"), "dpo", "sft", 1)
	const said = `,{"key":"gen_ai.%s.messages","value":{"stringValue":` +
		`"[{\"role\":\"%s\",\"parts\":[{\"type\":\"text\",\"content\":\"a\"}]}]"}}`
	each := spans + span + fmt.Sprintf(said, "input", "user") + fmt.Sprintf(said, "output", "assistant") +
		`,{"key":"session.id","value":{"stringValue":"%[1]d` + long + `"}}]}]}]}]}` + "\n"
	texts := `{"messages":"[` + strings.Repeat(`{\"role\":\"user\",\"content\":\"a\"},`, 300_000) +
		`{\"role\":\"assistant\",\"content\":\"a\"}]"}` + "\n"
	sums := "{_type: workflow_output, path: w.json}}\ndataset: {scores: {path: in.json}, formats: [trl]}\n"
	scored := strings.Replace(memoryConfig, "{_type: %s}}\ndataset: {formats: [trl]}\n", sums, 1)
	return append(
		as,
		attack{name: "otlp long ids", config: ids, pipe: repeated("", each, "", 600), says: "completed"},
		attack{
			name: "traces messages in a text", config: strings.Replace(ids, "otlp", "traces", 1),
			pipe: repeated("", texts, "", 1), code: 1, says: "bad_example",
		},
		attack{
			name: "scores of long ids", config: scored, files: map[string]string{"w.json": e2e.SmallInput},
			pipe: repeated("", `{"id":"%[1]d`+long[:1<<19]+`","score":1}`+"\n", "", 2000), code: 2,
			says: "score ids take more than",
		},
	)
}
