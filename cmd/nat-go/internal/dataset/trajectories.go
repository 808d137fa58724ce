package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/json"
)

// Trajectories names the format of NAT's TrajectoryCollections. Only a run with --compat nat writes it. Each file is
// one JSON document, with NaN where a score was NaN.
const Trajectories = "nat_trajectories"

// maxTrajectories is the maximum size of a collection that is checked. A collection is read into memory as a whole.
const maxTrajectories = 2 << 30

// trajectories checks a collection, which has the form {"trajectories": [[trajectory, ...], ...], "run_id": text}.
func (v *verifier) trajectories(path string) error {
	seen := Verified{
		Format: Trajectories, Shape: "episode, reward, metadata",
		RowFile: runfolder.RowFile{
			Path: Trajectories + "/" + filepath.Base(path), Kind: "preference", Split: "train and validation",
		},
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	seen.Bytes = info.Size()
	at := Defect{Code: badRow, File: seen.Path}
	if seen.Bytes > maxTrajectories {
		v.warn(at, "file is larger than %d GiB and was not checked", maxTrajectories>>30)
		return nil
	}
	text, err := durable.ReadFile(path, maxTrajectories)
	if err != nil {
		return err
	}
	raw, err := json.Parse(text, json.Limits{Size: maxTrajectories})
	if err == nil {
		err = eachTrajectory(raw, func(t json.Raw) error {
			seen.Rows++
			return trajectory(t)
		})
	}
	if err != nil {
		v.find(at, "trajectory %d: %v", seen.Rows, err)
	}
	v.report.Files = append(v.report.Files, seen)
	return nil
}

func eachTrajectory(raw json.Raw, f func(json.Raw) error) error {
	if raw.Kind() != json.Object {
		return errors.New("invalid collection")
	}
	groups, _ := raw.Get("trajectories")
	if id, _ := raw.Get("run_id"); groups.Kind() != json.Array || id.Kind() != json.String {
		return errors.New(`missing "trajectories" or "run_id"`)
	}
	for g := range groups.Elements() {
		if g.Kind() != json.Array {
			return errors.New("expected an array of trajectories")
		}
		for t := range g.Elements() {
			if err := f(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// trajectory checks one trajectory, which consists of an episode with one preference, and a reward.
func trajectory(t json.Raw) error {
	if t.Kind() != json.Object {
		return fmt.Errorf("expected an object, got %s", t.Kind())
	}
	episode, _ := t.Get("episode")
	if reward, _ := t.Get("reward"); episode.Kind() != json.Array || reward.Kind() != json.Number {
		return errors.New("missing episode or reward")
	}
	n := 0
	for step := range episode.Elements() {
		n++
		if step.Kind() != json.Object {
			return errors.New("expected an object in the episode")
		}
		prompt, _ := step.Get("prompt")
		chosen, _ := step.Get("chosen_response")
		rejected, _ := step.Get("rejected_response")
		if prompt.Kind() != json.String && prompt.Kind() != json.Array || chosen.Kind() != json.String ||
			rejected.Kind() != json.String {
			return errors.New("expected prompt, chosen_response and rejected_response in the episode")
		}
	}
	if n != 1 {
		return fmt.Errorf("expected an episode of one step, got %d", n)
	}
	return nil
}
