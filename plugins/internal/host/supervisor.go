package host

import "time"

// phase is the current phase in the life of an instance.
type phase uint8

const (
	stopped  phase = iota
	starting       // the process is being started
	ready          // the process takes groups
	backoff        // the process failed; the next start is delayed
	open           // the process failed too often, so the circuit stays open
	closed         // the plugin was stopped
)

// supervisor is an instance's state. It is a value; step computes the next state from a state and an event.
type supervisor struct {
	phase    phase
	failures int // failures in a row, without a finished group in between
	starts   int
	delay    time.Duration // pause before the next start, in phase backoff
}

// event is a change in the life of an instance.
type event uint8

const (
	wanted   event = iota // a caller needs the process
	started               // the handshake is done
	failed                // the process did not start, is gone or was killed
	finished              // the process finished a group
	waited                // the pause is over
	stop                  // the plugin should stop
	hopeless              // the process did not start, and never will
)

const maxBackoff = 30 * time.Second

// step is the transition function. It ignores events that are not possible in a phase.
func (s supervisor) step(e event, spec *Spec) supervisor {
	switch {
	case s.phase == closed || s.phase == open && e != stop:
	case e == stop:
		s.phase = closed
	case e == wanted && s.phase == stopped, e == waited && s.phase == backoff:
		s.phase, s.delay = starting, 0
		s.starts++
	case e == started && s.phase == starting:
		s.phase = ready
	case e == finished && s.phase == ready:
		s.failures = 0
	case e == hopeless:
		s.failures++
		s.phase, s.delay = open, 0
	case e == failed && (s.phase == starting || s.phase == ready):
		s.failures++
		s.phase, s.delay = backoff, pause(s.failures, spec.Backoff)
		if s.failures >= spec.Failures {
			s.phase, s.delay = open, 0
		}
	}
	return s
}

// pause returns the pause after the given number of failures in a row. It is 0 after the first failure, so that a
// single bad group does not cause a delay.
func pause(failures int, base time.Duration) time.Duration {
	if failures <= 1 {
		return 0
	}
	d := base
	for range failures - 2 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return min(d, maxBackoff)
}
