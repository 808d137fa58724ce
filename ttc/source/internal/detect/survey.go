package detect

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Survey describes the examples in an input.
type Survey struct {
	Examples   int `json:"examples"`
	Messages   int `json:"messages"`
	Turns      int `json:"turns"` // turns of the assistant
	Branches   int `json:"branches"`
	ToolCalls  int `json:"tool_calls"`
	ToolErrors int `json:"tool_errors"` // results that the source itself marks as errors
	WithTools  int `json:"with_tools"`  // examples that specify which tools were available
	TokenIDs   int `json:"token_ids"`   // turns with token ids
	LogProbs   int `json:"log_probs"`

	Reasoning     int `json:"reasoning"`      // turns with reasoning
	ReasoningPast int `json:"reasoning_past"` // turns with reasoning before the conversation's last question

	Scored     int      `json:"scored"` // rollouts with a score
	Unscored   int      `json:"unscored"`
	LowScore   *float64 `json:"low_score,omitempty"`
	HighScore  *float64 `json:"high_score,omitempty"`
	Graded     bool     `json:"graded,omitempty"` // at least one score is neither 0 nor 1
	Candidates int      `json:"candidates"`
	Choices    int      `json:"choices"` // prompts with several answers
	TextPrompt int      `json:"text_prompts"`

	Tasks    int            `json:"tasks"`    // tasks with several rollouts
	Policies map[string]int `json:"policies"` // examples by the model that sampled them
	Stats    source.Stats   `json:"-"`

	tasks map[string]int
}

// Add counts an example.
func (s *Survey) Add(ex *ttc.Example) {
	s.Examples++
	if len(ex.Tools) > 0 {
		s.WithTools++
	}
	if ex.Policy != "" {
		if s.Policies == nil {
			s.Policies = map[string]int{}
		}
		s.Policies[ex.Policy]++
	}
	if ex.Task != "" {
		if s.tasks == nil {
			s.tasks = map[string]int{}
		}
		if s.tasks[ex.Task]++; s.tasks[ex.Task] == 2 {
			s.Tasks++
		}
	}
	s.Branches += len(ex.Graph.Leaves())
	question := lastQuestion(ex.Graph.Nodes)
	for i := range ex.Graph.Nodes {
		s.node(&ex.Graph.Nodes[i])
		if m := &ex.Graph.Nodes[i].Message; i < question && m.Role == "assistant" && m.Reasoning != "" {
			s.ReasoningPast++
		}
	}
	switch {
	case len(ex.Graph.Nodes) == 0:
	case ex.Reward == nil:
		s.Unscored++
	default:
		s.Scored++
		s.score(*ex.Reward)
	}
	s.candidates(ex.Candidates)
}

// lastQuestion returns the index of the last user message, or -1.
func lastQuestion(nodes []ttc.Node) int {
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i].Message.Role == "user" {
			return i
		}
	}
	return -1
}

func (s *Survey) node(n *ttc.Node) {
	s.Messages++
	if n.Error != nil && *n.Error {
		s.ToolErrors++
	}
	if n.Message.Role != "assistant" {
		return
	}
	s.Turns++
	if n.Message.Reasoning != "" {
		s.Reasoning++
	}
	s.ToolCalls += len(n.Message.ToolCalls)
	if n.TokenIDs != nil {
		s.TokenIDs++
	}
	if n.LogProbs != nil {
		s.LogProbs++
	}
}

// Labelled reports whether the scores are labels (1 for good and 0 for not good, with both present) of examples that
// can't be compared: no prompt has several answers, and no task has several rollouts.
func (s *Survey) Labelled() bool {
	return s.LowScore != nil && *s.LowScore == 0 && *s.HighScore == 1 && !s.Graded && s.Choices == 0 && s.Tasks == 0
}

func (s *Survey) candidates(cs []ttc.Candidate) {
	turns := map[string]int{}
	for i := range cs {
		s.Candidates++
		s.score(cs[i].Score)
		if cs[i].Prompt.Form == ttc.TextPrompt {
			s.TextPrompt++
		}
		if turns[cs[i].Turn]++; turns[cs[i].Turn] == 2 {
			s.Choices++
		}
	}
}

func (s *Survey) score(v float64) {
	s.Graded = s.Graded || v != 0 && v != 1
	if s.LowScore == nil || v < *s.LowScore {
		s.LowScore = &v
	}
	if s.HighScore == nil || v > *s.HighScore {
		s.HighScore = &v
	}
}
