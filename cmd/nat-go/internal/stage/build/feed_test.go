package build

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
)

// TestFailedFeedLeavesTheLogOpen checks that a log isn't marked as done if feed failed. feed closes items before its
// failure cancels the context, so without this check a resumed run would treat the log as complete.
func TestFailedFeedLeavesTheLogOpen(t *testing.T) {
	failed := errors.New("the spill is damaged")
	for _, fed := range []bool{true, false} {
		dir := t.TempDir()
		log, err := recordlog.Create(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := Stage{Account: stage.NewAccount(stage.Env{Now: time.Now}, "r")}
		b := &building{recording: &recording{Stage: s, Built: &Built{}, log: log}}
		ctx, cancel := context.WithCancelCause(context.Background())
		if !fed {
			time.AfterFunc(20*time.Millisecond, func() { cancel(failed) })
		}
		items := make(chan *item)
		close(items)
		if err := b.gather(ctx, items, &fed); fed != (err == nil) || !fed && !errors.Is(err, failed) {
			t.Errorf("fed %v: got the error %v", fed, err)
		}
		c, err := recordlog.ReadCommit(dir)
		if err != nil || c.Done != fed {
			t.Errorf("fed %v: got the commit %+v, %v", fed, c, err)
		}
		cancel(nil)
		log.Close()
	}
}
