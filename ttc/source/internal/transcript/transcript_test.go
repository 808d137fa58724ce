package transcript_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/source/internal/transcript"
)

func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][2]string
	}{
		"two turns": {
			"\n\nHuman: Hi\n\nAssistant: Ho: what?\n\nHuman: A list:\n\n- a\n\nAssistant: Yes.",
			[][2]string{{"user", "Hi"}, {"assistant", "Ho: what?"}, {"user", "A list:\n\n- a"}, {"assistant", "Yes."}},
		},
		"a prompt":    {"\n\nHuman: Hi\n\nAssistant:", [][2]string{{"user", "Hi"}}},
		"in one line": {"### Human: Hi### Assistant: Ho", [][2]string{{"user", "Hi"}, {"assistant", "Ho"}}},
		"an instruction": {"### Instruction:\nDo\n\n### Response:\nDone", [][2]string{
			{"user", "Do"},
			{"assistant", "Done"},
		}},
		"a system prompt": {"System: Be brief\n\nUser: Hi\n\nAssistant: Ho", [][2]string{
			{"system", "Be brief"},
			{"user", "Hi"},
			{"assistant", "Ho"},
		}},
		"ChatML": {
			"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n",
			[][2]string{{"user", "Hi"}, {"assistant", "Ho"}},
		},
		"a text":         {"Human rights are rights.", nil},
		"nobody answers": {"Human: Hi", nil},
		"a word before":  {"Note. \n\nHuman: Hi\n\nAssistant: Ho", nil},
		"a name in a line": {"Human: say Assistant: twice\n\nAssistant: no", [][2]string{
			{"user", "say Assistant: twice"},
			{"assistant", "no"},
		}},
		"an empty transcript": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got [][2]string
			for _, m := range transcript.Split(c.text) {
				got = append(got, [2]string{m.Role, m.Text})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
