package readers

import (
	"github.com/nat-go/nat-go/ttc/source/internal/agenttraces"
	"github.com/nat-go/nat-go/ttc/source/internal/atif"
	"github.com/nat-go/nat-go/ttc/source/internal/atof"
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/claudecode"
	"github.com/nat-go/nat-go/ttc/source/internal/cline"
	"github.com/nat-go/nat-go/ttc/source/internal/codex"
	"github.com/nat-go/nat-go/ttc/source/internal/command"
	"github.com/nat-go/nat-go/ttc/source/internal/copilot"
	"github.com/nat-go/nat-go/ttc/source/internal/endpoint"
	"github.com/nat-go/nat-go/ttc/source/internal/geminicli"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/nemogym"
	"github.com/nat-go/nat-go/ttc/source/internal/observations"
	"github.com/nat-go/nat-go/ttc/source/internal/openhands"
	"github.com/nat-go/nat-go/ttc/source/internal/otlp"
	"github.com/nat-go/nat-go/ttc/source/internal/pi"
	"github.com/nat-go/nat-go/ttc/source/internal/requestlog"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/traces"
	"github.com/nat-go/nat-go/ttc/source/internal/verifiers"
)

// Factories returns a factory for each type of source.
func Factories() []source.Factory {
	return []source.Factory{
		nat.Factory(), endpoint.Factory(), command.Factory(), candidates.Factory(),
		traces.Factory(), traces.PairsFactory(),
		claudecode.Factory(), codex.Factory(), otlp.Factory(), atif.Factory(),
		verifiers.Factory(), atof.Factory(), nemogym.Factory(), requestlog.Chat(), requestlog.Responses(),
		observations.Langfuse(), observations.LangSmith(), observations.OpenAIAgents(), geminicli.Qwen(),
		geminicli.Gemini(), pi.Factory(), copilot.Factory(), cline.Factory(),
		openhands.Factory(),
		agenttraces.Factory(),
	}
}
