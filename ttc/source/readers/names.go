package readers

import (
	"context"

	"github.com/nat-go/nat-go/ttc/source/internal/command"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/endpoint"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/scores"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/traces"
)

// The `_type` of the source for the output of `nat eval`, and the name of the output file in a folder.
const (
	NATType = nat.Type
	NATFile = nat.FileName
)

// NATConfig is the configuration for sources of type NATType.
type NATConfig = nat.Config

// NAT returns the factory for sources of type NATType.
func NAT() source.Factory { return nat.Factory() }

// NoMatch explains why no TTC_END step has the wanted name; it returns "" if there is such a step.
func NoMatch(s *source.Stats, wanted string) string { return nat.NoMatch(s, wanted) }

// CommandConfig is the configuration of the source that runs NAT.
type CommandConfig = command.Config

// EndpointConfig is the configuration of the source that sends questions to a running workflow.
type EndpointConfig = endpoint.Config

// Endpoint returns the factory of the source whose configuration is an EndpointConfig.
func Endpoint() source.Factory { return endpoint.Factory() }

// TracesConfig is the configuration of the source for agent runs in the OpenAI chat format.
type TracesConfig = traces.Config

// TracesDecoder decodes traces in memory the way the source with a TracesConfig reads them from files.
type TracesDecoder = traces.Decoder

// ScoresConfig is `dataset.scores`: files with the examples' scores.
type ScoresConfig = scores.Config

// Scores holds the scores from score files.
type Scores = scores.Scores

// ScoreRule is an element of `dataset.score_rules`.
type ScoreRule = scores.Rule

// ScoreRules derive scores from the text of tool results.
type ScoreRules = scores.Rules

// Found describes how an input is read.
type Found = detect.Found

// Survey describes the examples in an input.
type Survey = detect.Survey

// UnknownError is the error for an input that no source recognises.
type UnknownError = detect.UnknownError

// AmbiguousError is the error for an input that can be read in several ways.
type AmbiguousError = detect.AmbiguousError

// MapTakes lists, for help and error messages, the meanings that --map can give to keys.
const MapTakes = detect.MapTakes

// ErrEmpty is the error for an input without content, such as a file with only white space.
var ErrEmpty = detect.ErrEmpty

// NewTracesDecoder returns a decoder for a configuration.
func NewTracesDecoder(ctx context.Context, c TracesConfig) (*TracesDecoder, error) {
	return traces.NewDecoder(ctx, c)
}

// ReadScores reads score files.
func ReadScores(ctx context.Context, c *ScoresConfig) (*Scores, error) { return scores.Read(ctx, c) }

// NewScoreRules compiles rules. Its errors name the invalid setting.
func NewScoreRules(rules []ScoreRule) (*ScoreRules, error) { return scores.NewRules(rules) }

// ReadHead reads the beginning of a file.
func ReadHead(ctx context.Context, path string) (*source.Head, error) {
	return detect.ReadHead(ctx, path)
}

// Choose asks the source with the given name, or all sources if the name is empty, how they would read an input, based
// on its head.
func Choose(all []source.Factory, only string, h *source.Head) (*Found, error) {
	return detect.Choose(all, only, h)
}

// Recognize determines how a file is read: by its entries or by the entries of the list that the file wraps. given
// holds the settings that the user specified. A non-empty source name excludes all other sources.
func Recognize(
	ctx context.Context, all []source.Factory, only, path string, given map[string]string,
) (*Found, error) {
	return detect.Recognize(ctx, all, only, path, given)
}
