package atropos

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// register waits for the trainer and registers as an environment.
func (a *Adapter) register(ctx context.Context, data trainers.DataSet, l *delivery) error {
	size, err := a.groupSize(data)
	if err != nil {
		return err
	}
	i, err := a.waitForTrainer(ctx)
	if err != nil {
		return err
	}
	now, err := a.fetchLife(ctx)
	if err != nil {
		return err
	}
	l.GroupSize, l.BatchSize, l.MaxLen = size, i.BatchSize, cmp.Or(a.conf.MaxTokenLength, i.MaxTokenLen)
	if i.BatchSize%size != 0 {
		return trainers.Errorf(httpclient.Refused, "register with Atropos", "use a batch_size that is a multiple, "+
			"or another group_size", "groups of %d never fill the trainer's batches of %d", size, i.BatchSize)
	}
	answer, err := a.registration(ctx, l)
	if err != nil {
		return err
	}
	// While a server is running, environment ids only increase.
	if l.EnvID >= 0 && (*answer.EnvID <= l.EnvID || !now.continues(l.Life)) {
		a.env.Log.Warn().Int("groups", l.Sent).
			Msg("the run-api was restarted; groups pushed before that may be lost and are not pushed again")
		l.Sent, l.Uncertain, l.Earlier = 0, l.Uncertain+l.Sent, nil
	} else if l.EnvID >= 0 {
		l.Earlier = append(l.Earlier, l.EnvID)
	}
	l.EnvID, l.EnvName, l.Life = *answer.EnvID, a.name(answer.Name), now
	return a.save(data, l)
}

// registered is the run-api's response to a registration. It can be used only if the registration succeeded and the
// response contains an EnvID.
type registered struct {
	Status string `json:"status"`
	EnvID  *int64 `json:"env_id"`
	Name   string `json:"wandb_name"`
}

// registration sends the delivery's registration repeatedly until the server accepts it. The server accepts it once the
// trainer has requested its first batch.
func (a *Adapter) registration(ctx context.Context, l *delivery) (registered, error) {
	body := trainers.JSON(map[string]any{
		"max_token_length": l.MaxLen, "desired_name": a.conf.Name, "weight": a.conf.Weight, "group_size": l.GroupSize,
	})
	for end := time.Now().Add(a.conf.StartTimeout); ; {
		var answer registered
		err := a.api.DoJSON(ctx, trainers.Send("register with Atropos", "/register-env", body), &answer)
		if err != nil || answer.Status == "success" && answer.EnvID != nil && *answer.EnvID >= 0 {
			return answer, err
		}
		if err := a.pause(ctx, end, "the trainer has not asked for its first batch"); err != nil {
			return registered{}, err
		}
	}
}

// life identifies a server process by the trainer's registration, which is lost when the server restarts.
type life struct {
	Group   string `json:"wandb_group"`
	Project string `json:"wandb_project"`
	Step    int64  `json:"step"` // never decreases
}

// continues reports whether l and before, which was fetched earlier, may come from the same server process.
func (l life) continues(before life) bool {
	return l.Group == before.Group && l.Project == before.Project && l.Step >= before.Step
}

// fetchLife gets the trainer's registration and step from the server. Fields that the server doesn't return are empty.
func (a *Adapter) fetchLife(ctx context.Context) (life, error) {
	var s serverStatus
	if err := a.get(ctx, "ask the run-api for the trainer's progress", "/status", nil, &s); err != nil {
		return life{}, err
	}
	reply, err := a.api.Do(ctx, trainers.Ask("ask the run-api for the trainer's identity",
		http.MethodGet, "/wandb_info", nil, http.StatusNotFound))
	if err != nil {
		return life{}, err
	}
	var who struct { // null values leave fields empty
		Group   string `json:"group"`
		Project string `json:"project"`
	}
	if reply.Status != http.StatusNotFound {
		if err := reply.JSON(&who); err != nil {
			return life{}, err
		}
	}
	return life{a.name(who.Group), a.name(who.Project), s.Step}, nil
}

// name returns a name given by the server, made safe to show and store.
func (a *Adapter) name(s string) string {
	const maxTextLen = 200
	if s = a.api.Scrub(s); len(s) > maxTextLen {
		s = strings.ToValidUTF8(s[:maxTextLen], "") + "…"
	}
	return s
}

// restarted returns the reason why a job's environments no longer exist on the server, or "" if they may still exist.
// If they don't, their numbers may now belong to other environments.
func (a *Adapter) restarted(ctx context.Context, job trainers.JobRef) (string, error) {
	step, err := strconv.ParseInt(job.Metadata["step"], 10, 64)
	if err != nil {
		return "", nil //nolint:nilerr // pushed by a version that didn't record it
	}
	now, err := a.fetchLife(ctx)
	if err != nil ||
		now.continues(life{Group: job.Metadata["wandb_group"], Project: job.Metadata["wandb_project"], Step: step}) {
		return "", err
	}
	return "the run-api was restarted after the groups were pushed; the queue is lost", nil
}

// environments returns the numbers under which a job's groups were pushed.
func environments(op string, job trainers.JobRef) (ids []int64, err error) {
	for field := range strings.FieldsSeq(job.Metadata["env_id"]) {
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil || id < 0 { // the server would treat a negative number as the number of another environment
			return nil, trainers.Errorf(httpclient.Local, op, "", "invalid env_id in the job reference")
		}
		ids = append(ids, id)
	}
	if ids == nil {
		return nil, trainers.Errorf(httpclient.Local, op, "", "missing env_id in the job reference")
	}
	return ids, nil
}

// waitForTrainer waits until a trainer has registered.
func (a *Adapter) waitForTrainer(ctx context.Context) (info, error) {
	for end := time.Now().Add(a.conf.StartTimeout); ; {
		i, err := a.fetchInfo(ctx)
		if err != nil || i.BatchSize > 0 {
			return i, err
		}
		if err := a.pause(ctx, end, "no trainer has registered"); err != nil {
			return i, err
		}
	}
}
