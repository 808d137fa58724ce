package customizer

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/internal/secret"
)

// Type is the adapter's `_type`.
const Type = "nemo_customizer_trainer_adapter"

// backend is the service's name in the adapter's job references, as in NAT.
const backend = "nemo-customizer"

// Config is `trainer_adapters.<n>` of `_type: nemo_customizer_trainer_adapter`. NAT's fields come first, with NAT's
// defaults and rules, followed by nat-go's fields.
type Config struct {
	Reward *trainers.Reward `yaml:"reward" doc:"NAT's reward function; not read for a preference data set"`

	EntityHost            string          `yaml:"entity_host" validate:"required" doc:"base URL of the entity store, customizer and deployment API"`
	DatastoreHost         string          `yaml:"datastore_host" validate:"required" doc:"base URL of the data store"`
	HFToken               schema.Secret   `yaml:"hf_token" doc:"bearer token for the data store's Hugging Face interface; empty sends none"`
	Namespace             string          `yaml:"namespace" validate:"required" doc:"namespace of the data set, the job and the deployment"`
	DatasetName           string          `yaml:"dataset_name" default:"nat-dpo" validate:"min=1" doc:"name of the data set in the stores; each run adds its own suffix, see dataset_version"`
	DatasetOutputDir      *string         `yaml:"dataset_output_dir" doc:"also write the rows to <dir>/<run_id>/training_file.jsonl and validation_file.jsonl, as NAT does"`
	CreateNamespace       bool            `yaml:"create_namespace_if_missing" default:"true" doc:"create the namespace in both stores if it doesn't exist"`
	CustomizationConfig   string          `yaml:"customization_config" validate:"required" doc:"the model to train and the hardware to train it on, e.g. meta/llama-3.2-1b-instruct@v1.0.0+A100"`
	Hyperparameters       Hyperparameters `yaml:"hyperparameters" doc:"training settings sent with the job"`
	UseFullMessageHistory bool            `yaml:"use_full_message_history" default:"false" doc:"write prompts as message lists rather than the last message's text"`
	DeployOnCompletion    bool            `yaml:"deploy_on_completion" default:"false" doc:"deploy the trained model once the job is complete"`
	Deployment            Deployment      `yaml:"deployment_config" doc:"settings for deploying the model"`
	PollIntervalSeconds   float64         `yaml:"poll_interval_seconds" default:"30" validate:"gt=0" doc:"seconds between status requests"`
	DeploymentTimeout     float64         `yaml:"deployment_timeout_seconds" default:"1800" validate:"gt=0" doc:"time limit for the deployment, in seconds"`
	MaxStatusFailures     int             `yaml:"max_consecutive_status_failures" default:"3" validate:"min=1,max=10" doc:"consecutive failed status requests before waiting ends in an error"`

	EntityToken    schema.Secret `yaml:"entity_token" doc:"bearer token for entity_host; empty sends none"`
	DatastoreToken schema.Secret `yaml:"datastore_token" doc:"bearer token for the data store's own namespace API; empty sends none"`
	WandbAPIKey    schema.Secret `yaml:"wandb_api_key" doc:"Weights & Biases key, sent in a header with the job"`

	DatasetVersion  string         `yaml:"dataset_version" default:"run" validate:"oneof=run reuse" doc:"run: a separate data set for each run; reuse: all runs write to dataset_name, as NAT does"`
	TrainingTimeout float64        `yaml:"training_timeout_seconds" default:"0" validate:"gte=0" doc:"time limit for the job, in seconds; 0: no limit"`
	CancelOnTimeout bool           `yaml:"cancel_on_timeout" default:"false" doc:"cancel the job once training_timeout_seconds has passed, rather than leave it running"`
	ConnectTimeout  time.Duration  `yaml:"connect_timeout" default:"5s" validate:"gt=0" doc:"time limit for connecting to either host"`
	RequestTimeout  time.Duration  `yaml:"request_timeout" default:"60s" validate:"gt=0" doc:"time limit for a response, counted from the last request byte that was accepted, so that a long upload doesn't time out"`
	TLS             httpclient.TLS `yaml:"tls" doc:"certificates for both hosts"`

	OutputModel    string            `yaml:"output_model" doc:"namespace/name of the model to create; unset: the service chooses, or creates none"`
	JobName        string            `yaml:"job_name" doc:"name of the job, unique in its namespace"`
	JobDescription string            `yaml:"job_description" doc:"description of the job"`
	Project        string            `yaml:"project" doc:"project of the data set and the job"`
	CustomFields   map[string]string `yaml:"custom_fields" doc:"custom fields, stored with the job"`
	Integrations   integrations      `yaml:"integrations" doc:"services that training reports to"`

	backoff time.Duration // pause before a retry; tests set a shorter one
}

