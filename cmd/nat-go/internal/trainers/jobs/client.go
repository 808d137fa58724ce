package jobs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/internal/secret"
)

// Client submits and follows the job of one run. It must not be used by more than one goroutine at a time.
type Client struct {
	Dir     runfolder.Folder
	Type    string // `_type` of the adapter
	Name    string // name of the adapter's entry in the config
	Adapter trainers.Adapter
	Limits  trainers.Limits
	Log     zerolog.Logger
	Watch   func(Update)   // called with each status while waiting; may be nil
	Secrets *secret.Values // secrets that are never written to the journal; nil means that none are known
	// Called with the trainer's output while waiting, if the adapter supports that; may be nil.
	Output func([]byte)

	locked  bool // whether Submit holds the run folder's lock
	unsaved bool // whether the latest change is missing from the journal
}

// Update describes the progress of a job.
type Update struct {
	Phase   Phase
	Status  trainers.JobStatus
	Elapsed time.Duration // since submission
	ETA     time.Duration // time until training is complete, at the current rate; 0 means unknown
}

// String describes the job's progress in one line.
func (u Update) String() string {
	what := "training"
	if u.Phase == Deploying || u.Phase == Done && strings.HasPrefix(u.Status.Message, "deployment") {
		what = "deployment"
	}
	s := fmt.Sprintf("%s: %s", what, u.Status.State)
	if u.Status.Progress != nil {
		s += fmt.Sprintf(", %.1f%%", *u.Status.Progress)
	}
	switch {
	case u.Status.Steps > 0:
		s += fmt.Sprintf(", step %d of %d", u.Status.Step, u.Status.Steps)
	case u.Status.Step > 0:
		s += fmt.Sprintf(", step %d", u.Status.Step)
	}
	if u.Status.Loss != nil {
		s += fmt.Sprintf(", loss %.4g", *u.Status.Loss)
	}
	if u.Elapsed > 0 {
		s += fmt.Sprintf(", %s so far", u.Elapsed.Round(time.Second))
	}
	if u.ETA > 0 {
		s += fmt.Sprintf(", about %s left", u.ETA.Round(time.Second))
	}
	return s
}

// Submit hands over the data set, unless the run already has a job, in which case it returns that job. After an error,
// Submit can be called again, in this process or another.
func (c *Client) Submit(ctx context.Context, data trainers.DataSet) (*Job, error) {
	lock, err := c.Dir.Lock("finetune resume " + string(c.Dir))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	c.locked = true
	defer func() { c.locked = false }()
	j, err := c.intent(data.RunID)
	if err != nil || j.Ref != nil && !c.neverBegan(j) {
		return j, err
	}
	if err := c.sameService(j); err != nil {
		return j, err
	}
	if err := c.Adapter.Check(ctx); err != nil {
		return j, trainers.Exit(err)
	}
	if j.Phase == Submitting {
		if found, err := c.find(ctx, j, data); err != nil || found {
			return j, err
		}
	}
	j.Phase, j.Error, j.IntentAt = Submitting, "", time.Now().UTC()
	if err := c.save(j); err != nil {
		return j, err
	}
	ref, err := c.Adapter.Submit(ctx, data, j.Key)
	if err == nil {
		return j, c.adopt(j, ref)
	}
	return j, c.settle(ctx, j, data, err)
}

