package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/internal/property"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a trainer that answers as a test tells it to.
type fake struct {
	states     []any // trainers.State or an error; one per question, the last repeats
	deployment []any
	asked      int
	deploys    int
	submit     func(key string) error // called after the job is created
	refuse     error                  // instead of creating a job
	check      error
	findErr    error
	noDeploy   bool
	deployErr  []error
	jobs       []string // keys of the jobs created
	cancelled  bool
	onAsk      func()
}

func (f *fake) Check(context.Context) error { return f.check }

func (f *fake) Submit(_ context.Context, d trainers.DataSet, key string) (trainers.JobRef, error) {
	if f.refuse != nil {
		return trainers.JobRef{}, f.refuse
	}
	f.jobs = append(f.jobs, key)
	if f.submit != nil {
		if err := f.submit(key); err != nil {
			return trainers.JobRef{}, err
		}
	}
	return f.ref(d, len(f.jobs)), nil
}

func (f *fake) ref(d trainers.DataSet, n int) trainers.JobRef {
	return trainers.JobRef{RunID: d.RunID, Backend: "fake", ID: fmt.Sprintf("job-%d", n)}
}

func (f *fake) Find(_ context.Context, d trainers.DataSet, key string) (trainers.JobRef, bool, error) {
	if f.findErr != nil {
		return trainers.JobRef{}, false, f.findErr
	}
	for i, k := range f.jobs {
		if k == key {
			return f.ref(d, i+1), true, nil
		}
	}
	return trainers.JobRef{}, false, nil
}

func (f *fake) Status(context.Context, trainers.JobRef) (trainers.JobStatus, error) {
	if f.onAsk != nil {
		f.onAsk()
	}
	x := f.states[min(f.asked, len(f.states)-1)]
	f.asked++
	if err, ok := x.(error); ok {
		return trainers.JobStatus{}, err
	}
	if f.cancelled {
		return trainers.JobStatus{State: trainers.Canceled}, nil
	}
	return trainers.JobStatus{State: x.(trainers.State), Message: "Status: " + string(x.(trainers.State))}, nil
}

func (f *fake) Cancel(context.Context, trainers.JobRef) error {
	f.cancelled = true
	return nil
}

func (f *fake) Deploy(_ context.Context, r trainers.JobRef) (trainers.JobRef, bool, error) {
	f.deploys++
	if len(f.deployErr) > 0 {
		err := f.deployErr[0]
		f.deployErr = f.deployErr[1:]
		if err != nil {
			return r, false, err
		}
	}
	return r.With("deployment", "d"), !f.noDeploy, nil
}

func (f *fake) StatusOfDeployment(context.Context, trainers.JobRef) (trainers.JobStatus, error) {
	x := f.deployment[0]
	if len(f.deployment) > 1 {
		f.deployment = f.deployment[1:]
	}
	if err, ok := x.(error); ok {
		return trainers.JobStatus{}, err
	}
	return trainers.JobStatus{State: x.(trainers.State), Message: "deployment"}, nil
}

var (
	busy    = &httpclient.Error{Op: "get the status", Why: "HTTP 503", Fault: httpclient.Unavailable}
	denied  = &httpclient.Error{Op: "get the status", Why: "HTTP 401", Fault: httpclient.Denied}
	gone    = &httpclient.Error{Op: "get the status", Why: "HTTP 404", Fault: httpclient.Gone}
	refused = &httpclient.Error{Op: "create the job", Why: "HTTP 422", Fault: httpclient.Refused}
	lost    = &httpclient.Error{
		Op:        "create the job",
		Why:       "connection reset",
		Fault:     httpclient.Unavailable,
		Unsettled: true,
	}
)

const (
	pending   = trainers.Pending
	running   = trainers.Running
	completed = trainers.Completed
	failed    = trainers.Failed
	canceled  = trainers.Canceled
)

