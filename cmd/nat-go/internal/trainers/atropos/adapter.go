package atropos

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Adapter pushes groups to a run-api.
type Adapter struct {
	conf *Config
	env  trainers.Env
	api  *httpclient.Client
}

// Factory is the adapter as a configuration names it.
func Factory() trainers.Factory {
	return trainers.Factory{
		Type:   Type,
		Doc:    "an Atropos run-api: pushes scored groups of token sequences, from which a trainer takes batches",
		Format: func(any) string { return "atropos" },
		New:    func() any { return new(Config) },
		Open:   func(conf any, env trainers.Env) (trainers.Adapter, error) { return New(conf.(*Config), env) },
		Limits: func(conf any) trainers.Limits { return conf.(*Config).Limits() },
	}
}

// New makes an adapter. It sends no request.
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

// Check checks that there is a run-api.
func (a *Adapter) Check(ctx context.Context) error {
	_, err := a.info(ctx)
	return err
}

// info is what the trainer registered with; -1 before that.
type info struct {
	BatchSize   int `json:"batch_size"`
	MaxTokenLen int `json:"max_token_len"`
}

func (a *Adapter) get(ctx context.Context, op, path string, body any, v any) error {
	req := httpclient.Request{
		Op:       op,
		Method:   http.MethodGet,
		Path:     path,
		Accept:   "application/json",
		Tries:    3,
		Harmless: true,
	}
	if body != nil {
		b, err := httpclient.JSON(body)
		if err != nil {
			return err
		}
		req.Body = b
	}
	reply, err := a.api.Do(ctx, req)
	if err != nil {
		return err
	}
	return reply.JSON(v)
}

func (a *Adapter) info(ctx context.Context) (info, error) {
	var i info
	err := a.get(ctx, "ask the run-api what its trainer wants", "/info", nil, &i)
	return i, err
}

// delivery is what is known about a delivery: <run>/trainer/atropos.json.
type delivery struct {
	Key       string                `json:"key"`
	EnvID     int64                 `json:"env_id"`
	Earlier   []int64               `json:"earlier_env_ids,omitempty"` // under which the delivery began
	EnvName   string                `json:"env_name"`
	Life      life                  `json:"life"`
	GroupSize int                   `json:"group_size"`
	MaxLen    int                   `json:"max_token_len"`
	BatchSize int                   `json:"batch_size"`
	Read      int                   `json:"read"`      // groups of the data set that have been dealt with
	Sending   bool                  `json:"sending"`   // the one after them may be in transit
	Sent      int                   `json:"sent"`      // groups the server has
	Uncertain int                   `json:"uncertain"` // groups it may have
	Skipped   map[ledger.Reason]int `json:"skipped"`
	NoTeacher int                   `json:"no_teacher,omitempty"` // groups of these whose distillation columns were left out
	Complete  bool                  `json:"complete"`
}

func (a *Adapter) deliveryPath(data trainers.DataSet) string {
	return filepath.Join(runfolder.Folder(data.RunDir).Trainer(), "atropos.json")
}

func (a *Adapter) load(data trainers.DataSet, key string) (*delivery, error) {
	l := &delivery{Key: key, EnvID: -1, Skipped: map[ledger.Reason]int{}}
	b, err := durable.ReadFile(a.deliveryPath(data), maxLine)
	if errors.Is(err, fs.ErrNotExist) {
		return l, os.MkdirAll(filepath.Dir(a.deliveryPath(data)), 0o755)
	}
	if err != nil {
		return nil, err
	}
	have := new(delivery)
	if err := json.Unmarshal(b, have); err != nil {
		return nil, fmt.Errorf("%s: %w", a.deliveryPath(data), err)
	}
	if have.Key != key {
		return l, nil
	}
	if have.Sending {
		have.Sending, have.Read, have.Uncertain = false, have.Read+1, have.Uncertain+1
	}
	if have.Skipped == nil {
		have.Skipped = map[ledger.Reason]int{}
	}
	return have, nil
}

func (a *Adapter) save(data trainers.DataSet, l *delivery) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteFile(a.deliveryPath(data), append(b, '\n'))
}

// note is save without waiting for the disk: it survives the process, which is enough for a note about a single group.
func (a *Adapter) note(data trainers.DataSet, l *delivery) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.Note(a.deliveryPath(data), append(b, '\n'))
}

