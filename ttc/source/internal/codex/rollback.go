package codex

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// rollBack removes the last n turns. A turn begins at a message that the user wrote. The messages that Codex inserted
// directly before the earliest removed turn are removed as well, but everything before the first turn of the history
// remains.
//
// Versions of Codex differ in the messages that they insert and that a rollback removes, so later calls are marked.
func (t *thread) rollBack(n int64) {
	t.close()
	t.rebuilt = true
	first, cut := -1, -1
	for i, e := range slices.Backward(t.history) {
		if !e.startsTurn() {
			continue
		}
		if first = i; n > 0 {
			cut = i
			n--
		}
	}
	if cut < 0 {
		return
	}
	for cut > first && t.history[cut-1].inserted {
		cut--
	}
	t.history = t.history[:cut:cut]
}

func (e *entry) startsTurn() bool { return e.turn == nil && e.message.Role == "user" && !e.inserted }

// inserted reports whether Codex, not the user or the developer, wrote a part of a message. Like Codex, it recognizes
// such a part by the beginning and end of its text.
func inserted(role string, content json.Raw) bool {
	if text, ok := content.Text(); ok {
		return insertedText(role, text)
	}
	return session.Any(content, func(part json.Raw) bool { return insertedText(role, session.Text(part, "text")) })
}

func insertedText(role, text string) bool {
	text = strings.TrimSpace(text)
	return slices.ContainsFunc(insertions[role], func(i insertion) bool {
		return strings.HasPrefix(text, i.start) && strings.HasSuffix(text, i.end)
	})
}

// insertion holds the beginning and end of a text that Codex inserts.
type insertion struct{ start, end string }

// insertions are the texts that versions of Codex are known to insert, by the role of their message.
var insertions = map[string][]insertion{
	"user": {
		{"# AGENTS.md instructions", "</INSTRUCTIONS>"},
		{"<user_instructions>", "</user_instructions>"},
		{"<environment_context>", "</environment_context>"},
		{"<extension_context>", "</extension_context>"},
		{"<external_", ">"},
		{"<skill>", "</skill>"},
		{"<user_shell_command>", "</user_shell_command>"},
		{"<turn_aborted>", "</turn_aborted>"},
		{"<subagent_notification>", "</subagent_notification>"},
		{"<agent_message_board_notification>", "</agent_message_board_notification>"},
		{"<hook_prompt", "</hook_prompt>"},
		{"<goal_context>", "</goal_context>"},
		{"<codex_internal_context", "</codex_internal_context>"},
		{"<recommended_plugins>", "</recommended_plugins>"},
		{"Warning: The maximum number of unified exec processes you can keep open is", ""},
		{"Warning: apply_patch was requested via ", "Use the apply_patch tool instead of exec_command."},
		{"Warning: Your account was flagged for potentially high-risk cyber activity", ""},
	},
	"developer": {
		{"<permissions instructions>", ""},
		{"<model_switch>", ""},
		{"<collaboration_mode>", ""},
		{"<multi_agent_mode>", ""},
		{"<realtime_conversation>", ""},
		{"<skills_instructions>", ""},
		{"<plugins_instructions>", ""},
		{"<personality_spec>", ""},
		{"<token_budget>", ""},
		{"<context_window>", ""},
		{"<context_window_guidance>", ""},
		{"<rollout_budget>", ""},
	},
}
