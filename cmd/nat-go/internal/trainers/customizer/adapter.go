package customizer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// Adapter submits data sets to NeMo Customizer. It is not safe for concurrent use.
type Adapter struct {
	conf   *Config
	env    trainers.Env
	entity *httpclient.Client // for the entity store, customizer and deployment API
	store  *httpclient.Client // for the data store's own API
	hub    *httpclient.Client // for the data store's Hugging Face interface
}

// Factory returns the factory for the adapter.
func Factory() trainers.Factory {
	return trainers.Factory{
		Type:   Type,
		Doc:    "NVIDIA NeMo Customizer: uploads the data set, starts a customization job, deploys the model",
		Format: func(any) string { return "customizer" }, New: func() any { return new(Config) },
		Open:   func(conf any, env trainers.Env) (trainers.Adapter, error) { return New(conf.(*Config), env) },
		Limits: func(conf any) trainers.Limits { return conf.(*Config).Limits() },
	}
}

// New makes an adapter. It doesn't send any requests.
func New(conf *Config, env trainers.Env) (*Adapter, error) {
	a := &Adapter{conf: conf, env: env}
	for _, h := range []struct {
		client      **httpclient.Client
		field, base string
		token       string
	}{
		{&a.entity, "entity_host", conf.EntityHost, conf.EntityToken.Reveal()},
		{&a.store, "datastore_host", conf.DatastoreHost, conf.DatastoreToken.Reveal()},
		{&a.hub, "datastore_host", conf.DatastoreHost, conf.HFToken.Reveal()},
	} {
		c, err := httpclient.New(httpclient.Options{
			Base: h.base, Token: h.token, TLS: conf.TLS,
			ConnectTimeout: conf.ConnectTimeout, Timeout: conf.RequestTimeout, Backoff: conf.backoff,
			Secrets: conf.secrets(),
		})
		if err != nil {
			return nil, exit.Usagef("%s: %w", h.field, err)
		}
		*h.client = c
	}
	return a, nil
}

// Close closes idle connections.
func (a *Adapter) Close() {
	a.entity.Close()
	a.store.Close()
	a.hub.Close()
}

// Address identifies the service that runs the jobs, and the configured namespace.
func (a *Adapter) Address() string { return a.entity.Place() + " (namespace " + a.conf.Namespace + ")" }

// Check creates the namespace in both stores if the config requests it. Otherwise it sends no requests, because
// Submit's first request would fail for the same reasons. A service may refuse to create the namespace because it
// already exists or because the service lacks that interface. Check only logs such a refusal; if the namespace is
// missing, Submit fails. A rejected token or an unreachable host is an error.
func (a *Adapter) Check(ctx context.Context) error {
	if !a.conf.CreateNamespace {
		return nil
	}
	ns := a.conf.Namespace
	about := trainers.JSON(map[string]string{"id": ns, "description": "NAT finetuning namespace: " + ns})
	_, err := a.entity.Do(ctx, trainers.Ask("create the namespace in the entity store",
		http.MethodPost, "/v1/namespaces", about, http.StatusConflict))
	if err := a.tolerate(err); err != nil {
		return err
	}
	_, err = a.store.Do(ctx, httpclient.Request{
		Op: "create the namespace in the data store", Method: http.MethodPost, Path: "/v1/datastore/namespaces",
		Accept: "*/*", Body: httpclient.Form(url.Values{"namespace": {ns}}),
		OK: []int{http.StatusConflict, http.StatusUnprocessableEntity}, // both mean that the namespace exists
	})
	return a.tolerate(err)
}

// tolerate logs an error after which the namespace may nevertheless exist, and returns nil. It returns all other
// errors.
func (a *Adapter) tolerate(err error) error {
	if e, ok := errors.AsType[*httpclient.Error](err); !ok || e.Status == 0 || e.Status == http.StatusUnauthorized {
		return err
	}
	a.env.Log.Warn().Err(err).Msg("continuing: the namespace may exist anyway")
	return nil
}

// ensure creates an object unless it already exists. If the service refuses to create the object, ensure requests the
// object's path to find out whether it exists. If that request fails, ensure returns the first error.
func (a *Adapter) ensure(ctx context.Context, c *httpclient.Client, create httpclient.Request, place string) error {
	create.OK = append(create.OK, http.StatusConflict)
	create.Harmless, create.Tries = true, 3
	_, err := c.Do(ctx, create)
	if e, ok := errors.AsType[*httpclient.Error](err); !ok || e.Fault == httpclient.Unavailable ||
		e.Fault == httpclient.Local || e.Status == http.StatusUnauthorized {
		return err
	}
	if _, lookErr := c.Do(ctx, trainers.Ask("check whether it exists", http.MethodGet, place, nil)); lookErr != nil {
		return err
	}
	return nil
}