// Submit waits for the trainer, registers, and pushes the groups. With the same key it continues where it stopped.
func (a *Adapter) Submit(ctx context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	fail := func(err error) (trainers.JobRef, error) {
		if _, ok := trainers.AsError(err); ok {
			return trainers.JobRef{}, err
		}
		return trainers.JobRef{}, &trainers.Error{
			Op:    "push the groups of run " + data.RunID,
			Why:   err.Error(),
			Fault: trainers.Local,
			Err:   err,
		}
	}
	l, err := a.load(data, key)
	if err != nil {
		return fail(err)
	}
	if !l.Complete {
		// Also when a delivery continues: after a restart of the server the number of an environment may belong to
		// another.
		if err := a.register(ctx, data, l); err != nil {
			return fail(err)
		}
		if err := a.push(ctx, data, l); err != nil {
			return fail(err)
		}
	}
	a.env.Log.Info().Int("sent", l.Sent).Int("uncertain", l.Uncertain).Int("without_teacher", l.NoTeacher).
		Interface("left_out", l.Skipped).Msg("pushed the groups to Atropos")
	return trainers.JobRef{RunID: data.RunID, Backend: Backend, ID: l.EnvName, Metadata: map[string]string{
		"env_id": strings.Trim(fmt.Sprint(append(l.Earlier, l.EnvID)), "[]"), "key": key,
		"groups": strconv.Itoa(l.Sent), "group_size": strconv.Itoa(l.GroupSize),
		"batch_size": strconv.Itoa(l.BatchSize), "left_out": leftOut(l.Skipped), "uncertain": strconv.Itoa(l.Uncertain),
		"without_teacher": strconv.Itoa(l.NoTeacher),
		"wandb_group":     l.Life.Group, "wandb_project": l.Life.Project, "step": strconv.FormatInt(l.Life.Step, 10),
	}}, nil
}