// Hyperparameters are sent with the job. The service chooses values for any that are missing.
type Hyperparameters struct {
	TrainingType   string  `yaml:"training_type" json:"training_type" default:"dpo" validate:"oneof=sft dpo" doc:"dpo trains on preference rows, sft on demonstration rows"`
	FinetuningType string  `yaml:"finetuning_type" json:"finetuning_type" default:"all_weights" validate:"oneof=lora all_weights lora_merged" doc:"whether to train all weights or a LoRA adapter"`
	Epochs         int     `yaml:"epochs" json:"epochs" default:"3" validate:"min=1" doc:"passes over the data set"`
	BatchSize      int     `yaml:"batch_size" json:"batch_size" default:"4" validate:"min=1" doc:"rows per step"`
	LearningRate   float64 `yaml:"learning_rate" json:"learning_rate" default:"5e-5" validate:"gt=0" doc:"learning rate"`
	DPO            dpo     `yaml:"dpo" json:"-" doc:"settings for dpo; not sent with sft"`

	Seed             *int64   `yaml:"seed" json:"seed,omitempty" doc:"training seed"`
	MaxSteps         *int     `yaml:"max_steps" json:"max_steps,omitempty" doc:"maximum number of steps; -1: no limit"`
	WarmupSteps      *int     `yaml:"warmup_steps" json:"warmup_steps,omitempty" validate:"omitempty,min=0" doc:"steps over which the learning rate rises"`
	LogEveryNSteps   *int     `yaml:"log_every_n_steps" json:"log_every_n_steps,omitempty" validate:"omitempty,min=1" doc:"steps between logged losses"`
	ValCheckInterval *float64 `yaml:"val_check_interval" json:"val_check_interval,omitempty" validate:"omitempty,gt=0" doc:"how often validation runs: above 1 in batches, otherwise as a fraction of an epoch"`
	MinLearningRate  *float64 `yaml:"min_learning_rate" json:"min_learning_rate,omitempty" validate:"omitempty,gte=0" doc:"final learning rate"`
	WeightDecay      *float64 `yaml:"weight_decay" json:"weight_decay,omitempty" validate:"omitempty,gte=0" doc:"weight decay"`
	AdamBeta1        *float64 `yaml:"adam_beta1" json:"adam_beta1,omitempty" validate:"omitempty,gte=0,lt=1" doc:"Adam's beta1"`
	AdamBeta2        *float64 `yaml:"adam_beta2" json:"adam_beta2,omitempty" validate:"omitempty,gte=0,lt=1" doc:"Adam's beta2"`
	Optimizer        string   `yaml:"optimizer" json:"optimizer,omitempty" validate:"omitempty,oneof=adam_with_cosine_annealing adam_with_flat_lr adamw_with_cosine_annealing adamw_with_flat_lr" doc:"optimizer and schedule"`
	SequencePacking  *bool    `yaml:"sequence_packing_enabled" json:"sequence_packing_enabled,omitempty" doc:"pack several rows into one sequence"`
	LoRA             *lora    `yaml:"lora" json:"lora,omitempty" doc:"settings for lora"`
	SFT              *sft     `yaml:"sft" json:"sft,omitempty" doc:"settings for sft"`
}

// dpo holds the settings for dpo. The service's own default for ref_policy_kl_penalty is 0.05; NAT's is 0.1.
type dpo struct {
	RefPolicyKLPenalty        float64 `yaml:"ref_policy_kl_penalty" json:"ref_policy_kl_penalty" default:"0.1" validate:"gte=0" doc:"DPO's beta"`
	PreferenceLossWeight      float64 `yaml:"preference_loss_weight" json:"preference_loss_weight" default:"1" validate:"gte=0" doc:"weight of the preference loss"`
	PreferenceAverageLogProbs bool    `yaml:"preference_average_log_probs" json:"preference_average_log_probs" default:"false" doc:"use the mean rather than the sum of the log-probs"`
	SFTLossWeight             float64 `yaml:"sft_loss_weight" json:"sft_loss_weight" default:"0" validate:"gte=0" doc:"weight of an SFT loss on the chosen side"`

	SFTAverageLogProbs *bool    `yaml:"sft_average_log_probs" json:"sft_average_log_probs,omitempty" doc:"use the mean rather than the sum of the log-probs in the SFT loss"`
	MaxGradNorm        *float64 `yaml:"max_grad_norm" json:"max_grad_norm,omitempty" validate:"omitempty,gt=0" doc:"maximum gradient norm; needs service version 1.5 or later"`
}