func client(t interface{ TempDir() string }, f *fake, l trainers.Limits) *Client {
	if l.Poll == 0 {
		l.Poll = 30 * time.Second
	}
	if l.StatusFailures == 0 {
		l.StatusFailures = 3
	}
	return &Client{
		Dir:     runfolder.Folder(t.TempDir()),
		Type:    "fake_trainer_adapter",
		Name:    "a",
		Adapter: f,
		Limits:  l,
		Log:     zerolog.Nop(),
	}
}

var data = trainers.DataSet{RunID: "r1"}

func submitted(t *testing.T, c *Client) *Job {
	t.Helper()
	j, err := c.Submit(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestWait: how a wait ends, how long it took, and what remains in the journal.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		fake   fake
		limits trainers.Limits
		code   int
		want   string // in the error
		phase  Phase
		state  trainers.State
		took   time.Duration
	}{
		{
			"completes",
			fake{states: []any{pending, running, running, completed}, noDeploy: true},
			trainers.Limits{},
			0,
			"",
			Done,
			completed,
			90 * time.Second,
		},
		{
			"fails",
			fake{states: []any{running, failed}},
			trainers.Limits{},
			1,
			"job job-1 failed",
			Done,
			failed,
			30 * time.Second,
		},
		{
			"is cancelled elsewhere",
			fake{states: []any{running, canceled}},
			trainers.Limits{},
			1,
			"cancelled",
			Done,
			canceled,
			30 * time.Second,
		},
		{
			"one lost answer",
			fake{states: []any{running, busy, completed}, noDeploy: true},
			trainers.Limits{},
			0,
			"",
			Done,
			completed,
			75 * time.Second,
		},
		{
			"limit of failures",
			fake{states: []any{running, busy}},
			trainers.Limits{},
			3,
			"finetune wait",
			Training,
			running,
			30*time.Second + 45*time.Second + 67500*time.Millisecond,
		},
		{
			"the counter starts anew",
			fake{states: []any{busy, busy, running, busy, busy, completed}, noDeploy: true},
			trainers.Limits{},
			0,
			"",
			Done,
			completed,
			255 * time.Second,
		},
		{"credentials", fake{states: []any{denied}}, trainers.Limits{}, 3, "401", Training, pending, 0},
		{
			"service forgot the job",
			fake{states: []any{gone}},
			trainers.Limits{},
			1,
			"404",
			Training,
			pending,
			112500 * time.Millisecond,
		},
		{
			"training timeout",
			fake{states: []any{running}},
			trainers.Limits{TrainingTimeout: 100 * time.Second},
			1,
			"longer than 1m40s",
			Training,
			running,
			100 * time.Second,
		},
		{
			"training timeout cancels",
			fake{states: []any{running}},
			trainers.Limits{TrainingTimeout: 100 * time.Second, CancelOnTimeout: true},
			1,
			"longer than 1m40s: the job is cancelled",
			Training,
			running,
			100 * time.Second,
		},
		{
			"deploys",
			fake{states: []any{completed}, deployment: []any{pending, running, completed}},
			trainers.Limits{},
			0,
			"",
			Done,
			completed,
			60 * time.Second,
		},
		{
			"deployment fails",
			fake{states: []any{completed}, deployment: []any{failed}},
			trainers.Limits{},
			1,
			"the deployment of job job-1 failed",
			Done,
			failed,
			0,
		},
		{
			"deployment is cancelled",
			fake{states: []any{completed}, deployment: []any{canceled}},
			trainers.Limits{},
			1,
			"cancelled",
			Done,
			canceled,
			0,
		},
		{
			"deployment timeout",
			fake{states: []any{completed}, deployment: []any{running}},
			trainers.Limits{DeploymentTimeout: time.Hour},
			1,
			"deployment has taken longer",
			Deploying,
			running,
			time.Hour,
		},
		{
			"deployment is refused",
			fake{states: []any{completed}, deployErr: []error{refused}},
			trainers.Limits{},
			1,
			"trained, but not deployed",
			Training,
			completed,
			0,
		},
		{
			"deployment is hard to reach",
			fake{states: []any{completed}, deployErr: []error{busy, busy, nil}, deployment: []any{completed}},
			trainers.Limits{},
			0,
			"",
			Done,
			completed,
			112500 * time.Millisecond,
		},
		{
			"deployment can't be reached",
			fake{states: []any{completed}, deployErr: []error{busy, busy, busy}},
			trainers.Limits{},
			3,
			"not deployed",
			Training,
			completed,
			112500 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := c.fake
				cl := client(t, &f, c.limits)
				j := submitted(t, cl)
				start := time.Now()
				err := cl.Wait(t.Context(), j, nil)
				if exit.Code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("exit %d, want %d: %v", exit.Code(err), c.code, err)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				back, err := Load(cl.Dir)
				if err != nil || back.Phase != c.phase || back.Status.State != c.state {
					t.Errorf("journal: %+v, %v", back, err)
				}
				if f.cancelled != c.limits.CancelOnTimeout || len(f.jobs) != 1 {
					t.Errorf("cancelled %v, %d jobs", f.cancelled, len(f.jobs))
				}
			})
		})
	}
}

