package customizer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// maxName is the maximum length of a name that Kubernetes accepts for most objects.
const maxName = 63

// Deploy creates a deployment config and a deployment of the job's output model if the config requests it.
func (a *Adapter) Deploy(ctx context.Context, ref trainers.JobRef) (trainers.JobRef, bool, error) {
	if !a.conf.DeployOnCompletion {
		return ref, false, nil
	}
	ref, err := a.withModel(ctx, ref)
	if err != nil {
		return ref, false, err
	}
	ns, key, d := a.conf.Namespace, cmp.Or(ref.Metadata["key"], ref.RunID), a.conf.Deployment
	confName, depName := name("nat-deploy-config-", key, maxName), name("nat-deployment-", key, maxName)
	if d.Name != nil && *d.Name != "" {
		depName = *d.Name
	}
	const place = "/v1/deployment/configs"
	err = a.ensure(ctx, a.entity, trainers.Ask("create the deployment config", http.MethodPost, place,
		trainers.JSON(map[string]any{
			"name": confName, "namespace": ns, "description": d.Description, "model": ref.Metadata["output_model"],
			"nim_deployment": map[string]any{"image_name": d.ImageName, "image_tag": d.ImageTag, "gpu": d.GPU},
		})), place+"/"+url.PathEscape(ns)+"/"+url.PathEscape(confName))
	if err != nil {
		return ref, false, err
	}
	if err := a.createDeployment(ctx, depName, ns+"/"+confName); err != nil {
		return ref, false, err
	}
	return ref.With("deployment", depName), true, nil
}

// withModel adds the job's output model to the reference. Some services name the model only once the job is complete.
func (a *Adapter) withModel(ctx context.Context, ref trainers.JobRef) (trainers.JobRef, error) {
	if ref.Metadata["output_model"] != "" {
		return ref, nil
	}
	op := "deploy the model of job " + ref.ID
	var j job
	get := trainers.Ask(op, http.MethodGet, jobsPath+"/"+url.PathEscape(ref.ID), nil)
	if err := a.entity.DoJSON(ctx, get, &j); err != nil {
		return ref, err
	}
	m := qualified(j.OutputModel)
	if m == "" {
		return ref, trainers.Errorf(httpclient.Refused, op,
			"set output_model: <namespace>/<name> in the trainer adapter's config and train again; the artifacts of "+
				"this job remain with the service",
			"training is complete, but the service made no output model")
	}
	return ref.With("output_model", m), nil
}

// createDeployment creates the deployment. An existing deployment with the same name and config was created by an
// earlier attempt whose response was lost. If that deployment has failed, createDeployment replaces it.
func (a *Adapter) createDeployment(ctx context.Context, depName, config string) error {
	op := "create the deployment"
	// Repeating the request is safe, because creating a second deployment of the same name is a conflict.
	create := trainers.Ask(op, http.MethodPost, deployments, trainers.JSON(map[string]string{
		"name": depName, "namespace": a.conf.Namespace, "description": a.conf.Deployment.Description, "config": config,
	}))
	_, err := a.entity.Do(ctx, create)
	if !conflict(err) {
		return err
	}
	d, found, getErr := a.getDeployment(ctx, depName)
	serves, state := qualified(d.Config), deploymentState(d.Status.Status)
	const fix = "choose another deployment_name, or delete the deployment"
	switch {
	case getErr != nil:
		return getErr
	case found && serves != "" && serves != config:
		return trainers.Errorf(httpclient.Refused, op, fix, "deployment %s exists and serves %s", depName,
			a.entity.Scrub(serves))
	case !found || !state.Terminal() || state == trainers.Completed:
		return nil
	case serves == "":
		return trainers.Errorf(httpclient.Refused, op, fix,
			"deployment %s exists, has failed, and serves an unknown model", depName)
	}
	// An earlier attempt created the deployment, and it has failed.
	_, err = a.entity.Do(ctx, trainers.Ask("delete the deployment that failed", http.MethodDelete,
		a.deploymentPath(depName), nil, http.StatusNotFound))
	if err != nil {
		return err
	}
	if _, err = a.entity.Do(ctx, create); conflict(err) {
		return &httpclient.Error{
			Op: op, Why: "the failed deployment is still being deleted", Fault: httpclient.Unavailable, Err: err,
		}
	}
	return err
}

// deployments is the path of the service's deployments.
const deployments = "/v1/deployment/model-deployments"

func (a *Adapter) deploymentPath(name string) string {
	return deployments + "/" + url.PathEscape(a.conf.Namespace) + "/" + url.PathEscape(name)
}

// conflict reports whether an error means that an object already exists.
func conflict(err error) bool {
	var e *httpclient.Error
	return errors.As(err, &e) && e.Status == http.StatusConflict
}

// deployment contains the fields of the service's deployment description that are used.
type deployment struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Config    any    `json:"config"`
	URL       string `json:"url"`
	Status    struct {
		Status      string `json:"status"`
		Description string `json:"description"`
	} `json:"status_details"`
}

// StatusOfDeployment looks up the deployment by its name.
func (a *Adapter) StatusOfDeployment(ctx context.Context, ref trainers.JobRef) (trainers.JobStatus, error) {
	name := ref.Metadata["deployment"]
	d, found, err := a.getDeployment(ctx, name)
	if err != nil {
		return trainers.JobStatus{}, err
	}
	if !found {
		return trainers.JobStatus{State: trainers.Pending, Message: "deployment " + name + ": doesn't exist yet"}, nil
	}
	status, about := a.entity.Scrub(d.Status.Status), a.entity.Scrub(strings.TrimSpace(d.Status.Description))
	st := trainers.JobStatus{
		State:    deploymentState(d.Status.Status),
		Message:  strings.TrimSpace("deployment " + name + ": " + status + " " + about),
		Metadata: map[string]any{"deployment": name, "deployment_status": status},
	}
	if st.State == trainers.Completed && d.URL != "" {
		st.Metadata["url"] = a.entity.Scrub(d.URL)
	}
	return st, nil
}

// deploymentState maps the service's states to NAT's. A deployment that is neither pending nor finished is running.
func deploymentState(s string) trainers.State { return cmp.Or(deploymentStates[s], trainers.Running) }

var deploymentStates = map[string]trainers.State{
	"created": trainers.Pending, "pending": trainers.Pending, "ready": trainers.Completed, "failed": trainers.Failed,
	"error": trainers.Failed, "cancelled": trainers.Canceled, "canceled": trainers.Canceled,
}

// getDeployment gets one deployment. Some services respond with a list, which getDeployment searches for the name.
func (a *Adapter) getDeployment(ctx context.Context, name string) (deployment, bool, error) {
	reply, err := a.entity.Do(ctx, trainers.Ask("get the status of deployment "+name, http.MethodGet,
		a.deploymentPath(name), nil, http.StatusNotFound))
	if err != nil || reply.Status == http.StatusNotFound {
		return deployment{}, false, err
	}
	var answer struct {
		deployment
		Data []deployment `json:"data"`
	}
	if err := reply.JSON(&answer); err != nil {
		return deployment{}, false, err
	}
	if answer.Data == nil {
		return answer.deployment, true, nil
	}
	for _, d := range answer.Data {
		if d.Name == name && d.Namespace == a.conf.Namespace {
			return d, true, nil
		}
	}
	return deployment{}, false, nil
}
