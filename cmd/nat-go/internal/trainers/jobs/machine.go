package jobs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// maxPause is the longest pause after a failed request, regardless of how many have failed.
const maxPause = 10 * time.Minute

// minPause is the shortest pause between two status requests if they are cheap.
const minPause = 10 * time.Millisecond

// machine decides the next action while waiting for a job.
type machine struct {
	limits   trainers.Limits
	phase    Phase     // Training or Deploying
	since    time.Time // when the phase began
	failures int       // consecutive failed requests
}

// actionKind selects an action of the machine.
type actionKind uint8

const (
	ask    actionKind = iota // request the status again after the pause
	deploy                   // training is complete: deploy the model, if configured
	finish                   // the job has ended with this status
	cancel                   // the job took too long: cancel it and end with the error
	giveUp                   // stop waiting, with the error; the job continues
)

type action struct {
	do    actionKind
	pause time.Duration
	err   error
}

// next returns the action after a status request that ended at the given time, with a status or an error.
func (m *machine) next(now time.Time, st trainers.JobStatus, err error) action {
	if err != nil {
		return m.failed(err)
	}
	m.failures = 0
	switch {
	case st.State == trainers.Completed && m.phase == Training:
		return action{do: deploy}
	case st.State.Terminal():
		return action{do: finish}
	}
	limit, what := m.limits.TrainingTimeout, "training"
	if m.phase == Deploying {
		limit, what = m.limits.DeploymentTimeout, "deployment"
	}
	pause := m.limits.Poll
	// Don't let a program that ends within a second wait for the rest of it. The age is negative if the clock was set
	// back, and the short pauses must not last until the clock has caught up.
	if age := now.Sub(m.since); m.limits.Local && age >= 0 {
		pause = min(pause, max(age, minPause))
	}
	if limit > 0 {
		left := limit - now.Sub(m.since)
		if left <= 0 {
			if m.phase == Training && m.limits.CancelOnTimeout {
				err = exit.Failedf("%s has taken longer than %s: the job is cancelled", what, limit)
				return action{do: cancel, err: err}
			}
			err = exit.Failedf("%s has taken longer than %s and is still %s", what, limit, st.State)
			return action{do: giveUp, err: err}
		}
		pause = min(pause, left)
	}
	return action{do: ask, pause: pause}
}

// failed counts a failed request and returns the next action. Pauses grow by half each time, as in NAT.
func (m *machine) failed(err error) action {
	m.failures++
	e, ok := errors.AsType[*httpclient.Error](err)
	if ok && e.Fault == httpclient.Denied {
		return action{do: giveUp, err: exit.With(exit.Environment, err)}
	}
	if m.failures >= m.limits.StatusFailures {
		err = fmt.Errorf("no status after %d consecutive attempts: %w", m.failures, trainers.Exit(err))
		return action{do: giveUp, err: err}
	}
	pause := time.Duration(min(float64(m.limits.Poll)*math.Pow(1.5, float64(m.failures)), float64(maxPause)))
	if ok {
		pause = max(pause, e.RetryAfter)
	}
	return action{do: ask, pause: min(pause, maxPause)}
}