// leftOut prints counts by reason.
func leftOut(m map[ledger.Reason]int) string {
	var out []string
	for r, n := range m {
		out = append(out, fmt.Sprintf("%s=%d", r, n))
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// register waits for the trainer and registers as an environment.
func (a *Adapter) register(ctx context.Context, data trainers.DataSet, l *delivery) error {
	size, err := a.groupSize(data)
	if err != nil {
		return err
	}
	i, err := a.trainer(ctx)
	if err != nil {
		return err
	}
	now, err := a.life(ctx)
	if err != nil {
		return err
	}
	l.GroupSize, l.BatchSize, l.MaxLen = size, i.BatchSize, a.conf.MaxTokenLength
	if l.MaxLen == 0 {
		l.MaxLen = i.MaxTokenLen
	}
	if i.BatchSize%size != 0 {
		return &trainers.Error{
			Op:    "register with Atropos",
			Why:   fmt.Sprintf("groups of %d never fill the trainer's batches of %d", size, i.BatchSize),
			Fix:   "use a batch_size that is a multiple, or another group_size",
			Fault: trainers.Refused,
		}
	}
	answer, err := a.registration(ctx, l)
	if err != nil {
		return err
	}
	// Numbers only grow while a server is running.
	if l.EnvID >= 0 && (*answer.EnvID <= l.EnvID || !now.continues(l.Life)) {
		a.env.Log.Warn().Int("groups", l.Sent).Msg("the run-api was restarted since groups were pushed to it; they may be lost and are not pushed again")
		l.Sent, l.Uncertain, l.Earlier = 0, l.Uncertain+l.Sent, nil
	} else if l.EnvID >= 0 {
		l.Earlier = append(l.Earlier, l.EnvID)
	}
	l.EnvID, l.EnvName, l.Life = *answer.EnvID, a.name(answer.Name), now
	return a.save(data, l)
}

// registered is what the run-api answers to a registration. It is only of use if it succeeded and has an EnvID.
type registered struct {
	Status string `json:"status"`
	EnvID  *int64 `json:"env_id"`
	Name   string `json:"wandb_name"`
}

// registration sends the delivery's registration until the trainer accepts it.
func (a *Adapter) registration(ctx context.Context, l *delivery) (registered, error) {
	body, err := httpclient.JSON(map[string]any{
		"max_token_length": l.MaxLen,
		"desired_name":     a.conf.Name,
		"weight":           a.conf.Weight,
		"group_size":       l.GroupSize,
	})
	if err != nil {
		return registered{}, err
	}
	for end := time.Now().Add(a.conf.StartTimeout); ; {
		reply, err := a.api.Do(ctx, httpclient.Request{
			Op:     "register with Atropos",
			Method: http.MethodPost,
			Path:   "/register-env",
			Accept: "application/json",
			Body:   body,
			Tries:  3,
		})
		if err != nil {
			return registered{}, err
		}
		var answer registered
		if err := reply.JSON(&answer); err != nil {
			return registered{}, err
		}
		if answer.Status == "success" && answer.EnvID != nil && *answer.EnvID >= 0 {
			return answer, nil
		}
		if err := a.pause(ctx, end, "the trainer has not asked for its first batch"); err != nil {
			return registered{}, err
		}
	}
}

// life identifies one life of the server: it is the trainer's registration, which a restart loses.
type life struct {
	Group   string `json:"wandb_group"`
	Project string `json:"wandb_project"`
	Step    int64  `json:"step"` // only grows
}

// continues reports whether the server may still be the same one.
func (l life) continues(before life) bool {
	return l.Group == before.Group && l.Project == before.Project && l.Step >= before.Step
}

// life asks the server who its trainer is. A server that doesn't say always counts as the same.
func (a *Adapter) life(ctx context.Context) (life, error) {
	var s serverStatus
	if err := a.get(ctx, "ask the run-api how far its trainer is", "/status", nil, &s); err != nil {
		return life{}, err
	}
	reply, err := a.api.Do(ctx, httpclient.Request{
		Op:       "ask the run-api who its trainer is",
		Method:   http.MethodGet,
		Path:     "/wandb_info",
		Accept:   "application/json",
		Tries:    3,
		Harmless: true,
		OK:       []int{http.StatusNotFound},
	})
	if err != nil {
		return life{}, err
	}
	var who struct {
		Group   *string `json:"group"`
		Project *string `json:"project"`
	}
	if reply.Status != http.StatusNotFound {
		if err := reply.JSON(&who); err != nil {
			return life{}, err
		}
	}
	l := life{Step: s.Step}
	if who.Group != nil {
		l.Group = a.name(*who.Group)
	}
	if who.Project != nil {
		l.Project = a.name(*who.Project)
	}
	return l, nil
}

// name returns a name given by the server, made safe to show and store.
func (a *Adapter) name(s string) string {
	const most = 200
	if s = a.api.Scrub(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// restarted says why a job's environment no longer exists on the server: its number may belong to another by now.
func (a *Adapter) restarted(ctx context.Context, job trainers.JobRef) (string, error) {
	step, err := strconv.ParseInt(job.Metadata["step"], 10, 64)
	if err != nil {
		return "", nil //nolint:nilerr // pushed by a version that didn't note it
	}
	now, err := a.life(ctx)
	if err != nil ||
		now.continues(life{Group: job.Metadata["wandb_group"], Project: job.Metadata["wandb_project"], Step: step}) {
		return "", err
	}
	return "the run-api was restarted after the groups were pushed; what it had queued is lost", nil
}

// environments are the numbers under which a job's groups were pushed.
func environments(op string, job trainers.JobRef) (ids []int64, err error) {
	for field := range strings.FieldsSeq(job.Metadata["env_id"]) {
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil || id < 0 { // a negative number would address somebody else's
			return nil, &trainers.Error{
				Op:    op,
				Why:   "the job reference has no env_id that can be used",
				Fault: trainers.Local,
			}
		}
		ids = append(ids, id)
	}
	if ids == nil {
		return nil, &trainers.Error{Op: op, Why: "the job reference has no env_id", Fault: trainers.Local}
	}
	return ids, nil
}

// trainer waits until a trainer has registered.
func (a *Adapter) trainer(ctx context.Context) (info, error) {
	for end := time.Now().Add(a.conf.StartTimeout); ; {
		i, err := a.info(ctx)
		if err != nil || i.BatchSize > 0 {
			return i, err
		}
		if err := a.pause(ctx, end, "no trainer has registered"); err != nil {
			return i, err
		}
	}
}

func (a *Adapter) pause(ctx context.Context, end time.Time, what string) error {
	if time.Now().After(end) {
		return &trainers.Error{
			Op:    "register with Atropos",
			Why:   fmt.Sprintf("%s within %s", what, a.conf.StartTimeout),
			Fix:   "start the trainer",
			Fault: trainers.Unavailable,
		}
	}
	a.env.Report(trainers.Progress{What: "wait for the Atropos trainer: " + what})
	t := time.NewTimer(a.conf.PollInterval)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return &trainers.Error{Op: "register with Atropos", Why: "interrupted", Fault: trainers.Local, Err: ctx.Err()}
	}
}

// groupSize returns the configured size, or else the most common one among the groups; of two equally common ones, the
// larger.
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
		err = errors.New("the data set has no usable group")
	}
	return best, err
}

// push sends every valid group, one request each, and records each before and after.
func (a *Adapter) push(ctx context.Context, data trainers.DataSet, l *delivery) error {
	n := 0
	err := each(data, func(g *Group, f *fault) error {
		if n++; n <= l.Read {
			return nil
		}
		if f == nil {
			f = g.check(l.GroupSize, l.MaxLen, a.conf.SkipSameScores)
		}
		if f != nil {
			a.env.Log.Debug().Int("group", n-1).Str("reason", string(f.reason)).Str("detail", f.detail).
				Msg("group left out")
			l.Skipped[f.reason]++
			l.Read++
			return nil
		}
		if err := a.room(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return &trainers.Error{
				Op:    "push the groups",
				Why:   fmt.Sprintf("interrupted after %d of them", l.Sent),
				Fix:   "resume the run to push the rest",
				Fault: trainers.Local,
			}
		}
		if g.NoTeacher != "" {
			l.NoTeacher++
			a.env.Log.Warn().Int("group", n-1).Str("why", g.NoTeacher).
				Msg("the group goes on without the teacher's distributions")
		}
		g.EnvID = &l.EnvID
		return a.send(ctx, data, l, g)
	})
	if err != nil {
		return err
	}
	l.Complete = true
	if l.Sent+l.Uncertain == 0 {
		return errors.Join(a.save(data, l), &trainers.Error{
			Op:    "push the groups of run " + data.RunID,
			Why:   "none of them is fit to be sent: " + leftOut(l.Skipped),
			Fault: trainers.Refused,
		})
	}
	return a.save(data, l)
}

func (a *Adapter) send(ctx context.Context, data trainers.DataSet, l *delivery, g *Group) error {
	req, err := a.request(g)
	if err != nil {
		return err
	}
	l.Sending = true
	if err := a.note(data, l); err != nil {
		return err
	}
	_, err = a.api.Do(context.WithoutCancel(ctx), req)
	l.Sending = false
	switch {
	case err == nil:
		l.Sent++
	case trainers.Unsettled(err):
		l.Uncertain++
		a.env.Log.Warn().Err(err).Int("group", l.Read).Msg("the answer was lost; the group may be queued and is not sent again")
	default:
		return errors.Join(err, a.save(data, l))
	}
	l.Read++
	a.env.Report(trainers.Progress{What: "push groups to Atropos", Done: int64(l.Read), Unit: "group"})
	if err != nil && l.Uncertain > maxUncertain {
		return errors.Join(err, a.save(data, l))
	}
	return a.note(data, l)
}

// maxUncertain is how many answers may be lost before the server is considered gone.
const maxUncertain = 10

// request is the push of one group.
func (a *Adapter) request(g *Group) (httpclient.Request, error) {
	body, err := httpclient.JSON(g)
	if err != nil {
		return httpclient.Request{}, err
	}
	req := httpclient.Request{
		Op:     "push a group",
		Method: http.MethodPost,
		Path:   "/scored_data",
		Accept: "application/json",
		Body:   body,
		Tries:  3,
	}
	if a.conf.Gzip && len(body.Data) >= 1024 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body.Data); err != nil {
			return req, err
		}
		if err := z.Close(); err != nil {
			return req, err
		}
		if b.Len() < len(body.Data) {
			req.Body = httpclient.Bytes{ContentType: body.ContentType, Data: b.Bytes()}
			req.Header = http.Header{"Content-Encoding": {"gzip"}}
		}
	}
	return req, nil
}