// Submit uploads the data set under this submission's name and creates the job. Once the request for the job has been
// sent, Submit waits for the response even if ctx is done.
func (a *Adapter) Submit(ctx context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	files, err := a.files(data)
	if err != nil {
		return trainers.JobRef{}, err
	}
	dataset := a.conf.Dataset(key)
	if err := a.makeDataset(ctx, data.RunID, dataset); err != nil {
		return trainers.JobRef{}, err
	}
	for _, f := range files {
		if err := a.upload(ctx, dataset, f); err != nil {
			return trainers.JobRef{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return trainers.JobRef{}, &httpclient.Error{
			Op: "submit the job", Why: "interrupted before the job was created", Fault: httpclient.Local, Err: err,
		}
	}
	return a.createJob(context.WithoutCancel(ctx), data.RunID, dataset, key)
}

func (a *Adapter) makeDataset(ctx context.Context, runID, dataset string) error {
	ns := a.conf.Namespace
	_, err := a.hub.Do(ctx, httpclient.Request{
		Op: "create the data set's repository", Method: http.MethodPost, Path: "/v1/hf/api/repos/create",
		Accept: "*/*",
		Body:   trainers.JSON(map[string]string{"name": dataset, "organization": ns, "type": "dataset"}),
		OK:     []int{http.StatusConflict},
	})
	if err != nil {
		return err
	}
	body := map[string]string{
		"files_url": "hf://datasets/" + ns + "/" + dataset, "name": dataset, "namespace": ns,
		"description": fmt.Sprintf("NAT %s training dataset for run %s",
			strings.ToUpper(a.conf.Hyperparameters.TrainingType), runID),
	}
	if a.conf.Project != "" {
		body["project"] = a.conf.Project
	}
	return a.ensure(ctx, a.entity, trainers.Send("register the data set", "/v1/datasets", trainers.JSON(body)),
		"/v1/datasets/"+url.PathEscape(ns)+"/"+url.PathEscape(dataset))
}

// job contains the fields of the service's job description that are used. Responses may contain nulls, lack fields that
// the service's own types call "required", and contain config and dataset either as strings or as objects.
type job struct {
	ID           string                  `json:"id"`
	Dataset      any                     `json:"dataset"`
	OutputModel  any                     `json:"output_model"`
	CustomFields lenient[map[string]any] `json:"custom_fields"`
	Warnings     lenient[[]struct {
		Message     string `json:"message"`
		Explanation string `json:"explanation"`
	}] `json:"warnings"`
}

// lenient is an optional value in a response. A value of an unexpected type counts as missing, so that it doesn't make
// the whole response invalid.
type lenient[T any] struct{ Value T }

// UnmarshalJSON never fails.
func (l *lenient[T]) UnmarshalJSON(b []byte) error {
	var v T
	if json.Unmarshal(b, &v) == nil {
		l.Value = v
	}
	return nil
}

// runField is the custom field that identifies a submission's job if its data set's name doesn't.
const runField = "nat_go_submission"

func (a *Adapter) createJob(ctx context.Context, runID, dataset, key string) (trainers.JobRef, error) {
	req := trainers.Send("create the job", jobsPath, trainers.JSON(a.jobBody(dataset, key)))
	if !a.conf.WandbAPIKey.IsZero() {
		req.Header = http.Header{}
		req.Header.Set("wandb-api-key", a.conf.WandbAPIKey.Reveal())
	}
	var j job
	if err := a.entity.DoJSON(ctx, req, &j); err != nil {
		return trainers.JobRef{}, err
	}
	if j.ID == "" || strings.ContainsFunc(j.ID, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }) {
		return trainers.JobRef{}, &httpclient.Error{
			Op: "create the job", Why: "missing or invalid id in the response",
			Fault: httpclient.Unavailable, Unsettled: true,
		}
	}
	for _, w := range j.Warnings.Value {
		a.env.Log.Warn().Str("job", j.ID).Msg(a.entity.Scrub(strings.TrimSpace(w.Message + " " + w.Explanation)))
	}
	ref := a.ref(runID, dataset, key, j)
	if a.conf.DeployOnCompletion && ref.Metadata["output_model"] == "" {
		a.env.Log.Warn().Str("job", j.ID).Msg("the service names no output model for this job, so there may be nothing to deploy: set output_model")
	}
	return ref, nil
}

func (a *Adapter) jobBody(dataset, key string) map[string]any {
	hyper := struct {
		Hyperparameters
		DPO *dpo `json:"dpo,omitempty"`
	}{Hyperparameters: a.conf.Hyperparameters}
	if hyper.TrainingType == "dpo" {
		hyper.DPO = &a.conf.Hyperparameters.DPO
	}
	body := map[string]any{
		"config":          a.conf.CustomizationConfig,
		"dataset":         map[string]string{"name": dataset, "namespace": a.conf.Namespace},
		"hyperparameters": hyper,
	}
	for field, v := range map[string]string{
		"output_model": a.conf.OutputModel, "name": a.conf.JobName, "description": a.conf.JobDescription,
		"project": a.conf.Project,
	} {
		if v != "" {
			body[field] = v
		}
	}
	custom := a.conf.CustomFields
	if a.conf.DatasetVersion == "reuse" {
		custom = map[string]string{runField: key}
		maps.Copy(custom, a.conf.CustomFields)
	}
	if len(custom) > 0 {
		body["custom_fields"] = custom
	}
	if w := a.conf.Integrations.Wandb; w != nil {
		body["integrations"] = []any{map[string]any{"type": "wandb", "wandb": w}}
	}
	return body
}

func (a *Adapter) ref(runID, dataset, key string, j job) trainers.JobRef {
	ref := trainers.JobRef{RunID: runID, Backend: backend, ID: j.ID, Metadata: map[string]string{
		"job_id": j.ID, "dataset_name": dataset, "key": key,
	}}
	if m := qualified(j.OutputModel); m != "" {
		ref.Metadata["output_model"] = m
	}
	return ref
}

// qualified returns a reference as "namespace/name". The service may send it in that form, or as an object with the
// fields namespace and name.
func qualified(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		n, _ := v["name"].(string)
		if ns, _ := v["namespace"].(string); ns != "" {
			return ns + "/" + n
		}
		return n
	}
	return ""
}

