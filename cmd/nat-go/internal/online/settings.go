package online

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	ttcjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Settings is the content of the first frame.
type Settings struct {
	// Tokenizer is a Hugging Face folder or a tokenizer.json.
	Tokenizer string `json:"tokenizer"`
	// Channels lists the channels to make from the traces. Their names are rl, sdpo, dpo and sft.
	Channels []string `json:"channels"`
	// Collator is the `collator` section of a configuration, Source the settings of the source `traces`, and Builders
	// the settings of the channels' builders. Each has the same defaults as in a configuration, except that
	// batch_tokens, which bounds the answer, defaults to defaultTokens.
	Collator map[string]any            `json:"collator"`
	Source   map[string]any            `json:"source"`
	Builders map[string]map[string]any `json:"builders"`
	// Workers is the number of goroutines that make rows; 0 means 1, because a data loader already has a process per
	// worker.
	Workers int `json:"workers"`
	// RequestBytes is the limit on the length of a request; 0 means defaultRequestBytes.
	RequestBytes int64 `json:"request_bytes"`
	// RequestObjects is the maximum number of objects and lists in a request; 0 means defaultRequestObjects.
	RequestObjects int64 `json:"request_objects"`
}

// defaultTokens is the default of batch_tokens, the maximum number of tokens in a channel's batch, including padding.
const defaultTokens = 4 << 20

// ownPolicy is the name of the model being trained if collator.policy isn't set. Traces that don't name a model count
// as sampled by it, because a training loop passes in samples of the model being trained.
const ownPolicy = "policy"

// builderOf maps channels to the builders that make their records.
var builderOf = map[string]string{
	"rl": "grpo_traj_builder", "sdpo": "sdpo_traj_builder", "dpo": "dpo_traj_builder", "sft": "sft_traj_builder",
}

// Ready is the head of the frame that answers the settings.
type Ready struct {
	Tokenizer string `json:"tokenizer"` // fingerprint
	Template  string `json:"template"`  // fingerprint
	PadID     int64  `json:"pad_id"`
	VocabSize int64  `json:"vocab_size"`
}

// Limits on the first frame's size in bytes and its number of objects and lists.
const (
	maxSettings       = 4 << 20
	maxSettingObjects = 100_000
)