// lora holds the settings for training with low-rank adapters.
type lora struct {
	AdapterDim     *int     `yaml:"adapter_dim" json:"adapter_dim,omitempty" validate:"omitempty,min=1" doc:"rank of the adapters"`
	Alpha          *int     `yaml:"alpha" json:"alpha,omitempty" validate:"omitempty,min=1" doc:"LoRA's alpha"`
	AdapterDropout *float64 `yaml:"adapter_dropout" json:"adapter_dropout,omitempty" validate:"omitempty,gte=0,lt=1" doc:"dropout of the adapters"`
	TargetModules  []string `yaml:"target_modules" json:"target_modules,omitempty" doc:"modules that get an adapter"`
}

// sft holds the settings for sft.
type sft struct {
	HiddenDropout    *float64 `yaml:"hidden_dropout" json:"hidden_dropout,omitempty" validate:"omitempty,gte=0,lt=1" doc:"dropout of hidden layers"`
	AttentionDropout *float64 `yaml:"attention_dropout" json:"attention_dropout,omitempty" validate:"omitempty,gte=0,lt=1" doc:"dropout of attention"`
}

// integrations lists the services that training reports to.
type integrations struct {
	Wandb *wandb `yaml:"wandb" doc:"settings for Weights & Biases; wandb_api_key sets the key"`
}

// wandb locates the run in Weights & Biases.
type wandb struct {
	Project string   `yaml:"project" json:"project,omitempty" doc:"project"`
	Entity  string   `yaml:"entity" json:"entity,omitempty" doc:"entity"`
	Notes   string   `yaml:"notes" json:"notes,omitempty" doc:"notes"`
	Tags    []string `yaml:"tags" json:"tags,omitempty" doc:"tags"`
}

// Deployment configures how the model is deployed.
type Deployment struct {
	ImageName   string  `yaml:"image_name" default:"nvcr.io/nim/nvidia/nemotron-3.5-lightning-30b-a3b" doc:"NIM image"`
	ImageTag    string  `yaml:"image_tag" default:"latest" doc:"tag of the NIM image"`
	GPU         int     `yaml:"gpu" default:"1" validate:"min=1" doc:"number of GPUs"`
	Name        *string `yaml:"deployment_name" doc:"name of the deployment; unset: nat-deployment-<run>"`
	Description string  `yaml:"description" default:"Fine-tuned model deployment" doc:"description of the deployment"`
}

// Limits returns the timeouts and retry counts.
func (c *Config) Limits() trainers.Limits {
	return trainers.Limits{
		Poll: seconds(c.PollIntervalSeconds), StatusFailures: c.MaxStatusFailures,
		TrainingTimeout: seconds(c.TrainingTimeout), DeploymentTimeout: seconds(c.DeploymentTimeout),
		CancelOnTimeout: c.CancelOnTimeout,
	}
}

// seconds converts seconds to a duration, capped at the longest possible one.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

// secrets lists the values that must not be shown.
func (c *Config) secrets() []string {
	own := []string{c.HFToken.Reveal(), c.EntityToken.Reveal(), c.DatastoreToken.Reveal(), c.WandbAPIKey.Reveal()}
	return slices.Concat(own, secret.OfAddress(c.EntityHost), secret.OfAddress(c.DatastoreHost))
}

// Dataset returns the name of a submission's data set.
func (c *Config) Dataset(key string) string {
	if c.DatasetVersion == "reuse" {
		return c.DatasetName
	}
	return name(c.DatasetName+"-", key, 96)
}

// name joins a prefix and a key into a name that the stores and Kubernetes accept. The name consists of lower-case
// letters, digits, "-" and, in the prefix, the user's text. If the result is too long, name removes the beginning of
// the key, because the end makes it unique.
func name(prefix, key string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, key)
	if over := len(prefix) + len(clean) - limit; over > 0 && over < len(clean) {
		clean = clean[over:]
	}
	return prefix + strings.Trim(clean, "-")
}
