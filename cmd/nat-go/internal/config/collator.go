package config

import (
	"slices"
	"time"

	"github.com/nat-go/nat-go/builders/schema"
)

// Collator is the section `collator`, which configures how records become token batches. Token batches need a
// tokenizer.
type Collator struct {
	Tokenizer      string         `yaml:"tokenizer" nullable:"true" doc:"Hugging Face folder or tokenizer.json of the model to be trained; may be in object storage" example:"models/qwen"`
	Template       string         `yaml:"template" nullable:"true" doc:"chat template file, or the name of one of the tokenizer's templates; default: the tokenizer's default or, without one, message contents joined with newlines, with a warning" example:"chat_template.jinja"`
	TemplateKwargs map[string]any `yaml:"template_kwargs" nullable:"true" doc:"variables given to the template, like enable_thinking" example:"{enable_thinking: false}"`
	TemplateTime   string         `yaml:"template_time" default:"2026-01-02T03:04:05" doc:"time that strftime_now returns; the clock is never read"`
	Policy         string         `yaml:"policy" nullable:"true" doc:"name of the model to be trained; determines which messages are on-policy; default: with rollouts, the model that the inputs name, if they name exactly one" example:"my-model"`
	MinFidelity    string         `yaml:"min_fidelity" default:"partial" validate:"oneof=partial text ids ids+logprobs" doc:"how completely a trace must show the text that the model saw and wrote; records of other traces are dropped from both text rows and token batches: partial accepts everything, text requires no gaps, ids requires token ids"`
	MaxLength      int            `yaml:"max_length" alias:"max_seq_len" aka:"max_seq_length,model_max_length,max_tokens,seq_length,sequence_length" default:"4096" validate:"gte=1" doc:"maximum tokens per row; longer conversations lose whole rounds, then single steps (a call with its results): in the middle for sft and dpo, at the head for sdpo, at the end for rl. Such rows are flagged truncated, and the turns they lose are counted as too_long"`
	MaxDPOLength   *int           `yaml:"max_dpo_length" alias:"max_dpo_seq_len" validate:"omitempty,gte=2" doc:"tokens per side of a preference; default: max_length, with format composer 2048"`
	BatchTokens    *int           `yaml:"batch_tokens" validate:"omitempty,gte=1" doc:"tokens per batch, including padding; default: 65536, or max_length (max_dpo_length) if that is more"`
	BatchBy        string         `yaml:"batch_by" default:"row" validate:"oneof=row task" doc:"unit of shuffling: rows, or tasks, whose rows then stay together, so that a loader can forward their common part once"`
	Rows           string         `yaml:"rows" default:"auto" validate:"oneof=auto trajectory turn" doc:"one row per trajectory or per turn; auto lets the template decide"`
	Weight         string         `yaml:"weight" default:"token" validate:"oneof=token site rollout" doc:"unit that has weight one in the loss, regardless of how many rows it becomes: every trained token, every hint's target (other records as a whole), or every record"`
	Layout         string         `yaml:"layout" default:"padded" validate:"oneof=padded packed" doc:"how rows fill a batch: each row padded, or several rows packed into one (only for sft, and not with format composer)"`
	Format         string         `yaml:"format" default:"nat_go" validate:"oneof=nat_go composer" doc:"tensor names; composer: as in the reference composite trainer, with a row per site or, with sites cumulative, per rollout (channels dpo, rl and sdpo)"`
	Composer       Composer       `yaml:"composer" doc:"other ways in which format composer follows the reference composite trainer's collator"`
	IgnoreIndex    int64          `yaml:"ignore_index" default:"-100" validate:"lt=0" doc:"label of untrained tokens in token batches"`
	PadID          *int64         `yaml:"pad_id" alias:"pad_token_id" validate:"omitempty,gte=0" doc:"id that pads a row; no mask depends on it; default: the tokenizer's pad token, or its end-of-text token"`
	RL             RL             `yaml:"rl" doc:"settings for rollouts"`
	Sites          string         `yaml:"sites" default:"per_site" validate:"oneof=per_site cumulative" doc:"whether a trace's hints are given one at a time or accumulated"`
	Hints          string         `yaml:"hints" default:"given" validate:"oneof=given none" doc:"whether the teacher sees the hints; none makes a control run, in which a trainer that reads the right positions gets jsd 0"`
	HintSpan       string         `yaml:"hint_span" default:"turn" validate:"oneof=turn call text reasoning" doc:"part of a turn that a hint may influence: only its tokens form pairs. call excludes reasoning and text, where hints are reported to cost accuracy; sites whose turn lacks the part don't form pairs (part_absent)"`
	Contrast       bool           `yaml:"contrast" default:"false" doc:"store a wrong hint with each hint, in the same place, for natgo.trl's contrast: the task's next hint with the same source and a different text. Sites without one are dropped (contrast_absent)"`
	Advantages     string         `yaml:"advantages" default:"group" validate:"oneof=group none batch" doc:"an advantage is a reward minus the mean of its task's rewards, divided by the standard deviation of these rewards (group) or of all rewards (batch), or not divided (none)"`
	Epoch          uint64         `yaml:"epoch" default:"0" doc:"epoch that determines the batch order: a different epoch puts the same rows in a different order, with the same dataset.split.seed"`
	Reference      *Reference     `yaml:"reference" doc:"log-probs of pairs under a reference model, for the columns ref_chosen_logps and ref_rejected_logps" example:"{path: reference.jsonl, fingerprint: my-model}"`
	Teacher        *Teacher       `yaml:"teacher" doc:"a teacher's view of the tokens: top-k log-probs from a server, or full logits from a program"`
}

