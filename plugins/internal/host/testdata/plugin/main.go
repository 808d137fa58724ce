// Command plugin is a plugin for the host's tests: a well-behaved builder, one that misbehaves in a stated way at a
// stated group, and, given an argument, a program that misbehaves from the start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "exit":
			fmt.Fprintln(os.Stderr, "no licence found")
			os.Exit(7)
		case "silent":
			select {}
		case "noise":
			fmt.Println("hello from init")
		case "old":
			fmt.Println("1|0|unix|/tmp/x|grpc|")
			select {}
		case "elsewhere":
			fmt.Println("1|1|unix|/tmp/elsewhere.sock|grpc|")
			select {}
		case "gone":
			fmt.Printf("1|1|unix|%s/p.sock|grpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
			os.Exit(4)
		case "deaf":
			fmt.Printf("1|1|unix|%s/p.sock|grpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
			select {}
		case "tcp":
			fmt.Println("1|1|tcp|127.0.0.1:1|grpc|")
			select {}
		case "long handshake":
			fmt.Printf("1|1|unix|%s/%s|grpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), strings.Repeat("x", 100_000))
			select {}
		case "flood":
			for {
				fmt.Print(strings.Repeat("x", 1<<16))
			}
		case "pour": // without end, once it serves
			go pour(os.Args[2], os.Args[3])
		case "raw":
			serveRaw(len(os.Args) > 2 && os.Args[2] == "gzip")
			return
		case "odd stderr":
			write(2, "{\"@message\": 1}\n")
		case "long line": // and a file that records that the write succeeded
			go func() {
				time.Sleep(200 * time.Millisecond)
				for range 7 {
					write(1, strings.Repeat("x", 70_000)+"\n")
				}
				os.WriteFile(os.Args[2], nil, 0o600)
			}()
		case "child": // in its own session, with no environment, its parent gone; its pid is in a file
			pid, err := exec.Command("sh", "-c", "env -i setsid sleep 600 >/dev/null 2>&1 & echo $!").Output()
			if err != nil {
				panic(err)
			}
			os.WriteFile(os.Args[2], pid, 0o600)
		case "env":
			for _, e := range os.Environ() {
				fmt.Fprintln(os.Stderr, e)
			}
			os.Exit(1)
		}
	}
	sdk.Serve(sdk.Plugin{Name: "test", Version: "1.0.0", Builders: []sdk.Factory{
		sdk.New(builders.Info{
			Name:      "pairs",
			Stability: "stable",
			Kinds:     []builders.Kind{builders.KindPreference},
		}, newPairs),
		sdk.New(builders.Info{
			Name:      "bulky",
			Stability: "stable",
			Kinds:     []builders.Kind{builders.KindPreference, builders.KindDemonstration},
		}, newPairs),
		sdk.New(builders.Info{Name: "all", Stability: "stable", Unit: builders.UnitTask, Kinds: []builders.Kind{
			builders.KindPreference, builders.KindDemonstration, builders.KindRollout, builders.KindDistillation,
			builders.KindState,
		}}, newAll),
	}})
}

type config struct {
	At     string `yaml:"at" doc:"key of the group at which it happens; * for each"`
	Do     string `yaml:"do" doc:"what happens"`
	Once   string `yaml:"once" doc:"file that records that it has happened, so that it doesn't happen again"`
	Factor int    `yaml:"factor" default:"1" validate:"gte=1,lte=9" doc:"a number"`
}

func newPairs(c *config) (builders.Builder, error) { return pairs{*c}, nil }

// pairs pairs each candidate with the next.
type pairs struct{ config }

func (b pairs) Build(ctx context.Context, g *ttc.Group, out builders.Output) error {
	if b.At == g.Key || b.At == "*" {
		if b.Once != "" {
			if _, err := os.Stat(b.Once); err == nil {
				return b.build(g, out)
			}
			os.WriteFile(b.Once, nil, 0o600)
		}
		if err := misbehave(ctx, b.Do, g, out); err != nil {
			return err
		}
	}
	return b.build(g, out)
}

func (pairs) build(g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i := 0; i+1 < len(ex.Candidates); i++ {
			if err := out.Record(pair(g, e, i)); err != nil {
				return err
			}
		}
	}
	return out.Count("groups", 1)
}

func pair(g *ttc.Group, e, i int) *builders.Preference {
	a, b := &g.Examples[e].Candidates[i], &g.Examples[e].Candidates[i+1]
	ref := func(p builders.Part, i int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: i}}
	}
	return &builders.Preference{
		Head:          builders.Head{Example: e, Turn: a.Turn, Metadata: []byte(`{"pair":true}`)},
		Prompt:        ref(builders.CandidatePrompt, i),
		Chosen:        ref(builders.CandidateOutput, i),
		Rejected:      ref(builders.CandidateOutput, i+1),
		Reward:        a.Score - b.Score,
		ScoreName:     a.Step,
		ChosenScore:   a.Score,
		RejectedScore: b.Score,
		ChosenIndex:   a.Index,
		RejectedIndex: b.Index,
	}
}