// page is one page of a list.
type page[T any] struct {
	Data       []lenient[T] `json:"data"`
	Pagination struct {
		TotalPages int `json:"total_pages"`
	} `json:"pagination"`
}

// jobsPath is the path of the service's jobs.
const jobsPath = "/v1/customization/jobs"

// listPages is the maximum number of pages that Find searches, each of 100 jobs.
const listPages = 50

// Find looks for the submission's job, starting with the newest. It recognises the job by its data set or, if all runs
// share one, by runField.
func (a *Adapter) Find(ctx context.Context, data trainers.DataSet, key string) (trainers.JobRef, bool, error) {
	dataset, first := a.conf.Dataset(key), ""
	for n := 1; n <= listPages; n++ {
		list := trainers.Ask("look for the job of this run", http.MethodGet, jobsPath, nil)
		list.Query = url.Values{"page": {fmt.Sprint(n)}, "page_size": {"100"}, "sort": {"-created_at"}}
		var p page[job]
		if err := a.entity.DoJSON(ctx, list, &p); err != nil {
			return trainers.JobRef{}, false, err
		}
		for _, j := range p.Data {
			if j.Value.ID != "" && a.isOurs(j.Value, dataset, key) {
				return a.ref(data.RunID, dataset, key, j.Value), true, nil
			}
		}
		// If responses lack a page count, the list ends when a page is empty. It also ends when the first page is
		// repeated, which means that the service ignores the page number.
		total := p.Pagination.TotalPages
		if len(p.Data) == 0 || total > 0 && n >= total || p.Data[0].Value.ID == first {
			return trainers.JobRef{}, false, nil
		}
		if n == 1 {
			first = p.Data[0].Value.ID
		}
	}
	return trainers.JobRef{}, false, trainers.Errorf(httpclient.Unavailable, "look for the job of this run", "",
		"the job is not among the newest %d jobs", listPages*100)
}

func (a *Adapter) isOurs(j job, dataset, key string) bool {
	if a.conf.DatasetVersion == "reuse" {
		return j.CustomFields.Value[runField] == key
	}
	q := qualified(j.Dataset)
	return q == a.conf.Namespace+"/"+dataset || q == dataset
}