// batchTokens is the default of batch_tokens, unless a row may be longer.
const batchTokens = 1 << 16

// TokensPerBatch returns batch_tokens. The default is large enough for the longest row.
func (c *Collator) TokensPerBatch() int {
	if c.BatchTokens != nil {
		return *c.BatchTokens
	}
	longest := c.MaxLength
	if c.MaxDPOLength != nil {
		longest = max(longest, *c.MaxDPOLength)
	}
	return max(batchTokens, longest)
}

// Elsewhere maps settings of the reference composite trainer's collator to advice on the equivalent settings here.
func (Collator) Elsewhere() map[string]string {
	return map[string]string{
		"enable_sdpo":       "list a builder of type sdpo_traj_builder in finetuning.trajectory_builder, or omit it: it provides the channel sdpo",
		"enable_replay_dpo": "list a builder of type dpo_traj_builder in finetuning.trajectory_builder, or omit it: it provides the channel dpo",
		"hint_generator":    "set hints.command (a program) or hints.rules under the builder of type sdpo_traj_builder",
		"rlvr_reward_key":   "set reward_key under the source of type traces",
	}
}

// Composer is `collator.composer`.
type Composer struct {
	Width string `yaml:"width" default:"own" validate:"oneof=own equal" doc:"width of student and teacher rows in sdpo batches. With equal, the student is padded where the teacher has the hint, so that both rows have the same shape and each token has the same position in both; attention_mask and position_ids skip the padding"`
	Mask  string `yaml:"mask" default:"zero" validate:"oneof=zero ignore_index" doc:"value of sdpo_loss_mask outside the loss; 1 elsewhere"`
	Rows  string `yaml:"rows" default:"site" validate:"oneof=site example" doc:"whether a row is a site or an example. example implies files: step and sites: cumulative, and one row per rollout; row i of a step file is then the i-th example: its rollout with its reward and response_mask and, as its own teacher, with all its hints"`
	Files string `yaml:"files" default:"channel" validate:"oneof=channel step" doc:"which batch files to write: one per batch of a channel or, with step, also one per step under batches/steps, which contains the batches of all channels; step implies width: equal"`
}

// Steps reports whether there is a file for each step.
func (c Composer) Steps() bool { return c.Files == "step" || c.ByExample() }

// ByExample reports whether each row in the step files is an example.
func (c Composer) ByExample() bool { return c.Rows == "example" }