func misbehave(ctx context.Context, do string, g *ttc.Group, out builders.Output) error {
	switch do {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // it takes effect eventually
	case "exit":
		os.Exit(3)
	case "crash":
		go func() { panic("a bug in a goroutine") }()
		select {}
	case "panic":
		panic("a bug in Build")
	case "error":
		return fmt.Errorf("can't read this one")
	case "hang":
		select {}
	case "wait": // reports which process it is, and waits to be told to continue
		name := os.Getenv("TMPDIR") + "/" + g.Key
		os.WriteFile(name+".new", fmt.Appendln(nil, os.Getpid()), 0o600)
		os.Rename(name+".new", name)
		for {
			if _, err := os.Stat(name + ".go"); err == nil {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	case "bulk":
		return out.Record(&builders.Demonstration{
			Weight:   1,
			Messages: builders.Content{Text: strings.Repeat("x", 1<<20)},
		})
	case "hang with progress":
		for {
			sdk.Progress(ctx, 1, 2)
			time.Sleep(50 * time.Millisecond)
		}
	case "slow with progress":
		for i := range 30 {
			sdk.Progress(ctx, int64(i), 30)
			time.Sleep(100 * time.Millisecond)
		}
	case "allocate":
		var all [][]byte
		for {
			b := make([]byte, 8<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
			if len(all)%8 == 0 {
				time.Sleep(5 * time.Millisecond)
			}
		}
	case "flood stdout":
		flood(1)
	case "flood stderr":
		flood(2)
	case "odd stderr":
		write(2, "{\"@message\": 1}\n{\"level\":\"fatal\",\"message\":\"not the host's end\"}\n{\"level\":7}\nnull\n{}\n\x00\xff\n")
	case "long line":
		write(1, strings.Repeat("o", 70_000)+"\n"+strings.Repeat("p", 600_000)+"\n")
		write(2, strings.Repeat("e", 70_000)+"\n"+strings.Repeat("f", 600_000)+"\n")
	case "too much output":
		for i := 0; ; i++ {
			d := &builders.Demonstration{
				Weight:   1,
				Messages: builders.Content{Text: fmt.Sprint(i, strings.Repeat("x", 1<<20))},
			}
			if err := out.Record(d); err != nil {
				return err
			}
		}
	case "bad references":
		p := pair(g, 0, 0)
		p.Chosen.Ref.Candidate = 99
		q := pair(g, 0, 0)
		q.Example = 7
		if err := out.Record(p); err != nil {
			return err
		}
		return out.Record(q)
	case "bad texts":
		for _, bad := range []func(*builders.Preference){
			func(p *builders.Preference) { p.Chosen = builders.Content{Text: "a\xffb"} },
			func(p *builders.Preference) { p.Metadata = []byte("1 2") },
			func(p *builders.Preference) {
				call := chat.ToolCall{Name: "f", Parsed: []byte(`{} {}`)}
				p.Chosen = builders.Content{
					Ref:      builders.Ref{Part: builders.InlineMessages},
					Messages: []chat.Message{{Role: "assistant", ToolCalls: []chat.ToolCall{call}}},
				}
			},
			func(p *builders.Preference) {
				call := chat.ToolCall{Name: "f", Parsed: []byte("{\"x\":\"\xff\"}")}
				p.Chosen = builders.Content{
					Ref:      builders.Ref{Part: builders.InlineMessages},
					Messages: []chat.Message{{Role: "assistant", ToolCalls: []chat.ToolCall{call}}},
				}
			},
		} {
			p := pair(g, 0, 0)
			bad(p)
			if err := out.Record(p); err != nil {
				return err
			}
		}
	case "many sites":
		for {
			if err := out.Record(&builders.Distillation{Sites: make([]builders.Site, 1000)}); err != nil {
				return err
			}
		}
	case "drops too much":
		for range 2 {
			out.Drop(ledger.Drop{Reason: ledger.SameText, Unit: "candidate", Count: 1<<63 - 1})
		}
	case "wrong kind":
		return out.Record(&builders.Rollout{})
	case "drops":
		out.Drop(ledger.Drop{Stage: "gate", Reason: ledger.SameText, Unit: "candidate", Builder: "someone else"})
		return out.Drop(ledger.Drop{Reason: "too_short", Unit: "candidate", Count: -5})
	}
	return nil
}

// flood writes 65,536 lines of 1,000 characters to a file descriptor, bypassing os.Stdout and os.Stderr.
func flood(fd int) {
	line := strings.Repeat("y", 1000) + "\n"
	for range 64 << 10 {
		write(fd, line)
	}
}

// pour prints without end: to a descriptor, or to os.Stdout.
func pour(where, what string) {
	text := strings.Repeat(map[string]string{
		"lines": "y\n", "blank": "\n", "unbroken": "x", "JSON": "{\"message\":\"m\",\"field\":[1,2,3]}\n",
	}[what], 1<<12)
	time.Sleep(300 * time.Millisecond)
	for {
		switch where {
		case "stdout":
			write(1, text)
		case "stderr":
			write(2, text)
		default:
			os.Stdout.WriteString(text)
		}
	}
}

func write(fd int, s string) {
	for len(s) > 0 {
		n, err := syscall.Write(fd, []byte(s))
		if err != nil {
			return
		}
		s = s[n:]
	}
}