// TestWaitInAnotherProcess: another process continues to wait, from the folder alone, even after it was moved.
func TestWaitInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{states: []any{running, busy}}
		first := client(t, f, trainers.Limits{})
		j := submitted(t, first)
		if err := first.Wait(t.Context(), j, nil); err == nil {
			t.Fatal("no error")
		}
		moved := runfolder.Folder(filepath.Join(t.TempDir(), "elsewhere"))
		if err := os.Rename(string(first.Dir), string(moved)); err != nil {
			t.Fatal(err)
		}
		f.states, f.asked, f.deployment = []any{completed}, 0, []any{running, completed}
		second := *first
		second.Dir = moved
		back, err := Load(moved)
		if err != nil || back.Ref.ID != "job-1" {
			t.Fatalf("%+v, %v", back, err)
		}
		if err := second.Wait(t.Context(), back, nil); err != nil {
			t.Fatal(err)
		}
		if err := second.Wait(t.Context(), back, nil); err != nil || len(f.jobs) != 1 {
			t.Errorf("a job that is done: %v", err)
		}
	})
}

// TestFailedDeploymentIsTriedAgain by the next wait, and only that.
func TestFailedDeploymentIsTriedAgain(t *testing.T) {
	for _, ended := range []trainers.State{failed, canceled} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{states: []any{completed}, deployment: []any{running, ended}}
			c := client(t, f, trainers.Limits{})
			j := submitted(t, c)
			err := c.Wait(t.Context(), j, nil)
			if err == nil || !strings.Contains(err.Error(), "finetune wait") {
				t.Fatalf("err = %v", err)
			}
			back, err := Load(c.Dir)
			if err != nil {
				t.Fatal(err)
			}
			f.deployment = []any{running, completed}
			if err := c.Wait(t.Context(), back, nil); err != nil || f.deploys != 2 || len(f.jobs) != 1 {
				t.Errorf("%d deployments, %d jobs, %v", f.deploys, len(f.jobs), err)
			}
			if back, err = Load(c.Dir); err != nil || back.Phase != Done || back.Status.State != completed {
				t.Errorf("%+v, %v", back, err)
			}
		})
	}
}

// addressed is a trainer whose address can be changed by a config.
type addressed struct {
	*fake
	at string
}

func (a *addressed) Address() string { return a.at }

// TestUnsettledSubmissionElsewhere: if the config now names another service, the job is neither looked for there, which
// would be in vain, nor submitted a second time.
func TestUnsettledSubmissionElsewhere(t *testing.T) {
	f := &fake{states: []any{completed}, submit: func(string) error { return lost }, findErr: busy, noDeploy: true}
	c := client(t, f, trainers.Limits{})
	a := &addressed{f, "http://one"}
	c.Adapter = a
	if _, err := c.Submit(t.Context(), data); err == nil {
		t.Fatal("no error")
	}
	f.submit, f.findErr, a.at = nil, nil, "http://two"
	if _, err := c.Submit(t.Context(), data); exit.Code(err) != exit.Environment ||
		!strings.Contains(err.Error(), "http://one") || !strings.Contains(err.Error(), "http://two") {
		t.Errorf("err = %v", err)
	}
	if len(f.jobs) != 1 {
		t.Errorf("%d jobs", len(f.jobs))
	}
	a.at = "http://one"
	if j, err := c.Submit(t.Context(), data); err != nil || j.Ref.ID != "job-1" || len(f.jobs) != 1 {
		t.Errorf("%+v, %d jobs, %v", j, len(f.jobs), err)
	}
}