// RL is `collator.rl`.
type RL struct {
	IDs string `yaml:"ids" default:"sampled" validate:"oneof=sampled rendered" doc:"source of the token ids. rendered also uses rollouts without token ids, by tokenizing their text; their rows are marked and lack log-probs, and the ids may differ from the sampled ones. Use rendered for objectives that don't need log-probs (KTO) or trainers that compute their own"`
}

// Reference is `collator.reference`, which names a file with a reference model's log-probs for pairs that an earlier
// run wrote.
type Reference struct {
	Path        string `yaml:"path" validate:"required" doc:"JSON lines {row, chosen, rejected} (examples/composite-trainer/reference_logps.py)" example:"reference.jsonl"`
	Fingerprint string `yaml:"fingerprint" validate:"required" doc:"identifies how the log-probs were computed: model, tokenizer, template and length limit; written with the columns" example:"my-model@3f2a"`
}

// Teacher is `collator.teacher`, which configures servers that score tokens, a program that computes all logits, or
// dumped logits.
type Teacher struct {
	Endpoint      string         `yaml:"endpoint" validate:"required_without_all=Dumps Logits Servers,omitempty,url" doc:"base URL of the server" example:"http://127.0.0.1:8000"`
	Protocol      string         `yaml:"protocol" doc:"the server's protocol" default:"vllm" validate:"oneof=vllm trl sglang atropos"`
	Model         string         `yaml:"model" nullable:"true" doc:"the model's name on the server; required by vllm" example:"my-model"`
	APIKey        schema.Secret  `yaml:"api_key" doc:"the server's API key" nullable:"true"`
	TokenizerName string         `yaml:"tokenizer_name" nullable:"true" doc:"name or folder of the server's tokenizer, if the server can't tokenise (trl, atropos); it is compared with collator.tokenizer; default: model" example:"Qwen/Qwen2.5-7B-Instruct"`
	Vocabulary    string         `yaml:"vocabulary" default:"check" validate:"oneof=check assume" doc:"check: compare the server's ids with the tokenizer's or, if the server can't tokenise (trl, atropos), tokenizer_name with collator.tokenizer; assume: skip the comparison"`
	Servers       []Server       `yaml:"servers" validate:"excluded_with=Endpoint,unique=Name,dive" doc:"several teachers instead of one endpoint: a token's log-prob is the log of their weighted mean probability" example:"[{name: large, endpoint: http://127.0.0.1:8000, model: my-model, weight: 3}, {name: code, endpoint: http://127.0.0.1:8001, model: my-coder}]"`
	TopK          *int           `yaml:"top_k" doc:"log-probs per token; default: 20, with protocol atropos 1" validate:"omitempty,gte=1,lte=1000"`
	Concurrency   int            `yaml:"concurrency" doc:"sequences scored concurrently" default:"8" validate:"gte=1,lte=1024"`
	Timeout       *time.Duration `yaml:"timeout" doc:"time limit per answer; default: 60s, with protocol atropos 20m" validate:"omitempty,gte=1s"`
	MaxAnswer     int64          `yaml:"max_answer_bytes" default:"67108864" validate:"gte=1024" doc:"an answer larger than this after decompression is an error"`
	HintEffect    bool           `yaml:"hint_effect" default:"false" validate:"excluded_without=Endpoint,excluded_if=Protocol atropos" doc:"measure every hint with the server's model: mean log p(target | hint) - log p(target), compared with a neutral hint; sites with too small an effect, or one in the wrong direction, get weight 0"`
	MinEffect     float64        `yaml:"min_effect" default:"0" validate:"gte=0" doc:"nats per token by which a hint must beat the neutral one"`
	Neutral       string         `yaml:"neutral" default:"Please go on with the task." doc:"text of the neutral hint; if empty, hints aren't compared with one"`
	Rollouts      bool           `yaml:"rollouts" default:"false" validate:"excluded_without_all=Endpoint Servers" doc:"also have the server score the rl channel's rows, at every position, for the columns teacher_topk_ids and teacher_topk_logprobs, which the Atropos adapter pushes with the scores"`
	Logits        *Logits        `yaml:"logits" validate:"excluded_with=Dumps" doc:"a program that computes all logits at the pair positions; the hint effect is then the divergence between the predictions with and without the hint, token by token" example:"{command: [python3, score_logits.py, --model, my-model]}"`
	Dumps         string         `yaml:"dumps" nullable:"true" doc:"folder with logits dumped at the pair positions, one file per batch (examples/composite-trainer/dump_logits.py)" example:"dumps"`
	Use           string         `yaml:"use" default:"filter" validate:"oneof=filter weights" doc:"use of logits and dumps: filter drops sites below min_jsd; weights also spreads a site's weight over its tokens in proportion to their divergence"`
	MinJSD        float64        `yaml:"min_jsd" default:"0" validate:"gte=0" doc:"sites with a smaller mean divergence (beta 0.5, in nats) get weight 0; with top-k log-probs (hint_effect), only if it is certainly smaller"`
}

