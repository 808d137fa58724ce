package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/engines"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/lists"
)

// script holds the flags shared by the commands for all engines.
type script struct {
	*engines.Needs
	engine, interpreter string // interpreter is the program that runs the first file
	out, memory         string
	leave               bool
}

func (s *script) flags(f *pflag.FlagSet) {
	f.StringVar(&s.out, "out", "",
		"folder to write to; default: "+s.engine+" in the plan's; for a plan in object storage, in the current folder")
	f.IntVar(&s.CPUs, "cpus", 2, "processors per process")
	f.StringVar(&s.memory, "memory", "2GiB", "memory per process")
	f.BoolVar(&s.leave, "leave-writing", true, "have the shards also write the data set; false: the merge writes it")
}

// write writes the scripts that run the plan, and prints how to start them.
func (s *script) write(cmd *cobra.Command, args []string, of scripts) error {
	dir := planArg(args)
	plan, err := readPlan(cmd.Context(), dir)
	if err != nil {
		return err
	}
	size, err := schema.ParseSize(s.memory)
	if err != nil {
		return exit.Usagef("--memory %q: %w", s.memory, err)
	}
	s.Memory = size
	here, err := os.Getwd()
	if err != nil {
		return exit.Environmentf("cannot find the working folder: %w", err)
	}
	folder, out, err := s.places(dir)
	if err != nil {
		return err
	}
	made, err := of.Files(engines.Run{
		ID: plan.RunID, Plan: folder, Dir: here, Shards: len(plan.Shards), Stages: plan.Stages(), Divide: s.leave,
	})
	if err != nil {
		return exit.Default(exit.Failed, err)
	}
	if err := engines.Write(out, made); err != nil {
		return err
	}
	paths := lists.Map(made, func(f engines.File) string { return filepath.Join(out, f.Name) })
	next := s.interpreter + " " + paths[0]
	switch {
	case asJSON(cmd):
		return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"files": paths, "next": next})
	case isQuiet(cmd):
		return nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n  next     %s\n", strings.Join(paths, "\n"), next)
	return err
}

// places returns the plan's folder, as an absolute path or an address in object storage, and the folder to write the
// scripts to.
func (s *script) places(dir shards.Folder) (plan, out string, err error) {
	plan, out = string(dir), filepath.Join(string(dir), s.engine)
	if dir.IsStored() {
		out = s.engine
	} else if plan, err = filepath.Abs(plan); err != nil {
		return "", "", exit.Environmentf("cannot find the plan's folder: %w", err)
	}
	if s.out != "" {
		out = s.out
	}
	return plan, out, nil
}

// readPlan reads a plan on a disk or in object storage.
func readPlan(ctx context.Context, dir shards.Folder) (plan *shards.Plan, err error) {
	err = withPlan(ctx, dir, "", func(p *shards.Parts) (err error) {
		plan, err = p.Dir.Read()
		return err
	})
	return plan, err
}

// scripts generates the scripts for an engine.
type scripts interface {
	Files(engines.Run) ([]engines.File, error)
}

// command completes the command that writes an engine's scripts. Unless program is nil, it is set to the path of
// nat-go on the nodes.
func (s *script) command(cmd *cobra.Command, program *string, of scripts) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if program != nil && *program == "" {
			if *program, err = os.Executable(); err != nil {
				return exit.Environmentf("cannot find this program's own file: %w", err)
			}
		}
		return s.write(cmd, args, of)
	}
	s.flags(cmd.Flags())
	if program != nil {
		cmd.Flags().StringVar(program, "program", "", "path of nat-go on the nodes; default: this program's own file")
	}
	return cmd
}

func newScriptSlurmCmd() *cobra.Command {
	var how engines.Slurm
	s := &script{Needs: &how.Needs, engine: "slurm", interpreter: "sh"}
	cmd := s.command(&cobra.Command{
		Use:   "slurm [PLAN]",
		Short: "Write batch scripts for Slurm: an array job for the shards, then the merge",
	}, &how.NatGo, &how)
	f := cmd.Flags()
	f.StringVar(&how.Time, "time", "4:00:00", "time limit per attempt; a shard that takes longer continues in the next attempt")
	f.IntVar(&how.ArraySize, "max-array-size", 1001, "the site's MaxArraySize, as shown by `scontrol show config`")
	f.IntVar(&how.AtOnce, "at-once", 0, "maximum number of array tasks that run at once; 0: no limit")
	f.StringArrayVar(&how.Options, "sbatch", nil,
		"an additional sbatch option, without its dashes: partition=cpu (repeatable)")
	return cmd
}

func newScriptK8sCmd() *cobra.Command {
	var how engines.Kubernetes
	s := &script{Needs: &how.Needs, engine: "k8s", interpreter: "sh"}
	cmd := s.command(&cobra.Command{
		Use:   "k8s [PLAN] --image IMAGE --claim NAME",
		Short: "Write Jobs for Kubernetes: an indexed one for the shards, and the merge",
	}, nil, &how)
	f := cmd.Flags()
	f.StringVar(&how.Image, "image", "", "image with nat-go as its entry point")
	f.StringVar(&how.Claim, "claim", "", "persistent volume claim with the plan, the inputs and the output folder")
	f.StringVar(&how.Mount, "mount", "", "where the volume is mounted; default: the working folder")
	f.StringVar(&how.Secret, "secret", "", "secret whose keys become variables in the pods")
	f.StringVar(&how.User, "user", "", "UID or UID:GID that the pods run as; default: the image's")
	f.IntVar(&how.AtOnce, "at-once", 0, "maximum number of pods that run at once; 0: no limit")
	f.IntVar(&how.Retries, "retries", 5, "additional attempts per shard")
	return cmd
}

func newScriptRayCmd() *cobra.Command {
	var how engines.Ray
	s := &script{Needs: &how.Needs, engine: "ray", interpreter: "python"}
	cmd := s.command(&cobra.Command{
		Use:   "ray [PLAN]",
		Short: "Write a driver for Ray: one task per shard, then the merge",
	}, &how.NatGo, &how)
	cmd.Flags().IntVar(&how.Retries, "retries", 5, "additional attempts per shard")
	return cmd
}
