package customizer

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

func decode(t *testing.T, into any, text string) []finding.Finding {
	t.Helper()
	doc, fs := yamldoc.Parse("c.yml", []byte(text))
	if len(fs) > 0 {
		t.Fatal(fs)
	}
	return schema.MustOf(into).Decode(doc, doc.Root, into, schema.Options{})
}

const required = "entity_host: http://e/\ndatastore_host: http://d//\nnamespace: n\ncustomization_config: c\n"

// TestLongDurations: no number of seconds becomes a negative time.
func TestLongDurations(t *testing.T) {
	for _, s := range []float64{1e10, 9.3e9, 1e300, math.Inf(1)} {
		c := &Config{PollIntervalSeconds: s, DeploymentTimeout: s, TrainingTimeout: s}
		if l := c.Limits(); l.Poll != math.MaxInt64 || l.DeploymentTimeout != math.MaxInt64 ||
			l.TrainingTimeout != math.MaxInt64 {
			t.Errorf("%g seconds: %+v", s, l)
		}
	}
	if got := seconds(0.5); got != 500*time.Millisecond {
		t.Error(got)
	}
}

// TestDefaults: the defaults are NAT's.
func TestDefaults(t *testing.T) {
	c := new(Config)
	if fs := decode(t, c, required); len(fs) > 0 {
		t.Fatal(fs)
	}
	h := c.Hyperparameters
	for _, x := range []struct {
		name      string
		got, want any
	}{
		{"hf_token", c.HFToken.Reveal(), ""},
		{"dataset_name", c.DatasetName, "nat-dpo"},
		{"dataset_output_dir", c.DatasetOutputDir == nil, true},
		{"create_namespace_if_missing", c.CreateNamespace, true},
		{"use_full_message_history", c.UseFullMessageHistory, false},
		{"deploy_on_completion", c.DeployOnCompletion, false},
		{"poll_interval_seconds", c.PollIntervalSeconds, 30.0},
		{"deployment_timeout_seconds", c.DeploymentTimeout, 1800.0},
		{"max_consecutive_status_failures", c.MaxStatusFailures, 3},
		{"training_type", h.TrainingType, "dpo"},
		{"finetuning_type", h.FinetuningType, "all_weights"},
		{"epochs", h.Epochs, 3},
		{"batch_size", h.BatchSize, 4},
		{"learning_rate", h.LearningRate, 5e-5},
		{"ref_policy_kl_penalty", h.DPO.RefPolicyKLPenalty, 0.1},
		{"preference_loss_weight", h.DPO.PreferenceLossWeight, 1.0},
		{"sft_loss_weight", h.DPO.SFTLossWeight, 0.0},
		{"image_name", c.Deployment.ImageName, "nvcr.io/nim/nvidia/nemotron-3.5-lightning-30b-a3b"},
		{"gpu", c.Deployment.GPU, 1},
		{"description", c.Deployment.Description, "Fine-tuned model deployment"},
		{"limits", c.Limits().Poll, 30 * time.Second},
		{"connect_timeout", c.ConnectTimeout, 5 * time.Second},
		{"request_timeout", c.RequestTimeout, time.Minute},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.got != x.want {
				t.Errorf("%s is %v, want %v", x.name, x.got, x.want)
			}
		})
	}
	var tr trainers.NemoCustomizerTrainer
	if fs := decode(t, &tr, "{}"); len(fs) > 0 || tr.NumRuns != 1 || !tr.DeduplicatePairs || tr.MaxPairs != nil ||
		!tr.WaitForCompletion || tr.ContinueOnCollectionError {
		t.Errorf("%+v, %v", tr, fs)
	}
}

// TestRules: the rules are NAT's, and each error names the field.
func TestRules(t *testing.T) {
	for text, field := range map[string]string{
		"max_consecutive_status_failures: 0":                  "max_consecutive_status_failures",
		"max_consecutive_status_failures: 11":                 "max_consecutive_status_failures",
		"poll_interval_seconds: 0":                            "poll_interval_seconds",
		"deployment_timeout_seconds: 0":                       "deployment_timeout_seconds",
		"hyperparameters: {epochs: 0}":                        "epochs",
		"hyperparameters: {learning_rate: 0}":                 "learning_rate",
		"hyperparameters: {batch_size: 0}":                    "batch_size",
		"hyperparameters: {training_type: grpo}":              "training_type",
		"hyperparameters: {dpo: {ref_policy_kl_penalty: -1}}": "ref_policy_kl_penalty",
		"deployment_config: {gpu: 0}":                         "gpu",
		"dataset_version: each":                               "dataset_version",
		"tls: {cert_file: x}":                                 "key_file",
	} {
		t.Run(text, func(t *testing.T) {
			fs := decode(t, new(Config), required+text)
			if !finding.Failed(fs) || !strings.Contains(fmt.Sprint(fs), field) {
				t.Errorf("%s: %v", text, fs)
			}
		})
	}
	fs := decode(t, new(Config), "{}")
	for _, field := range []string{"entity_host", "datastore_host", "namespace", "customization_config"} {
		if !strings.Contains(fmt.Sprint(fs), field) {
			t.Errorf("the missing %s is not named: %v", field, fs)
		}
	}
	for _, text := range []string{"num_runs: 0", "max_pairs: 0"} {
		if fs := decode(t, new(trainers.NemoCustomizerTrainer), text); !finding.Failed(fs) {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"nemo_dpo_3c560519-0badcafe", "nat-deployment-nemo-dpo-3c560519-0badcafe"},
		{"Run.1_é-0badcafe", "nat-deployment-run-1---0badcafe"},
		{strings.Repeat("x", 90) + "-0badcafe", "nat-deployment-" + strings.Repeat("x", 39) + "-0badcafe"},
	} {
		t.Run(c.key, func(t *testing.T) {
			got := name("nat-deployment-", c.key, maxName)
			if got != c.want || len(got) > maxName {
				t.Errorf("%s -> %s, want %s", c.key, got, c.want)
			}
		})
	}
}