// starter is a fake that can tell that a job's program never began.
type starter struct {
	*fake
	began bool
}

func (s *starter) NeverBegan(trainers.JobRef) bool { return !s.began }

// TestJobThatNeverBegan: a job whose program never began is submitted again, once; any other that is recorded is not.
func TestJobThatNeverBegan(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*starter, *Client, *Job)
		jobs   int
	}{
		{"never began", func(*starter, *Client, *Job) {}, 2},
		{"began", func(s *starter, _ *Client, _ *Job) { s.began = true }, 1},
		{"cancelled", func(_ *starter, _ *Client, j *Job) { j.CancelRequested = true }, 1},
		{"another adapter", func(_ *starter, _ *Client, j *Job) { j.Adapter = "other" }, 1},
		{"an adapter that can't tell", func(s *starter, c *Client, _ *Job) { c.Adapter = s.fake }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{states: []any{completed}, noDeploy: true}
			cl := client(t, f, trainers.Limits{})
			s := &starter{fake: f}
			cl.Adapter = s
			j := submitted(t, cl)
			j.Status.Message = "the first"
			c.before(s, cl, j)
			if err := cl.save(j); err != nil {
				t.Fatal(err)
			}
			again, err := cl.Submit(t.Context(), data)
			if err != nil || len(f.jobs) != c.jobs {
				t.Fatalf("%d jobs, %v", len(f.jobs), err)
			}
			if first := again.Status.Message == "the first"; first != (c.jobs == 1) || again.Ref == nil {
				t.Errorf("%+v", again)
			}
			s.began = true
			if _, err := cl.Submit(t.Context(), data); err != nil || len(f.jobs) != c.jobs {
				t.Errorf("a third submission: %d jobs, %v", len(f.jobs), err)
			}
		})
	}
}