// status contains the fields of the service's progress report that are used.
type status struct {
	Status     string            `json:"status"`
	Percentage lenient[*float64] `json:"percentage_done"`
	Epochs     lenient[*float64] `json:"epochs_completed"`
	Steps      lenient[*float64] `json:"steps_completed"`
	PerEpoch   lenient[*float64] `json:"steps_per_epoch"`
	TrainLoss  lenient[*float64] `json:"train_loss"`
	ValLoss    lenient[*float64] `json:"val_loss"`
	Metrics    lenient[struct {
		Metrics map[string][]point `json:"metrics"`
	}] `json:"metrics"`
	Logs lenient[[]struct {
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}] `json:"status_logs"`
}

// point is a point in a time series of a metric.
type point struct {
	Value *float64 `json:"value"`
}

// Status requests the job's status. Like NAT's client, it makes up to three attempts before the request counts as one
// failure.
func (a *Adapter) Status(ctx context.Context, ref trainers.JobRef) (trainers.JobStatus, error) {
	var s status
	if err := a.entity.DoJSON(ctx, trainers.Ask("get the status of job "+ref.ID, http.MethodGet,
		jobsPath+"/"+url.PathEscape(ref.ID)+"/status", nil), &s); err != nil {
		return trainers.JobStatus{}, err
	}
	if s.Status == "" {
		return trainers.JobStatus{}, trainers.Errorf(httpclient.Unavailable, "get the status of job "+ref.ID, "",
			"missing status in the response")
	}
	return a.jobStatus(ref, s), nil
}

func (a *Adapter) jobStatus(ref trainers.JobRef, s status) trainers.JobStatus {
	st := trainers.JobStatus{
		State: state(s.Status), Progress: s.Percentage.Value, Loss: s.TrainLoss.Value, ValLoss: s.ValLoss.Value,
		Message: fmt.Sprintf("Status: %s, Epochs: %v", a.entity.Scrub(s.Status), number(s.Epochs.Value)),
		Epoch:   number(s.Epochs.Value), Step: int64(number(s.Steps.Value)),
		Metadata: map[string]any{"job_id": ref.ID, "nemo_status": a.entity.Scrub(s.Status)},
	}
	if m := ref.Metadata["output_model"]; m != "" {
		st.Metadata["output_model"] = m
	}
	st.Steps = int64(number(s.PerEpoch.Value) * float64(a.conf.Hyperparameters.Epochs))
	st.Loss = last(st.Loss, s.Metrics.Value.Metrics["train_loss"])
	st.ValLoss = last(st.ValLoss, s.Metrics.Value.Metrics["val_loss"])
	if n := len(s.Logs.Value); st.State == trainers.Failed && n > 0 {
		l := s.Logs.Value[n-1]
		st.Detail = a.entity.Scrub(strings.TrimSpace(l.Message + " " + l.Detail))
	}
	return st
}

func number(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

// last returns the first argument or, if that is nil, the value of the last point.
func last(have *float64, points []point) *float64 {
	if have == nil && len(points) > 0 {
		return points[len(points)-1].Value
	}
	return have
}

// state maps the service's states to NAT's in the same way as NAT does. A job that is neither pending nor finished is
// running.
func state(s string) trainers.State { return cmp.Or(states[s], trainers.Running) }

var states = map[string]trainers.State{
	"created": trainers.Pending, "pending": trainers.Pending, "completed": trainers.Completed,
	"failed": trainers.Failed, "cancelled": trainers.Canceled, "canceled": trainers.Canceled,
}

// Cancel requests that the job be cancelled. A job that has ended is unchanged.
func (a *Adapter) Cancel(ctx context.Context, ref trainers.JobRef) error {
	cancel := trainers.Ask("cancel job "+ref.ID, http.MethodPost, jobsPath+"/"+url.PathEscape(ref.ID)+"/cancel", nil)
	cancel.Header = http.Header{"Content-Type": {"application/json"}}
	_, err := a.entity.Do(ctx, cancel)
	if err != nil {
		if st, statusErr := a.Status(ctx, ref); statusErr == nil && st.State.Terminal() {
			return nil
		}
	}
	return err
}

var _ interface {
	trainers.Adapter
	trainers.Finder
	trainers.Addressed
	trainers.Deployer
} = (*Adapter)(nil)