// LogProbs returns the number of log-probs requested per token.
func (t *Teacher) LogProbs() int {
	other := func(s Server) bool { return s.Protocol != atropos }
	switch {
	case t.TopK != nil:
		return *t.TopK
	case len(t.Servers) > 0 && !slices.ContainsFunc(t.Servers, other), len(t.Servers) == 0 && t.Protocol == atropos:
		return 1
	}
	return 20
}

// AnswerTimeout returns the time limit for an answer from a server with the given protocol.
func (t *Teacher) AnswerTimeout(protocol string) time.Duration {
	switch {
	case t.Timeout != nil:
		return *t.Timeout
	case protocol == atropos:
		return 20 * time.Minute
	}
	return time.Minute
}

// atropos is the protocol of an Atropos server manager, which has its own defaults for top_k and timeout.
const atropos = "atropos"

// Server is an element of `collator.teacher.servers`.
type Server struct {
	Name          string        `yaml:"name" validate:"required,max=64" doc:"the teacher's name in reports, under which its answers are also stored" example:"large"`
	Endpoint      string        `yaml:"endpoint" validate:"required,url" doc:"as in collator.teacher" example:"http://127.0.0.1:8000"`
	Protocol      string        `yaml:"protocol" doc:"as in collator.teacher" default:"vllm" validate:"oneof=vllm trl sglang atropos"`
	Model         string        `yaml:"model" nullable:"true" doc:"as in collator.teacher" example:"my-model"`
	APIKey        schema.Secret `yaml:"api_key" doc:"as in collator.teacher" nullable:"true"`
	TokenizerName string        `yaml:"tokenizer_name" nullable:"true" doc:"as in collator.teacher" example:"Qwen/Qwen2.5-7B-Instruct"`
	Vocabulary    string        `yaml:"vocabulary" default:"check" validate:"oneof=check assume" doc:"as in collator.teacher"`
	Weight        float64       `yaml:"weight" default:"1" validate:"gt=0" doc:"weight of this teacher relative to the others"`
}

// Logits is `collator.teacher.logits`, which configures a program that is started once and scores the sites of all
// batches.
type Logits struct {
	Command      []string      `yaml:"command" validate:"required,min=1" doc:"program and arguments (examples/composite-trainer/score_logits.py, examples/logits-scorer)" example:"[python3, score_logits.py, --model, my-model]"`
	Memory       schema.Size   `yaml:"memory" default:"64MiB" validate:"gte=65536" doc:"memory shared with the program for the logits; more means fewer, larger requests"`
	Timeout      time.Duration `yaml:"timeout" default:"5m" validate:"gte=1s" doc:"time limit per answer"`
	StartTimeout time.Duration `yaml:"start_timeout" default:"10m" validate:"gte=1s" doc:"time limit for loading the model"`
	WrongWay     string        `yaml:"wrong_way" default:"drop" validate:"oneof=drop keep" doc:"how to treat sites whose hint makes a failed turn more likely, or the next turn less likely"`
}
