package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/host"
)

func newBuildersCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "builders", Short: "List, describe, write, check and try trajectory builders"}
	cmd.AddCommand(newBuildersListCmd(), newBuildersDescribeCmd(), newBuildersNewCmd(), newBuildersVerifyCmd(), newBuildersTryCmd())
	return cmd
}

// pluginFlags are how commands name plugins: by a configuration, or by a program's path.
type pluginFlags struct {
	config string
	args   []string
}

func (f *pluginFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config_file", "", "configuration whose plugins are meant, besides those that are installed")
	cmd.Flags().StringArrayVar(&f.args, "arg", nil, "argument for a program named by its path (repeatable)")
}

// load reads the plugins of the configuration, and the lock file beside it.
func (f *pluginFlags) load(cmd *cobra.Command) ([]config.Plugin, *plugins.Lock, error) {
	dir := "."
	var configured []config.Plugin
	if f.config != "" {
		dir = filepath.Dir(f.config)
		opt, err := loadOptions(builtin.Types(), "", nil)
		if err != nil {
			return nil, nil, err
		}
		c, found := config.Load(f.config, opt)
		if c == nil {
			_ = printFindings(cmd.ErrOrStderr(), "text", found, colored(cmd.ErrOrStderr()))
			return nil, nil, exit.Usagef("%s can't be read", f.config)
		}
		configured = c.Plugins
	}
	lock, err := plugins.ReadLock(dir)
	if err != nil {
		return nil, nil, exit.With(exit.Environment, err)
	}
	return configured, lock, nil
}

// start starts what a person named: "" or a built-in builder is this program itself, a path is that program, else it is a
// plugin's name. It returns the builder that was named with it, if one was.
func (f *pluginFlags) start(ctx context.Context, cmd *cobra.Command, name string) (p *host.Plugin, builder string, err error) {
	spec, builder, lock, err := f.spec(cmd, name)
	if err != nil {
		return nil, "", err
	}
	p, err = host.Start(ctx, spec, newLogger(cmd.ErrOrStderr()))
	if err != nil {
		return nil, "", exit.With(exit.Environment, err)
	}
	if err := lock.Check(spec.Name, p); err != nil {
		p.Close()
		return nil, "", exit.With(exit.Environment, err)
	}
	return p, builder, nil
}

func (f *pluginFlags) spec(cmd *cobra.Command, name string) (host.Spec, string, *plugins.Lock, error) {
	for _, b := range builtin.Builders() {
		if name == "" || name == builtin.PluginName || b.Info().Name == name {
			return builtinSpec(), strings.TrimPrefix(name, builtin.PluginName), nil, nil
		}
	}
	info, err := os.Stat(name)
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") { // no plugin is called so
		switch {
		case err != nil:
			return host.Spec{}, "", nil, exit.Usagef("there is no program %s", name)
		case info.IsDir():
			return host.Spec{}, "", nil, exit.Usagef("%s is a folder; name the program in it", name)
		}
	}
	if err == nil && info.Mode().IsRegular() {
		base := strings.TrimPrefix(filepath.Base(name), "nat-go-builder-")
		path, err := filepath.Abs(name)
		return host.Spec{Name: base, Path: path, Args: f.args, StartTimeout: time.Minute, Known: explain.Known}, "", nil, err
	}
	configured, lock, err := f.load(cmd)
	if err != nil {
		return host.Spec{}, "", nil, err
	}
	plugin, builder, _ := strings.Cut(name, "/")
	spec, err := plugins.Spec(plugin, configured, lock)
	if err != nil {
		return host.Spec{}, "", nil, exit.With(exit.Usage, err)
	}
	return spec, builder, lock, nil
}

func builtinSpec() host.Spec {
	return host.Spec{Name: builtin.PluginName, Self: true, Args: []string{builtin.ServeCommand}, Known: explain.Known}
}

// builderView is a builder as it is printed.
type builderView struct {
	Type      string          `json:"type"` // what to write as _type
	Plugin    string          `json:"plugin"`
	Version   string          `json:"version"`
	Stability string          `json:"stability"`
	Unit      string          `json:"unit"`
	Kinds     []string        `json:"kinds"`
	Doc       string          `json:"doc"`
	Schema    json.RawMessage `json:"config_schema,omitempty"`
}

