package atropos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Adapter pushes groups to an Atropos run-api server.
type Adapter struct {
	conf *Config
	env  trainers.Env
	api  *httpclient.Client
}

// Factory returns the factory for the adapter.
func Factory() trainers.Factory {
	return trainers.Factory{
		Type:   Type,
		Doc:    "an Atropos run-api: pushes scored groups of token sequences, from which a trainer takes batches",
		Format: func(any) string { return "atropos" }, New: func() any { return new(Config) },
		Open:   func(conf any, env trainers.Env) (trainers.Adapter, error) { return New(conf.(*Config), env) },
		Limits: func(conf any) trainers.Limits { return conf.(*Config).Limits() },
	}
}

// New makes an adapter. It doesn't send any requests.
func New(conf *Config, env trainers.Env) (*Adapter, error) {
	api, err := httpclient.New(httpclient.Options{
		Base: conf.URL, Token: conf.Token.Reveal(), TLS: conf.TLS,
		ConnectTimeout: conf.ConnectTimeout, Timeout: conf.RequestTimeout, Backoff: conf.backoff,
	})
	if err != nil {
		return nil, exit.Usagef("url: %w", err)
	}
	return &Adapter{conf: conf, env: env, api: api}, nil
}

// Close closes idle connections.
func (a *Adapter) Close() { a.api.Close() }

// Address returns the run-api's address.
func (a *Adapter) Address() string { return a.api.Place() }

// Check checks that a run-api responds.
func (a *Adapter) Check(ctx context.Context) error {
	_, err := a.fetchInfo(ctx)
	return err
}

// info is the trainer's registration; its fields are -1 until the trainer registers.
type info struct {
	BatchSize   int `json:"batch_size"`
	MaxTokenLen int `json:"max_token_len"`
}

func (a *Adapter) get(ctx context.Context, op, path string, body httpclient.Body, v any) error {
	return a.api.DoJSON(ctx, trainers.Ask(op, http.MethodGet, path, body), v)
}

func (a *Adapter) fetchInfo(ctx context.Context) (info, error) {
	var i info
	err := a.get(ctx, "ask the run-api for the trainer's requirements", "/info", nil, &i)
	return i, err
}

// Submit waits for the trainer, registers as an environment, and pushes the groups. If it is called again with the
// same key, it resumes the interrupted delivery.
func (a *Adapter) Submit(ctx context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	fail := func(err error) (trainers.JobRef, error) {
		if _, ok := errors.AsType[*httpclient.Error](err); ok {
			return trainers.JobRef{}, err
		}
		return trainers.JobRef{}, trainers.LocalError("push the groups of run "+data.RunID, "", err)
	}
	l, err := a.load(data, key)
	if err != nil {
		return fail(err)
	}
	if !l.Complete {
		// Register even when continuing a delivery, because after a restart of the server, the recorded environment
		// number may belong to a different environment.
		if err = a.register(ctx, data, l); err == nil {
			err = a.push(ctx, data, l)
		}
		if err != nil {
			return fail(err)
		}
	}
	a.env.Log.Info().Int("sent", l.Sent).Int("uncertain", l.Uncertain).Int("without_teacher", l.NoTeacher).
		Interface("left_out", l.Skipped).Msg("pushed the groups to Atropos")
	return trainers.JobRef{RunID: data.RunID, Backend: backend, ID: l.EnvName, Metadata: map[string]string{
		"env_id": strings.Trim(fmt.Sprint(append(l.Earlier, l.EnvID)), "[]"), "key": key,
		"groups": strconv.Itoa(l.Sent), "group_size": strconv.Itoa(l.GroupSize),
		"batch_size": strconv.Itoa(l.BatchSize), "left_out": formatCounts(l.Skipped),
		"uncertain": strconv.Itoa(l.Uncertain), "without_teacher": strconv.Itoa(l.NoTeacher),
		"wandb_group": l.Life.Group, "wandb_project": l.Life.Project, "step": strconv.FormatInt(l.Life.Step, 10),
	}}, nil
}

