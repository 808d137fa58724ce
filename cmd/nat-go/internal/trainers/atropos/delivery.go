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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// delivery records the progress of a delivery in <run>/trainer/atropos.json.
type delivery struct {
	Key       string                `json:"key"`
	EnvID     int64                 `json:"env_id"`
	Earlier   []int64               `json:"earlier_env_ids,omitempty"` // earlier environments on the same server
	EnvName   string                `json:"env_name"`
	Life      life                  `json:"life"`
	GroupSize int                   `json:"group_size"`
	MaxLen    int                   `json:"max_token_len"`
	BatchSize int                   `json:"batch_size"`
	Read      int                   `json:"read"`      // number of groups in the data set that have been processed
	Sending   bool                  `json:"sending"`   // whether the next group may be in transit
	Sent      int                   `json:"sent"`      // groups received by the server
	Uncertain int                   `json:"uncertain"` // groups that the server may have received
	Skipped   map[ledger.Reason]int `json:"skipped"`
	NoTeacher int                   `json:"no_teacher,omitempty"` // groups sent without their distillation columns
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
	return durable.WriteFile(a.deliveryPath(data), l.line())
}

// saveUnsynced is like save, but doesn't wait for the disk. The record is kept if the process dies. It may be lost if
// the machine crashes, but that affects only one group.
func (a *Adapter) saveUnsynced(data trainers.DataSet, l *delivery) error {
	return durable.Note(a.deliveryPath(data), l.line())
}

func (l *delivery) line() []byte {
	b, _ := json.Marshal(l) // marshaling can't fail
	return append(b, '\n')
}

// push sends every valid group that has not been sent, one per request, and records its progress before and after each.
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
				Msg("group skipped")
			l.Skipped[f.reason]++
			l.Read++
			return nil
		}
		if err := a.waitForRoom(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return trainers.Errorf(httpclient.Local, "push the groups", "resume the run to push the remaining groups",
				"interrupted after %s", ledger.Quantity(int64(l.Sent), "group"))
		}
		g.EnvID = &l.EnvID
		return a.send(ctx, data, l, g)
	})
	if err != nil {
		return err
	}
	l.Complete = true
	if l.Sent+l.Uncertain == 0 {
		return errors.Join(a.save(data, l), trainers.Errorf(httpclient.Refused, "push the groups of run "+data.RunID,
			"", "no group can be sent: %s", formatCounts(l.Skipped)))
	}
	return a.save(data, l)
}

func (a *Adapter) send(ctx context.Context, data trainers.DataSet, l *delivery, g *Group) error {
	req, err := a.request(g)
	if err != nil {
		return err
	}
	without := l.NoTeacher
	if g.NoTeacher != "" {
		l.NoTeacher++
		a.env.Log.Warn().Int("group", l.Read).Str("why", g.NoTeacher).
			Msg("the group is sent without the teacher's distributions")
	}
	l.Sending = true
	if err := a.saveUnsynced(data, l); err != nil {
		return err
	}
	_, err = a.api.Do(context.WithoutCancel(ctx), req)
	l.Sending = false
	switch {
	case err == nil:
		l.Sent++
	case trainers.Unsettled(err):
		l.Uncertain++
		a.env.Log.Warn().Err(err).Int("group", l.Read).Msg("the response was lost; the group may be queued and is not sent again")
	default:
		l.NoTeacher = without // don't count the group, because it will be sent again when the run is resumed
		return errors.Join(err, a.save(data, l))
	}
	l.Read++
	a.env.Report(trainers.Progress{What: "push groups to Atropos", Done: int64(l.Read), Unit: "group"})
	if err != nil && l.Uncertain > maxUncertain {
		return errors.Join(err, a.save(data, l))
	}
	return a.saveUnsynced(data, l)
}

// maxUncertain is the number of lost responses above which the delivery ends, because the server may be down.
const maxUncertain = 10

// request returns the request that pushes a group, compressed if compression is enabled and saves space.
func (a *Adapter) request(g *Group) (httpclient.Request, error) {
	body, err := httpclient.JSON(g)
	if err != nil {
		return httpclient.Request{}, err
	}
	req := trainers.Send("push a group", "/scored_data", body)
	if a.conf.Gzip && len(body.Data) >= 1024 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(body.Data)
		if err := errors.Join(err, z.Close()); err != nil {
			return req, err
		}
		if b.Len() < len(body.Data) {
			req.Body = httpclient.Bytes{ContentType: body.ContentType, Data: b.Bytes()}
			req.Header = http.Header{"Content-Encoding": {"gzip"}}
		}
	}
	return req, nil
}
