// Package manifests reads nat-go's output for Kubernetes as Kubernetes does, and rejects unknown fields. It is a
// separate module, so that building nat-go doesn't require Kubernetes' types.
package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"sigs.k8s.io/yaml"
)

// manifests makes nat-go plan a run and write its Jobs, and then reads the Jobs.
func manifests(t *testing.T, runID string, flags ...string) map[string]*batch.Job {
	t.Helper()
	dir := t.TempDir()
	nat := filepath.Join(dir, "nat-go")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(root, "examples", "hints")
	for _, args := range [][]string{
		{"go", "build", "-o", nat, "./cmd/nat-go"},
		{
			nat, "shard", "plan", "-q", "--config-file", filepath.Join(example, "finetune.yml"), "--run-id", runID,
			"--from", filepath.Join(example, "traces.jsonl"), "-o", "collator.tokenizer=", "--shards", "3",
			"--plan-dir", filepath.Join(dir, "a plan: \"x\""),
		},
		append([]string{
			nat, "shard", "script", "k8s", filepath.Join(dir, "a plan: \"x\""), "--out", filepath.Join(dir, "k8s"),
		}, flags...),
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	jobs := map[string]*batch.Job{}
	for _, stage := range []string{"build", "group", "divide", "write", "merge"} {
		text, err := os.ReadFile(filepath.Join(dir, "k8s", stage+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		jobs[stage] = new(batch.Job)
		if err := yaml.UnmarshalStrict(text, jobs[stage]); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
	}
	return jobs
}

func TestJobs(t *testing.T) {
	jobs := manifests(t, "R.1", "--image", "registry.example/nat-go:1", "--claim", "traces", "--mount", "/data",
		"--secret", "keys", "--user", "1000:100", "--retries", "4", "--at-once", "2", "--memory", "3GiB")
	for stage, j := range jobs {
		if j.APIVersion != "batch/v1" || j.Kind != "Job" {
			t.Errorf("%s: got kind %s of %s", stage, j.Kind, j.APIVersion)
		}
		if bad := validation.NameIsDNSLabel(j.Name, false); len(bad) > 0 || !strings.HasSuffix(j.Name, "-"+stage) {
			t.Errorf("%s is called %q: %v", stage, j.Name, bad)
		}
		pod := j.Spec.Template.Spec
		if pod.RestartPolicy != core.RestartPolicyNever { // podFailurePolicy requires it
			t.Errorf("%s: restart policy %s", stage, pod.RestartPolicy)
		}
		if *pod.SecurityContext.RunAsUser != 1000 || *pod.SecurityContext.FSGroup != 100 {
			t.Errorf("%s runs as %v", stage, pod.SecurityContext)
		}
		c := pod.Containers[0]
		if c.EnvFrom[0].SecretRef.Name != "keys" || c.Resources.Limits.Memory().Value() != 3<<30 {
			t.Errorf("%s: %+v", stage, c)
		}
		if !strings.HasSuffix(c.Args[2], `/a plan: "x"`) || c.Args[0] != "shard" {
			t.Errorf("%s: arguments %q", stage, c.Args)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, which is not a volume", stage, m.Name)
			}
		}
		for _, rule := range j.Spec.PodFailurePolicy.Rules {
			if rule.OnExitCodes != nil && *rule.OnExitCodes.ContainerName != c.Name {
				t.Errorf("%s: a failure rule names the container %q", stage, *rule.OnExitCodes.ContainerName)
			}
		}
	}
	for _, stage := range []string{"build", "group", "write"} {
		t.Run(stage, func(t *testing.T) {
			s := jobs[stage].Spec
			if *s.CompletionMode != batch.IndexedCompletion || *s.Completions != 3 || *s.Parallelism != 2 ||
				*s.BackoffLimitPerIndex != 4 || s.BackoffLimit != nil {
				t.Errorf("%s: %+v", stage, s)
			}
			last := s.PodFailurePolicy.Rules[1]
			if last.Action != batch.PodFailurePolicyActionFailIndex ||
				!slices.Equal(last.OnExitCodes.Values, []int32{4}) {
				t.Errorf("%s: %+v", stage, last)
			}
		})
	}
	for _, merge := range []string{"divide", "merge"} {
		t.Run(merge, func(t *testing.T) {
			s := jobs[merge].Spec
			if s.CompletionMode != nil || *s.BackoffLimit != 4 ||
				s.PodFailurePolicy.Rules[1].Action != batch.PodFailurePolicyActionFailJob {
				t.Errorf("%s: %+v", merge, s)
			}
			args := s.Template.Spec.Containers[0].Args
			leaves := slices.Contains(args, "--leave-writing")
			if args[1] != "merge" || leaves != (merge == "divide") {
				t.Errorf("%s: arguments %q", merge, args)
			}
		})
	}
}
