package codex

import (
	"fmt"
	"testing"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
)

func (s *script) developer(text string) {
	s.item(
		-1, `{"type":"message","role":"developer","content":[{"type":"input_text","text":%s}]}`, sessiontest.Quote(text),
	)
}

func (s *script) rollBack(turns int) {
	s.line("event_msg", fmt.Sprintf(`{"type":"thread_rolled_back","num_turns":%d}`, turns), "")
}

// TestRollbackCountsTheUsersMessages: what Codex inserts as the user isn't a turn, so a rollback doesn't count it.
func TestRollbackCountsTheUsersMessages(t *testing.T) {
	const aborted = "<turn_aborted>\nstopped\n</turn_aborted>"
	for _, inserted := range []string{
		aborted,
		"# AGENTS.md instructions for /a\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
		"<environment_context>\n<cwd>/a</cwd>\n</environment_context>\n",
		"<skill>\n<name>a</name>\n</skill>",
		"<user_shell_command>\nls\n</user_shell_command>",
		"<subagent_notification>{}</subagent_notification>",
		`<hook_prompt hook_run_id="a">x</hook_prompt>`,
		"<external_a>x</external_a>",
	} {
		s := newScript("s", "")
		s.user("q")
		s.text(1, "a")
		s.user("r")
		s.text(3, "b")
		s.user(inserted)
		s.rollBack(1)
		s.user("R")
		s.text(6, "c")
		want(t, readScript(t, s), "s: sys / q / a* / r / b* || sys / q / a* / R / c*")
	}
	s := newScript("s", "")
	s.user("q")
	s.text(1, "a")
	s.user("<turn_aborted> is what I see") // written by the user
	s.text(3, "b")
	s.rollBack(1)
	s.user("R")
	s.text(5, "c")
	want(t, readScript(t, s), "s: sys / q / a* / <turn_aborted> is what I see / b* || sys / q / a* / R / c*")
	s = newScript("s", "")
	s.user("q")
	s.text(1, "a")
	s.item(-1, `{"type":"message","role":"user","content":[{"type":"input_text","text":"skills"},`+
		`{"type":"input_text","text":"<skill>x</skill>"}]}`) // one inserted part is enough
	s.rollBack(1)
	s.user("R")
	s.text(4, "c")
	want(t, readScript(t, s), "s: sys / q / a* || sys / R / c*")
}

// TestRollbackTakesWhatWasInserted: what Codex inserted before a removed turn goes with the turn, except before the
// first turn, and a rollback of more turns than there are stops there.
func TestRollbackTakesWhatWasInserted(t *testing.T) {
	const environment, switched = "<environment_context>e</environment_context>", "<model_switch>m</model_switch>"
	thread := func(turns int) *script {
		s := newScript("s", "")
		s.developer("rules")
		s.user(environment)
		s.user("q")
		s.text(3, "a")
		s.developer("note")
		s.developer(switched)
		s.user(environment)
		s.user("r")
		s.text(8, "b")
		s.rollBack(turns)
		s.user("R")
		s.text(10, "c")
		return s
	}
	head := "sys / rules / " + environment
	before := head + " / q / a* / note / " + switched + " / " + environment + " / r / b* || "
	want(t, readScript(t, thread(1)), "s: "+before+head+" / q / a* / note / R / c*")
	want(t, readScript(t, thread(2)), "s: "+before+head+" / R / c*")
	want(t, readScript(t, thread(9)), "s: "+before+head+" / R / c*")
	if gaps := readScript(t, thread(1)).Examples[0].Gaps; gaps&ttc.RebuiltHistory == 0 {
		t.Errorf("got gaps %v, which don't say that the history was rebuilt", gaps.Names())
	}
}