func viewOf(plugin string, b host.BuilderInfo) builderView {
	v := builderView{Type: plugin + "/" + b.Name, Plugin: plugin, Version: b.Version, Stability: b.Stability, Unit: b.Unit.String(), Doc: b.Doc}
	if plugin == builtin.PluginName {
		v.Type = b.Name
	}
	for _, k := range b.Kinds {
		v.Kinds = append(v.Kinds, k.String())
	}
	if json.Valid(b.ConfigSchema) {
		v.Schema = b.ConfigSchema
	}
	return v
}

func newBuildersListCmd() *cobra.Command {
	var flags pluginFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the built-in builders, and those of the plugins that are configured or installed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			configured, lock, err := flags.load(cmd)
			if err != nil {
				return err
			}
			out := struct {
				Builders []builderView     `json:"builders"`
				Failed   map[string]string `json:"failed,omitempty"`
			}{Failed: map[string]string{}}
			for _, f := range builtin.Builders() {
				i := f.Info()
				out.Builders = append(out.Builders, viewOf(builtin.PluginName, host.BuilderInfo{Name: i.Name, Version: i.Version, Stability: i.Stability, Doc: i.Doc, Unit: i.Unit, Kinds: i.Kinds}))
			}
			order := pluginNames(configured)
			for _, name := range order {
				views, err := describePlugin(cmd.Context(), name, configured, lock)
				if err != nil {
					out.Failed[name] = err.Error()
				}
				out.Builders = append(out.Builders, views...)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
			}
			for _, b := range out.Builders {
				fmt.Fprintf(cmd.OutOrStdout(), "%-28s %-8s %-12s %-8s %s\n", b.Type, b.Version, b.Stability, b.Unit, b.Doc)
			}
			for _, name := range order {
				if why := out.Failed[name]; why != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "plugin %s: %s\n", name, why)
				}
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// describePlugin starts a plugin to ask what it serves.
func describePlugin(ctx context.Context, name string, configured []config.Plugin, lock *plugins.Lock) (views []builderView, err error) {
	spec, err := plugins.Spec(name, configured, lock)
	if err != nil {
		return nil, err
	}
	spec.Instances = 1
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for _, b := range p.Describe() {
		v := viewOf(name, b)
		v.Schema = nil
		views = append(views, v)
	}
	return views, lock.Check(name, p)
}

func newBuildersDescribeCmd() *cobra.Command {
	var flags pluginFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "describe BUILDER|PLUGIN|PROGRAM",
		Short: "Say what a builder does and what its settings are",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, builder, err := flags.start(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			infos := p.Describe()
			if builder != "" {
				one, err := p.Builder(builder)
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				infos = []host.BuilderInfo{one}
			}
			plugin := args[0]
			if p.Name() == builtin.PluginName {
				plugin = builtin.PluginName
			} else if plugin, _, _ = strings.Cut(plugin, "/"); strings.ContainsRune(args[0], filepath.Separator) && builder == "" {
				plugin = p.Name()
			}
			var views []builderView
			for _, b := range infos {
				views = append(views, viewOf(plugin, b))
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"plugin": p.Name(), "version": p.Version(), "builders": views})
			}
			for _, v := range views {
				printBuilder(cmd.OutOrStdout(), v)
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printBuilder(w io.Writer, v builderView) {
	fmt.Fprintf(w, "%s %s (%s)\n  %s\n  works on one %s at a time; emits %s\n", v.Type, v.Version, v.Stability, v.Doc, v.Unit, strings.Join(v.Kinds, ", "))
	var s struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Default     any    `json:"default"`
			Description string `json:"description"`
		} `json:"properties"`
	}
	if json.Unmarshal(v.Schema, &s) != nil || len(s.Properties) == 0 {
		return
	}
	fmt.Fprintln(w, "  settings:")
	for _, key := range propertyOrder(v.Schema) {
		p := s.Properties[key]
		def := ""
		if p.Default != nil {
			def = fmt.Sprintf(" (default %v)", p.Default)
		}
		fmt.Fprintf(w, "    %-24s %s%s\n", key, p.Description, def)
	}
}