// TestSettledSubmissionElsewhere: a submission that certainly created no job may go anywhere.
func TestSettledSubmissionElsewhere(t *testing.T) {
	f := &fake{refuse: refused}
	c := client(t, f, trainers.Limits{})
	a := &addressed{f, "http://one"}
	c.Adapter = a
	if _, err := c.Submit(t.Context(), data); err == nil {
		t.Fatal("no error")
	}
	f.refuse, a.at = nil, "http://two"
	if j, err := c.Submit(t.Context(), data); err != nil || j.Address != "http://two" {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestKilled: the process dies at each point of a submission; the next one creates no second job and loses none.
func TestKilled(t *testing.T) {
	type death struct{}
	for _, c := range []struct {
		name string
		f    fake
		jobs int
	}{
		{"before the request", fake{refuse: errors.New("dies")}, 1},
		{"after the request", fake{submit: func(string) error { panic(death{}) }}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.f
			cl := client(t, &f, trainers.Limits{})
			func() {
				defer func() { _ = recover() }()
				_, _ = cl.Submit(t.Context(), data)
			}()
			before, err := Load(cl.Dir)
			if err != nil || before.Ref != nil || before.Phase != Submitting {
				t.Fatalf("after the crash: %+v, %v", before, err)
			}
			f.submit, f.refuse = nil, nil
			j := submitted(t, cl)
			if len(f.jobs) != c.jobs || j.Key != before.Key || j.Ref.ID != "job-1" {
				t.Errorf("%d jobs, %+v", len(f.jobs), j)
			}
			if again := submitted(t, cl); again.Ref.ID != "job-1" || len(f.jobs) != 1 {
				t.Errorf("submitted again: %+v", again)
			}
		})
	}
}

func TestLostAnswerIsSettledAtOnce(t *testing.T) {
	f := &fake{submit: func(string) error { return lost }}
	cl := client(t, f, trainers.Limits{})
	j := submitted(t, cl)
	if j.Ref.ID != "job-1" || len(f.jobs) != 1 || j.Phase != Training {
		t.Errorf("%+v", j)
	}
}

func TestRefusedSubmissionCanBeRepeated(t *testing.T) {
	f := &fake{refuse: refused}
	cl := client(t, f, trainers.Limits{})
	_, err := cl.Submit(t.Context(), data)
	if exit.Code(err) != exit.Failed {
		t.Fatalf("err = %v", err)
	}
	j, err := Load(cl.Dir)
	if err != nil || j.Phase != Unsubmitted || j.Error == "" {
		t.Fatalf("%+v, %v", j, err)
	}
	other := *cl
	other.Type = "files_trainer_adapter"
	f.refuse = nil
	if j = submitted(t, &other); j.Adapter != "files_trainer_adapter" {
		t.Errorf("%+v", j)
	}
}

func TestUnsettledSubmissionIsNotRepeatedBlindly(t *testing.T) {
	f := &fake{refuse: lost, findErr: busy}
	cl := client(t, f, trainers.Limits{})
	_, err := cl.Submit(t.Context(), data)
	if exit.Code(err) != exit.Environment || !strings.Contains(err.Error(), "finetune resume") {
		t.Fatalf("err = %v", err)
	}
	f.refuse = nil
	if _, err := cl.Submit(t.Context(), data); err == nil || len(f.jobs) != 0 {
		t.Errorf("submitted though the first could not be looked for: %v", err)
	}
	other := *cl
	other.Type = "files_trainer_adapter"
	if _, err := other.Submit(t.Context(), data); err == nil {
		t.Error("another adapter took the run")
	}
	f.findErr = nil
	submitted(t, cl)
}

func TestServiceNotReached(t *testing.T) {
	f := &fake{check: busy}
	cl := client(t, f, trainers.Limits{})
	if _, err := cl.Submit(t.Context(), data); exit.Code(err) != exit.Environment {
		t.Errorf("err = %v", err)
	}
	if _, err := Load(cl.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a journal was written: %v", err)
	}
}

func TestLockedOut(t *testing.T) {
	cl := client(t, &fake{}, trainers.Limits{})
	lock, err := cl.Dir.Lock("dataset convert")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Submit(t.Context(), data); err == nil ||
		!strings.Contains(err.Error(), "`nat-go dataset convert` (process ") {
		t.Errorf("err = %v", err)
	}
	lock.Close()
	submitted(t, cl)
}

// TestSignals: one signal detaches, two interrupts cancel.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name      string
		second    time.Duration // after the first; 0: none
		signal    os.Signal
		code      int
		cancelled bool
	}{
		{"once", 0, os.Interrupt, exit.Interrupted, false},
		{"twice", time.Second, os.Interrupt, exit.Interrupted, true},
		{"too late", 2 * Grace, os.Interrupt, exit.Interrupted, false},
		{"SIGTERM", time.Second, syscall.SIGTERM, exit.Terminated, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{states: []any{running}}
				cl := client(t, f, trainers.Limits{})
				j := submitted(t, cl)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				signals := make(chan os.Signal, 2)
				leave := NewLeave(ctx, signals)
				told := 0
				leave.Told = func() { told++ }
				go func() {
					time.Sleep(100 * time.Second)
					signals <- c.signal
					if c.second > 0 {
						time.Sleep(c.second)
						signals <- c.signal
					}
				}()
				err := cl.Wait(ctx, j, leave)
				if exit.Code(err) != c.code || f.cancelled != c.cancelled {
					t.Errorf("exit %d, cancelled %v: %v", exit.Code(err), f.cancelled, err)
				}
				if (told == 1) != (c.code == exit.Interrupted) {
					t.Errorf("reported %d times", told)
				}
				back, loadErr := Load(cl.Dir)
				if loadErr != nil || back.CancelRequested != c.cancelled || back.Phase != Training {
					t.Errorf("%+v, %v", back, loadErr)
				}
				if !c.cancelled && !strings.Contains(err.Error(), "finetune wait "+string(cl.Dir)) {
					t.Errorf("the error does not say how to come back: %v", err)
				}
				time.Sleep(3 * Grace) // the goroutine sending signals ends
			})
		})
	}
}

func TestSignalBeforeSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		signals := make(chan os.Signal, 1)
		leave := NewLeave(ctx, signals)
		work, stop := leave.Context(ctx)
		defer stop()
		signals <- os.Interrupt
		<-work.Done()
		if leave.Code() != exit.Interrupted {
			t.Error(leave.Code())
		}
	})
}

func TestCancelCommand(t *testing.T) {
	f := &fake{states: []any{running}}
	cl := client(t, f, trainers.Limits{})
	j := submitted(t, cl)
	if err := cl.Cancel(t.Context(), j); err != nil || !f.cancelled {
		t.Fatal(err)
	}
	if err := cl.Refresh(t.Context(), j); err != nil || j.State() != canceled || j.Phase != Done {
		t.Errorf("%+v, %v", j, err)
	}
	if err := cl.Cancel(t.Context(), j); err == nil {
		t.Error("cancelled a job that has ended")
	}
}

func TestRefreshDoesNotDeploy(t *testing.T) {
	f := &fake{states: []any{completed}}
	cl := client(t, f, trainers.Limits{})
	j := submitted(t, cl)
	if err := cl.Refresh(t.Context(), j); err != nil || f.deploys != 0 || j.State() != completed {
		t.Errorf("%+v, %d deployments, %v", j, f.deploys, err)
	}
}

func TestListAndFolder(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"b", "a", "no-run"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cl := client(t, &fake{states: []any{running}}, trainers.Limits{})
	cl.Dir = runfolder.Folder(filepath.Join(root, "a"))
	submitted(t, cl)
	for _, f := range []string{"b/manifest.json", "b/job.json"} {
		if err := os.WriteFile(filepath.Join(root, f), []byte("not json"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := List(root)
	if err != nil || len(list) != 2 || list[0].Job == nil || list[1].Error == "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "killed", "records"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "killed", "records", "begun.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	list, err = List(filepath.Join(root, "not-there"), root)
	if err != nil || len(list) != 3 || list[2].RunID != "killed" || list[2].Job != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if none, err := List(filepath.Join(root, "not-there")); err != nil || none != nil {
		t.Errorf("%v, %v", none, err)
	}
	if dir, err := runfolder.Find("a", "not-there", root); err != nil || dir != cl.Dir {
		t.Errorf("%s, %v", dir, err)
	}
	if _, err := runfolder.Find("no-run", root); exit.Code(err) != exit.Usage {
		t.Errorf("err = %v", err)
	}
}

func TestETA(t *testing.T) {
	s := &speed{done: -1}
	at := time.Unix(0, 0)
	half, more := 50.0, 75.0
	for _, c := range []struct {
		after time.Duration
		p     *float64
		want  time.Duration
	}{{0, nil, 0}, {10, &half, 0}, {20, &half, 0}, {60, &more, 50}} {
		got := s.eta(at.Add(c.after*time.Second), Training, trainers.JobStatus{State: running, Progress: c.p})
		if got != c.want*time.Second {
			t.Errorf("after %d s: got %s, want %d s", c.after, got, c.want)
		}
	}
}

// TestLocalJobIsAskedSooner checks that the pauses between requests to a local job grow with its age, up to Poll.
func TestLocalJobIsAskedSooner(t *testing.T) {
	began := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		0: minPause, 300 * time.Millisecond: 300 * time.Millisecond, time.Minute: time.Second, -time.Hour: time.Second,
	} {
		m := &machine{limits: trainers.Limits{Poll: time.Second, Local: true}, phase: Training, since: began}
		got := m.next(began.Add(age), trainers.JobStatus{State: trainers.Running}, nil)
		if got.do != ask || got.pause != want {
			t.Errorf("after %s: got %+v, want a pause of %s", age, got, want)
		}
	}
}

// TestMachineEnds: whatever a service answers, a machine with limits stops asking, and no pause is negative or endless.
func TestMachineEnds(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		m := &machine{
			phase: Training,
			since: now,
			limits: trainers.Limits{
				Poll:            rapid.SampledFrom([]time.Duration{time.Second, math.MaxInt64}).Draw(t, "poll"),
				StatusFailures:  rapid.IntRange(1, 10).Draw(t, "failures"),
				TrainingTimeout: time.Hour,
			},
		}
		for range 4000 {
			var err error
			if rapid.Bool().Draw(t, "fails") {
				err = busy
			}
			a := m.next(now, trainers.JobStatus{State: running}, err)
			if a.do != ask {
				if a.do != giveUp {
					t.Fatalf("did %d", a.do)
				}
				return
			}
			if a.pause <= 0 || a.pause > max(maxPause, time.Hour) {
				t.Fatalf("a pause of %s", a.pause)
			}
			now = now.Add(a.pause)
		}
		t.Fatal("it never stops asking")
	})
}