// serverStatus is what the server says about its queue.
type serverStatus struct {
	Step  int64  `json:"current_step"`
	Queue int64  `json:"queue_size"`
	Self  *int64 `json:"self_queue_size"`
}

// room waits while the server's queue is full.
func (a *Adapter) room(ctx context.Context) error {
	for a.conf.MaxQueue > 0 {
		var s serverStatus
		if err := a.get(ctx, "ask how long the queue is", "/status", nil, &s); err != nil {
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

// Status says how much of what was pushed the trainer has fetched. What remains at the end fills no batch.
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
		if err := a.get(ctx, op, "/status-env", map[string]int64{"env_id": id}, &s); err != nil {
			return trainers.JobStatus{}, err
		}
		if s.Self == nil {
			return trainers.JobStatus{}, &trainers.Error{
				Op:    op,
				Why:   "the answer has no self_queue_size",
				Fault: trainers.Unavailable,
			}
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
		p := 100 * float64(max(0, groups-queued)) / float64(groups)
		st.Progress = &p
	}
	if queued*size < max(batchSize, 1) {
		st.State = trainers.Completed
		if queued > 0 {
			st.Message += ", which fill no batch"
		}
	}
	return st, nil
}

// Cancel removes the environment from the server. What is queued stays queued, because the server can't take it back.
func (a *Adapter) Cancel(ctx context.Context, job trainers.JobRef) error {
	op := "disconnect from Atropos"
	ids, err := environments(op, job)
	if err != nil {
		return err
	}
	if why, err := a.restarted(ctx, job); err != nil || why != "" {
		return err // there is nothing left of it to disconnect
	}
	for _, id := range ids {
		body, err := httpclient.JSON(map[string]int64{"env_id": id})
		if err != nil {
			return err
		}
		_, err = a.api.Do(ctx, httpclient.Request{
			Op:       op,
			Method:   http.MethodPost,
			Path:     "/disconnect-env",
			Accept:   "application/json",
			Body:     body,
			Tries:    3,
			Harmless: true,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
