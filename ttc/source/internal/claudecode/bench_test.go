package claudecode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/sessiontest"
)

// BenchmarkRead reads sessions of 20 turns in which nine bytes in ten are attachments that were never given to a model.
func BenchmarkRead(b *testing.B) {
	const sessions, turns = 20, 20
	attachment := sessiontest.Quote(strings.Repeat("A line of a file that was shown beside. ", 700))
	var out strings.Builder
	for s := range sessions {
		id := fmt.Sprintf("s%d", s)
		parent := "null"
		line := func(uuid, typ, more string) {
			fmt.Fprintf(&out, `{"parentUuid":%s,"type":%q,%s,"uuid":%q,"sessionId":%q,"version":"2.1.0"}`+"\n",
				parent, typ, more, uuid, id)
			parent = `"` + uuid + `"`
		}
		for n := range turns {
			at := fmt.Sprintf("%s-%d", id, n)
			line(at+"f", "attachment", `"attachment":{"type":"file","content":`+attachment+`}`)
			line(at+"q", "user", `"message":{"role":"user","content":`+
				sessiontest.Quote(strings.Repeat("What does "+at+" do? ", 50))+`}`)
			line(at+"a", "assistant", fmt.Sprintf(`"message":{"id":"m%s","role":"assistant","model":"m","content":[`+
				`{"type":"text","text":%s}]}`, at, sessiontest.Quote(strings.Repeat("It reads "+at+". ", 60))))
		}
	}
	sessiontest.Bench(b, Factory(), sessiontest.Write(b, b.TempDir(), "s.jsonl", out.String()), sessions*turns)
}