func readSettings(in io.Reader) (*Settings, error) {
	text, err := readFrame(in, maxSettings)
	if long, ok := errors.AsType[*Error](err); ok {
		long.Code = badSettings
	}
	if err != nil {
		return nil, err
	}
	if _, err := ttcjson.Parse(text, ttcjson.Limits{Objects: maxSettingObjects}); err != nil {
		return nil, problem(badSettings, "settings", "invalid JSON: %v", ttcjson.LineError(err))
	}
	s := &Settings{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(s); err != nil {
		return nil, problem(badSettings, "settings", "%v", err)
	}
	switch {
	case s.Tokenizer == "":
		return nil, problem(badSettings, "tokenizer", "missing: specify a Hugging Face folder or tokenizer.json")
	case len(s.Channels) == 0:
		return nil, problem(badSettings, "channels", "missing: specify some of rl, sdpo, dpo, sft")
	}
	for i, c := range s.Channels {
		if builderOf[c] == "" {
			return nil, problem(badSettings, "channels", "unknown channel %q: use rl, sdpo, dpo or sft", c)
		}
		if slices.Contains(s.Channels[:i], c) {
			return nil, problem(badSettings, "channels", "%q is listed twice", c)
		}
	}
	for c := range s.Builders {
		if !slices.Contains(s.Channels, c) {
			return nil, problem(badSettings, "builders", "%q is not one of the channels", c)
		}
	}
	return s, nil
}

// configuration converts the settings to a run's configuration.
func (s *Settings) configuration() (*config.Config, error) {
	block := func(typ string, settings map[string]any) map[string]any {
		out := map[string]any{"_type": typ}
		maps.Copy(out, settings)
		return out
	}
	section := map[string]any{"batch_tokens": defaultTokens}
	maps.Copy(section, s.Collator)
	section["tokenizer"] = s.Tokenizer
	made := map[string]any{}
	for _, c := range s.Channels {
		made[c] = block(builderOf[c], s.Builders[c])
	}
	text, err := json.Marshal(map[string]any{
		"sources":             map[string]any{"traces": block("traces", s.Source)},
		"trajectory_builders": made, "collator": section,
	})
	if err != nil {
		return nil, problem(badSettings, "settings", "%v", err)
	}
	cfg, found := config.Parse("settings", text, config.Options{Types: builtin.Types()})
	if !finding.Failed(found) {
		return cfg, nil
	}
	var all, places []string
	for _, f := range found {
		if f.Severity == finding.Error {
			all, places = append(all, f.Message), append(places, f.Pointer)
		}
	}
	return nil, problem(badSettings, places[0], "%s", strings.Join(all, "; "))
}

// open returns a service with the settings' tokenizer, collator and builders.
func open(ctx context.Context, s *Settings) (_ *Service, err error) {
	cfg, err := s.configuration()
	if err != nil {
		return nil, err
	}
	switch c := cfg.Collator; {
	case c.Teacher != nil:
		return nil, problem(badSettings, "/collator/teacher", "not supported by collate: a teacher scores only a run's batches")
	case c.Reference != nil:
		return nil, problem(badSettings, "/collator/reference", "not supported by collate: reference log-probs are only for a run's batches")
	}
	v := &Service{settings: s}
	if v.tokenizer, err = tokenizer.Load(s.Tokenizer); err != nil {
		return nil, problem(badSettings, "tokenizer", "%v", err)
	}
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	if err := v.openCollator(cfg); err != nil {
		return nil, err
	}
	if err := v.openBuilders(cfg); err != nil {
		return nil, err
	}
	v.decoder, err = readers.NewTracesDecoder(ctx, *cfg.Sources[0].Config.(*readers.TracesConfig))
	if err != nil {
		return nil, problem(badSettings, "/sources/traces", "%v", err)
	}
	return v, nil
}

func (v *Service) openCollator(cfg *config.Config) error {
	cfg.Collator.Policy = cmp.Or(cfg.Collator.Policy, ownPolicy)
	v.policy = cfg.Collator.Policy
	own, err := collate.CollatorConfig(cfg.Collator, 0)
	if err != nil {
		return problem(badSettings, "/collator", "%v", err)
	}
	own.Tokenizer, own.Workers, own.Steps = v.tokenizer, max(1, v.settings.Workers), own.ByExample
	own.Form.EqualWidth = own.Layout == batch.Composer // in the composer layout, a batch contains all channels
	if own.Template, err = collator.TemplateText(v.tokenizer.Config, cfg.Collator.Template); err != nil {
		return problem(badSettings, "/collator/template", "%v", err)
	}
	if v.collator, err = collator.New(own); err != nil {
		return problem(badSettings, "/collator", "%v", err)
	}
	return nil
}

func (v *Service) openBuilders(cfg *config.Config) error {
	for _, c := range v.settings.Channels {
		block := cfg.Builders[slices.IndexFunc(cfg.Builders, func(b config.Block) bool { return b.Name == c })]
		f, _ := builtin.Builder(block.Type)
		text, err := json.Marshal(v.settings.Builders[c])
		if err != nil {
			return problem(badSettings, block.Pointer(), "%v", err)
		}
		if v.settings.Builders[c] == nil {
			text = nil
		}
		b, found := f.Open(text)
		if b == nil {
			return problem(badSettings, block.Pointer(), "%s", found[len(found)-1].Message)
		}
		v.builders = append(v.builders, build.NewDirect(c, f.Info(), b))
		if closer, ok := b.(io.Closer); ok {
			v.closers = append(v.closers, closer)
		}
	}
	return nil
}
