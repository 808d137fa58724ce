package observations

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// extensions are the file name extensions of exports.
var extensions = []string{".jsonl", ".json", ".ndjson", ".parquet", ".csv"}

// Langfuse returns the source for Langfuse exports.
func Langfuse() source.Factory {
	return factory("langfuse", "exports of Langfuse: observations and scores", langfuse,
		"trace_id", "traceId", "parent_observation_id", "data_type", "dataType")
}

// LangSmith returns the source for LangSmith exports.
func LangSmith() source.Factory {
	return factory("langsmith", "exports of LangSmith: runs", langSmith, "run_type")
}

// OpenAIAgents returns the source for spans that tracing processors of the OpenAI Agents SDK export.
func OpenAIAgents() source.Factory {
	return factory("openai_agents", "spans from the OpenAI Agents SDK, for chat completions models", openAIAgents, "span_data")
}

func factory(typ, doc string, parse func(json.Raw) (observation, bool), keys ...string) source.Factory {
	return session.Format{
		Type: typ, Doc: doc, Extensions: extensions,
		Recognize: session.Marked(func(entry json.Raw) bool {
			inner, _ := within(entry)
			return slices.ContainsFunc(append(inner, entry), func(e json.Raw) bool {
				_, ok := parse(e)
				return ok
			})
		}, append(keys, envelopes...)...),
		Entries: func(tally *source.Tally) session.Entries { return entries(tally, parse) },
	}.Factory()
}