// formatCounts formats counts by reason as a string, sorted.
func formatCounts(m map[ledger.Reason]int) string {
	var out []string
	for r, n := range m {
		out = append(out, fmt.Sprintf("%s=%d", r, n))
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func (a *Adapter) pause(ctx context.Context, end time.Time, what string) error {
	if time.Now().After(end) {
		return trainers.Errorf(httpclient.Unavailable, "register with Atropos", "start the trainer", "%s within %s",
			what, a.conf.StartTimeout)
	}
	a.env.Report(trainers.Progress{What: "wait for the Atropos trainer: " + what})
	if httpclient.Sleep(ctx, a.conf.PollInterval) {
		return nil
	}
	return &httpclient.Error{Op: "register with Atropos", Why: "interrupted", Fault: httpclient.Local, Err: ctx.Err()}
}

// groupSize returns the configured size or, if it isn't set, the most common group size. If several sizes are equally
// common, it returns the largest.
func (a *Adapter) groupSize(data trainers.DataSet) (int, error) {
	if a.conf.GroupSize > 0 {
		return a.conf.GroupSize, nil
	}
	count := map[int]int{}
	err := each(data, func(g *Group, f *fault) error {
		if f == nil {
			count[len(g.Tokens)]++
		}
		return nil
	})
	best := 0
	for size, n := range count {
		if n > count[best] || n == count[best] && size > best {
			best = size
		}
	}
	if err == nil && best == 0 {
		err = errors.New("data set has no usable group")
	}
	return best, err
}

// serverStatus is the server's report on its queue.
type serverStatus struct {
	Step  int64  `json:"current_step"`
	Queue int64  `json:"queue_size"`
	Self  *int64 `json:"self_queue_size"`
}

// waitForRoom waits while max_queue or more groups are queued at the server, if max_queue is set.
func (a *Adapter) waitForRoom(ctx context.Context) error {
	for a.conf.MaxQueue > 0 {
		var s serverStatus
		if err := a.get(ctx, "get the length of the queue", "/status", nil, &s); err != nil {
			return err
		}
		if s.Queue < int64(a.conf.MaxQueue) {
			return nil
		}
		if err := a.pause(ctx, time.Now().Add(time.Hour), "the queue is full"); err != nil {
			return err
		}
	}
	return nil
}

// Status reports the share of the pushed data that the trainer has fetched. The job is complete once the remaining
// groups in the queue don't fill a batch.
func (a *Adapter) Status(ctx context.Context, job trainers.JobRef) (trainers.JobStatus, error) {
	op := "ask Atropos for " + job.ID
	ids, err := environments(op, job)
	if err != nil {
		return trainers.JobStatus{}, err
	}
	if why, err := a.restarted(ctx, job); err != nil || why != "" {
		return trainers.JobStatus{State: trainers.Failed, Message: why}, err
	}
	var s serverStatus
	queued := int64(0)
	for _, id := range ids {
		err := a.get(ctx, op, "/status-env", trainers.JSON(map[string]int64{"env_id": id}), &s)
		if err == nil && s.Self == nil {
			err = trainers.Errorf(httpclient.Unavailable, op, "", "missing self_queue_size in the response")
		}
		if err != nil {
			return trainers.JobStatus{}, err
		}
		queued += *s.Self
		s.Self = nil
	}
	groups, _ := strconv.ParseInt(job.Metadata["groups"], 10, 64)
	size, _ := strconv.ParseInt(job.Metadata["group_size"], 10, 64)
	batchSize, _ := strconv.ParseInt(job.Metadata["batch_size"], 10, 64)
	st := trainers.JobStatus{
		State: trainers.Running, Step: s.Step, Message: fmt.Sprintf("%d of %d groups are still queued", queued, groups),
		Metadata: map[string]any{"env_id": job.Metadata["env_id"], "queue": queued, "trainer_step": s.Step},
	}
	if groups > 0 {
		st.Progress = new(100 * float64(max(0, groups-queued)) / float64(groups))
	}
	if queued*size < max(batchSize, 1) {
		st.State = trainers.Completed
		if queued > 0 {
			st.Message += ", which do not fill a batch"
		}
	}
	return st, nil
}

// Cancel removes the job's environments from the server. Queued groups remain there, because the server can't remove
// them.
func (a *Adapter) Cancel(ctx context.Context, job trainers.JobRef) error {
	op := "disconnect from Atropos"
	ids, err := environments(op, job)
	if err != nil {
		return err
	}
	if why, err := a.restarted(ctx, job); err != nil || why != "" {
		return err // err is nil if the environments no longer exist
	}
	for _, id := range ids {
		body := trainers.JSON(map[string]int64{"env_id": id})
		if _, err = a.api.Do(ctx, trainers.Ask(op, http.MethodPost, "/disconnect-env", body)); err != nil {
			return err
		}
	}
	return nil
}