// intent returns the job as recorded by the last submission. It returns a new job if there wasn't a submission, or if
// the last submission used a different adapter and certainly didn't create a job.
func (c *Client) intent(runID string) (*Job, error) {
	j, err := Load(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case j.Adapter == c.Type || j.Ref != nil:
		return j, nil
	case j.Phase == Submitting:
		return nil, exit.Environmentf("submission of this run to %s may have created a job: resume with that adapter "+
			"first to look for the job", j.Adapter)
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return &Job{
		RunID: runID, Adapter: c.Type, Name: c.Name, Key: runID + "-" + hex.EncodeToString(random[:]),
		Phase: Unsubmitted,
	}, nil
}

// neverBegan reports whether the recorded job j is known never to have begun. If so, it marks j as not submitted.
func (c *Client) neverBegan(j *Job) bool {
	s, ok := c.Adapter.(trainers.Starter)
	if !ok || j.Adapter != c.Type || j.CancelRequested || !s.NeverBegan(*j.Ref) {
		return false
	}
	j.Ref, j.Phase, j.Status = nil, Unsubmitted, trainers.JobStatus{}
	return true
}

// sameService returns an error if an unsettled submission was sent to a different service. The submission's job
// wouldn't be found in the current service, and the run would be submitted a second time. If there is no such
// submission, sameService records the address of the current service.
func (c *Client) sameService(j *Job) error {
	a, ok := c.Adapter.(trainers.Addressed)
	if !ok {
		return nil
	}
	now := a.Address()
	if j.Phase == Submitting && j.Address != "" && j.Address != now {
		return exit.Environmentf("submission of this run to %s may have created a job, but the config now names %s: "+
			"restore the earlier address, and `nat-go finetune resume %s` looks for the job; "+
			"if you know that the job was not created, remove %s", j.Address, now, c.Dir, c.Dir.Job())
	}
	j.Address = now
	return nil
}

// find looks for the job of a submission whose outcome is unknown. If the adapter isn't a Finder, submitting again
// with the same key has the same effect as submitting once.
func (c *Client) find(ctx context.Context, j *Job, data trainers.DataSet) (bool, error) {
	finder, ok := c.Adapter.(trainers.Finder)
	if !ok {
		return false, nil
	}
	ref, found, err := finder.Find(ctx, data, j.Key)
	if err != nil {
		return false, fmt.Errorf("earlier submission of this run may have created a job, but searching for it "+
			"failed: %w", trainers.Exit(err))
	}
	if !found {
		return false, nil
	}
	return true, c.adopt(j, ref)
}

func (c *Client) adopt(j *Job, ref trainers.JobRef) error {
	j.Ref, j.Phase, j.Error, j.SubmittedAt = &ref, Training, "", time.Now().UTC()
	j.Status = trainers.JobStatus{State: trainers.Pending}
	return c.save(j)
}

// settle determines whether a submission that returned an error created a job nevertheless.
func (c *Client) settle(ctx context.Context, j *Job, data trainers.DataSet, failure error) error {
	if trainers.Unsettled(failure) {
		found, err := c.find(context.WithoutCancel(ctx), j, data)
		switch {
		case found:
			return err
		case err != nil:
			c.Log.Warn().Err(err).Msg("cannot determine whether the job was created")
		}
		failure = fmt.Errorf("%w; it is unknown whether a job was created: `nat-go finetune resume %s` looks for one "+
			"before submitting again", trainers.Exit(failure), c.Dir)
	} else {
		j.Phase = Unsubmitted
	}
	j.Error = failure.Error()
	return errors.Join(trainers.Exit(failure), c.save(j))
}

// Refresh requests the status once, and records it.
func (c *Client) Refresh(ctx context.Context, j *Job) error {
	if j.Ref == nil || j.Phase == Done {
		return nil
	}
	st, err := c.status(ctx, j)
	if err != nil {
		return trainers.Exit(err)
	}
	return c.recordStatus(j, st)
}

func (c *Client) status(ctx context.Context, j *Job) (trainers.JobStatus, error) {
	if d, ok := c.Adapter.(trainers.Deployer); ok && j.Phase == Deploying {
		return d.StatusOfDeployment(ctx, *j.Ref)
	}
	return c.Adapter.Status(ctx, *j.Ref)
}

// recordStatus records a status if it differs from the previous status.
func (c *Client) recordStatus(j *Job, st trainers.JobStatus) error {
	_, deploys := c.Adapter.(trainers.Deployer)
	if st.State.Terminal() && (j.Phase == Deploying || st.State != trainers.Completed || !deploys) {
		j.Phase = Done
	}
	if sameStatus(j.Status, st) && j.Phase != Done && !c.unsaved {
		return nil
	}
	j.Status = st
	err := c.save(j)
	if errors.As(err, new(*runfolder.Busy)) && j.Phase != Done {
		c.Log.Warn().Err(err).Msg("the run folder is in use: the status will be recorded later")
		return nil
	}
	return err
}

// journalTimeout is the maximum time that recording a job event waits for another process to release the run folder.
const journalTimeout = 30 * time.Second

// save writes the journal while holding the run folder's lock.
func (c *Client) save(j *Job) error {
	c.unsaved = true
	if !c.locked {
		lock, err := c.Dir.LockSoon(context.Background(), "finetune wait "+string(c.Dir), journalTimeout)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	// Remove secrets from third-party text about the job.
	for _, s := range []*string{&j.Error, &j.Status.Message, &j.Status.Detail} {
		*s = c.redact(*s)
	}
	for k, v := range j.Status.Metadata {
		if s, ok := v.(string); ok {
			j.Status.Metadata[k] = c.redact(s)
		}
	}
	err := j.save(c.Dir)
	c.unsaved = err != nil
	return err
}

func sameStatus(a, b trainers.JobStatus) bool {
	return a.State == b.State && a.Message == b.Message && a.Step == b.Step && equal(a.Progress, b.Progress) &&
		equal(a.Loss, b.Loss)
}

func equal(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// Wait waits until the job has ended, including its deployment. It records each change of the status. An error with
// exit code 1 means that the job failed. An error with exit code 3 means that the job couldn't be reached; it may
// still be running. At the user's request, Wait returns early, after detaching from the job or cancelling it.
func (c *Client) Wait(ctx context.Context, j *Job, leave *Leave) error {
	if j.Ref == nil {
		return exit.Failedf("no job to wait for in run %s: `nat-go finetune resume %s` submits it", j.RunID, c.Dir)
	}
	if j.Phase == Done && !j.DeployingAt.IsZero() && j.Status.State != trainers.Completed {
		// The model is trained, but its deployment failed, so deploy it again.
		j.Phase, j.Error, j.DeployingAt = Training, "", time.Time{}
		j.Status = trainers.JobStatus{State: trainers.Completed}
		if err := c.save(j); err != nil {
			return err
		}
	}
	if j.Phase == Done {
		return c.verdict(j)
	}
	ctx, stop := leave.Context(ctx)
	defer stop()
	m := &machine{limits: c.Limits, phase: j.Phase, since: j.SubmittedAt}
	if j.Phase == Deploying {
		m.since = j.DeployingAt
	}
	pace := &speed{done: -1}
	var printed int64
	for {
		st, err := c.status(ctx, j)
		if leave.left() {
			return c.leave(ctx, j, leave)
		}
		if ctx.Err() != nil {
			return exit.With(exit.Interrupted, ctx.Err())
		}
		if err == nil {
			if err := c.recordStatus(j, st); err != nil {
				return err
			}
			c.show(j, st, pace)
			printed = c.tail(ctx, j, printed)
		} else {
			c.Log.Warn().Err(err).Msg("no status")
		}
		done, err := c.act(ctx, j, m, m.next(time.Now(), st, err))
		if leave.left() {
			return c.leave(ctx, j, leave)
		}
		if done {
			return err
		}
	}
}

// act executes the state machine's action, and reports whether waiting is over.
func (c *Client) act(ctx context.Context, j *Job, m *machine, a action) (done bool, err error) {
	switch a.do {
	case deploy:
		return c.deploy(ctx, j, m)
	case finish:
		return true, c.verdict(j)
	case cancel:
		return true, errors.Join(a.err, c.Cancel(ctx, j))
	case giveUp:
		return true, fmt.Errorf("%w; job %s continues: `nat-go finetune wait %s` waits for it", a.err, j.Ref.ID, c.Dir)
	}
	httpclient.Sleep(ctx, a.pause)
	return false, nil
}

// deploy starts the deployment, if the adapter supports it, and repeats attempts that failed for a transient reason.
func (c *Client) deploy(ctx context.Context, j *Job, m *machine) (done bool, err error) {
	d, ok := c.Adapter.(trainers.Deployer)
	if !ok {
		return true, c.verdict(j)
	}
	for {
		ref, started, err := d.Deploy(ctx, *j.Ref)
		if err == nil {
			j.Ref, j.Error, m.failures = &ref, "", 0
			if !started {
				j.Phase = Done
				return true, errors.Join(c.save(j), c.verdict(j))
			}
			j.Phase, j.DeployingAt = Deploying, time.Now().UTC()
			m.phase, m.since = Deploying, j.DeployingAt
			return false, c.save(j)
		}
		c.Log.Warn().Err(err).Msg("not deployed")
		a := m.failed(err)
		if !trainers.Transient(err) || a.do == giveUp {
			j.Error = err.Error()
			failure := fmt.Errorf("model is trained, but not deployed: %w; `nat-go finetune wait %s` tries again",
				trainers.Exit(err), c.Dir)
			return true, errors.Join(failure, c.save(j))
		}
		if !httpclient.Sleep(ctx, a.pause) {
			return false, nil
		}
	}
}

// verdict returns the error for a job that has ended, or nil if it completed.
func (c *Client) verdict(j *Job) error {
	what, again := "job "+j.Ref.ID, ""
	if !j.DeployingAt.IsZero() {
		what, again = "the deployment of "+what, fmt.Sprintf("; `nat-go finetune wait %s` retries it", c.Dir)
	}
	why := j.Status.Message
	if j.Status.Detail != "" {
		why += ": " + j.Status.Detail
	}
	switch j.Status.State {
	case trainers.Completed:
		return nil
	case trainers.Canceled:
		return exit.Failedf("%s was cancelled (%s)%s", what, why, again)
	default:
		return exit.Failedf("%s failed (%s)%s", what, why, again)
	}
}

// Cancel requests that the job be ended. It records the cancellation in the journal before it sends the request.
func (c *Client) Cancel(ctx context.Context, j *Job) error {
	if j.Phase == Done {
		return exit.Failedf("job %s has already ended: %s", j.Ref.ID, j.Status.State)
	}
	if j.Ref == nil {
		return exit.Failedf("no job to cancel in run %s", j.RunID)
	}
	j.CancelRequested = true
	if err := c.save(j); err != nil {
		return err
	}
	return trainers.Exit(c.Adapter.Cancel(ctx, *j.Ref))
}

// leave ends a wait at the user's request. The job continues, unless a second request cancels it.
func (c *Client) leave(ctx context.Context, j *Job, leave *Leave) error {
	ctx = context.WithoutCancel(ctx)
	err := fmt.Errorf("left job %s running; `nat-go finetune wait %s` waits for it again, `nat-go finetune cancel %s` "+
		"ends it", j.Ref.ID, c.Dir, c.Dir)
	if leave.isSecond(ctx) {
		if err = c.Cancel(ctx, j); err != nil {
			err = fmt.Errorf("cannot cancel the job: %w", err)
		} else {
			err = fmt.Errorf("job %s is being cancelled", j.Ref.ID)
		}
	}
	return exit.With(leave.Code(), err)
}

// tail passes the trainer's output to c.Output, starting at an offset, and returns the offset at which to continue.
func (c *Client) tail(ctx context.Context, j *Job, from int64) int64 {
	t, ok := c.Adapter.(trainers.Tailer)
	if !ok || c.Output == nil {
		return from
	}
	// A trainer may print faster than this loop reads. Until the job has ended, a call therefore reads only about
	// tailBytes, to avoid delaying signals and timeouts.
	for end := from + tailBytes; (from < end || j.Status.State.Terminal()) && ctx.Err() == nil; {
		text, next, err := t.Tail(ctx, *j.Ref, from)
		if err != nil {
			c.Log.Warn().Err(err).Msg("cannot read the trainer's output")
		}
		if from = next; len(text) == 0 {
			break
		}
		c.Output(text)
	}
	return from
}

// tailBytes is the number of bytes of a trainer's output after which reading stops until the next status request.
const tailBytes = 1 << 20

func (c *Client) show(j *Job, st trainers.JobStatus, s *speed) {
	if c.Watch != nil {
		now := time.Now()
		c.Watch(Update{Phase: j.Phase, Status: st, Elapsed: now.Sub(j.SubmittedAt), ETA: s.eta(now, j.Phase, st)})
	}
}

// speed estimates when training will be complete, based on the first status in this wait that showed progress.
type speed struct {
	at   time.Time
	done float64
}

func (s *speed) eta(now time.Time, p Phase, st trainers.JobStatus) time.Duration {
	done := -1.0
	switch {
	case st.Steps > 0:
		done = float64(st.Step) / float64(st.Steps)
	case st.Progress != nil:
		done = *st.Progress / 100
	}
	switch {
	case p != Training || st.State != trainers.Running || done <= 0 || done >= 1:
		return 0
	case s.done < 0 || done < s.done:
		s.at, s.done = now, done
		return 0
	case done == s.done:
		return 0
	}
	return time.Duration(float64(now.Sub(s.at)) * (1 - done) / (done - s.done))
}
