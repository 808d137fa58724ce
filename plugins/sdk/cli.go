package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/lists"
)

// commandLine runs the command line of a program that was started by hand, and returns the exit code.
func commandLine(p Plugin, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(p, stderr)
		return 2
	}
	var err error
	switch args[0] {
	case "describe":
		err = p.printDescription(stdout)
	case "schema":
		err = p.printSchema(stdout, args[1:])
	case "try":
		err = try(stdout, stderr, args[1:])
	case "--debug", "-debug", "debug":
		err = p.debug(stderr)
	case "--version", "version":
		_, err = fmt.Fprintln(stdout, p.Name, p.Version)
	default:
		usage(p, stderr)
		return 2
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

func usage(p Plugin, w io.Writer) {
	fmt.Fprintf(w, "%s %s is a nat-go plugin: specify its path under plugins in a YAML file, and one of its builders "+
		"as %s/BUILDER.\n\nCommands:\n  %[4]s describe                          print its builders, as JSON\n  %[4]s "+
		"schema [BUILDER]                  JSON Schema of a builder's config\n  %[4]s try FILE [--builder B] "+
		"[--settings JSON]\n                                     have nat-go run a builder over the examples in "+
		"FILE, print records and drops\n  %[4]s --debug                           serve until interrupted and "+
		"print how to attach nat-go to it\n\nBuilders:\n", p.Name, p.Version, p.Name, filepath.Base(os.Args[0]))
	for _, f := range p.Builders {
		fmt.Fprintf(w, "  %-20s %s\n", f.info.Name, f.info.Doc)
	}
}

func (p *Plugin) printDescription(w io.Writer) error {
	type builder struct {
		Name      string          `json:"name"`
		Version   string          `json:"version"`
		Stability string          `json:"stability"`
		Doc       string          `json:"doc"`
		Unit      string          `json:"unit"`
		Kinds     []string        `json:"kinds"`
		RawSteps  bool            `json:"raw_steps"`
		Schema    json.RawMessage `json:"config_schema"`
	}
	d := p.describe()
	out := struct {
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Minor    uint32    `json:"protocol_minor"`
		Builders []builder `json:"builders"`
	}{d.Name, d.Version, d.Minor, nil}
	for _, b := range d.Builders {
		kinds := lists.Map(b.Kinds, builders.Kind.String)
		out.Builders = append(out.Builders, builder{
			b.Name, b.Version, b.Stability, b.Doc, b.Unit.String(), kinds, b.RawSteps, b.ConfigSchema,
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// pick returns the builder with the given name or, if name is empty, the only builder.
func (p *Plugin) pick(name string) (Factory, error) {
	if name == "" && len(p.Builders) == 1 {
		return p.Builders[0], nil
	}
	return p.factory(name)
}

func (p *Plugin) printSchema(w io.Writer, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	f, err := p.pick(name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", f.Schema())
	return err
}