// flood is a trainer that prints faster than anybody can read.
type flood struct{ fake }

func (f *flood) Tail(_ context.Context, _ trainers.JobRef, from int64) ([]byte, int64, error) {
	return make([]byte, 256<<10), from + 256<<10, nil
}

// TestFloodingTrainer checks that signals and time limits are respected even while a trainer prints without end.
func TestFloodingTrainer(t *testing.T) {
	for name, limits := range map[string]trainers.Limits{
		"interrupt": {Poll: time.Second, StatusFailures: 1},
		"timeout":   {Poll: time.Second, StatusFailures: 1, TrainingTimeout: time.Minute, CancelOnTimeout: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &flood{fake{states: []any{trainers.Running}}}
				c := &Client{
					Dir:     runfolder.Folder(t.TempDir()),
					Type:    "fake",
					Adapter: f,
					Limits:  limits,
					Log:     zerolog.Nop(),
				}
				var shown int
				signals := make(chan os.Signal, 1)
				c.Output = func(b []byte) {
					if shown += len(b); shown == 256<<10 && name == "interrupt" {
						signals <- syscall.SIGTERM
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				j, err := c.Submit(ctx, trainers.DataSet{RunID: "r"})
				if err != nil {
					t.Fatal(err)
				}
				err = c.Wait(ctx, j, NewLeave(ctx, signals))
				if looks := f.asked; err == nil || shown > 2*tailBytes*looks || f.cancelled != (name == "timeout") {
					t.Errorf("%v; %d bytes shown for %d status requests", err, shown, looks)
				}
			})
		})
	}
}

// printer is a trainer that has printed a number of bytes.
type printer struct {
	fake
	size int64
}

func (p *printer) Tail(_ context.Context, _ trainers.JobRef, from int64) ([]byte, int64, error) {
	n := min(256<<10, p.size-from)
	return make([]byte, n), from + n, nil
}

// TestOutputOfEndedJob checks that all of an ended job's output is shown, however long it is.
func TestOutputOfEndedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &printer{fake{states: []any{trainers.Failed}}, 5*tailBytes + 1}
		var shown int64
		c := &Client{
			Dir: runfolder.Folder(t.TempDir()), Type: "fake", Adapter: p, Limits: trainers.Limits{Poll: time.Second},
			Log: zerolog.Nop(), Output: func(b []byte) { shown += int64(len(b)) },
		}
		j, err := c.Submit(t.Context(), trainers.DataSet{RunID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context(), j, nil); err == nil || shown != p.size {
			t.Errorf("%v; %d of %d bytes shown", err, shown, p.size)
		}
	})
}