// propertyOrder lists a schema's properties as they stand in it.
func propertyOrder(schema []byte) (keys []string) {
	var s struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(s.Properties)))
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return keys
		}
		var skip json.RawMessage
		if dec.Decode(&skip) != nil {
			return keys
		}
		if k, ok := key.(string); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

func newBuildersNewCmd() *cobra.Command {
	var lang, dir, replace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "new NAME --lang go|python",
		Short: "Write a new builder plugin that builds, passes its checks and is ready to be changed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := finetune.Version()
			if !strings.HasPrefix(v, "v") {
				v = "v0.0.0"
			}
			found := false
			for _, l := range plugins.Langs {
				found = found || l == lang
			}
			if !found {
				return exit.Usagef("--lang %s: use one of %s", lang, strings.Join(plugins.Langs, ", "))
			}
			if replace != "" {
				abs, err := filepath.Abs(replace)
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				replace = abs
			}
			out, err := plugins.New(dir, args[0], lang, replace, v)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"dir": out})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is written; %s says how to build, check and use it\n", out, filepath.Join(out, "README.md"))
			if lang == "go" && replace == "" && v == "v0.0.0" {
				fmt.Fprintln(cmd.OutOrStdout(), "this nat-go was built from a checkout: run `go get github.com/nat-go/nat-go@latest` there, or give --replace CHECKOUT")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "go", "language: "+strings.Join(plugins.Langs, ", "))
	cmd.Flags().StringVar(&dir, "dir", ".", "folder to make the plugin's folder in")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&replace, "replace", "", "checkout of nat-go to build against instead of a published version")
	return cmd
}

func newBuildersTryCmd() *cobra.Command {
	var flags pluginFlags
	var builder, settings, from string
	var most int
	cmd := &cobra.Command{
		Use:   "try BUILDER|PLUGIN|PROGRAM --from FILE",
		Short: "Run a builder over a few examples and print what it makes of them, as JSON lines",
		Long: `Run a builder over a few examples and print what it makes of them, as JSON lines.

FILE is what finetune run --from reads, by the same keys and grouped in the same way: NAT's workflow_output.json, traces (id,
task_id, messages, reward) or candidates (id, turn_id, candidate_index, prompt, output, score).`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, named, err := flags.start(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			if named != "" {
				builder = named
			}
			if infos := p.Describe(); builder == "" && len(infos) == 1 {
				builder = infos[0].Name
			}
			return tryBuilder(cmd, p, builder, []byte(settings), from, most)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&builder, "builder", "", "which of the plugin's builders")
	cmd.Flags().StringVar(&settings, "config", "{}", "its settings, as JSON")
	cmd.Flags().StringVar(&from, "from", "", "file of examples (required)")
	cmd.Flags().Bool("json", true, "the output is JSON lines either way")
	_ = cmd.Flags().MarkHidden("json")
	cmd.Flags().IntVar(&most, "examples", 10, "how many to take; 0: all")
	_ = cmd.MarkFlagRequired("from")
	return cmd
}

func tryBuilder(cmd *cobra.Command, p *host.Plugin, builder string, settings []byte, from string, most int) error {
	info, err := p.Builder(builder)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	groups, drops, err := plugins.Groups(cmd.Context(), builtin.Sources(), from, info, most)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	for _, d := range drops {
		if err := plugins.PrintDrop(cmd.OutOrStdout(), d); err != nil {
			return err
		}
	}
	results, err := plugins.Build(cmd.Context(), p, builder, settings, groups)
	var refused *host.ConfigError
	if errors.As(err, &refused) {
		return exit.With(exit.Usage, err)
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	failed := 0
	for _, r := range results {
		if err := plugins.Print(cmd.OutOrStdout(), r); err != nil {
			return err
		}
		if r.Err != nil {
			failed++
			fmt.Fprintln(cmd.ErrOrStderr(), r.Err)
		}
	}
	if failed > 0 {
		return exit.Failedf("the builder failed on %d of %d groups", failed, len(results))
	}
	return nil
}
