package wire

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// ProtocolVersion is go-plugin's application protocol; Minor counts additions to nat.builder.v1 since it was frozen.
const (
	ProtocolVersion = 1
	Minor           = 4
)

// The cookie is an environment variable by which a plugin recognises that it was not started by hand. It is not a
// secret.
const (
	CookieName  = "NATGO_PLUGIN_COOKIE"
	CookieValue = "nat.builder.v1"
)

// ReattachVariable names the environment variable that makes a host attach to plugins that are already running, for
// example under a debugger. Its value is a comma-separated list of NAME=unix:PATH.
const ReattachVariable = "NATGO_REATTACH"

// Ping is the capability to answer go-plugin's health check within a few seconds, even during a build.
const Ping = "ping"

// InitialCredit is the number of frames that each side may send before it has been granted any credit.
const InitialCredit = 4

// Description is a plugin's description of itself.
type Description struct {
	Name, Version string
	Minor         uint32
	Capabilities  []string
	Builders      []BuilderInfo
}

// BuilderInfo is the wire form of builders.Info, with the config struct represented by its JSON Schema.
type BuilderInfo struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Stability    string          `json:"stability"`
	Doc          string          `json:"doc"`
	Unit         builders.Unit   `json:"-"`
	Kinds        []builders.Kind `json:"-"`
	RawSteps     bool            `json:"raw_steps"`
	ConfigSchema []byte          `json:"-"` // JSON Schema 2020-12; if empty, any object is valid
}

// Describe writes a description.
func (d *Description) Describe() *pb.DescribeResponse {
	c, out := converter{to: &textWriter{frame: new(int)}}, &pb.DescribeResponse{}
	c.description(out, d)
	return out
}

// ReadDescription reads a plugin's description. Kinds and units unknown to this build are an error.
func ReadDescription(m *pb.DescribeResponse) (d Description, err error) {
	c := converter{}
	c.description(nested(&c, &m), &d)
	return d, c.err
}

func (c *converter) description(p *pb.DescribeResponse, v *Description) {
	same(c, &p.Name, &v.Name)
	same(c, &p.Version, &v.Version)
	same(c, &p.ProtocolMinor, &v.Minor)
	same(c, &p.Capabilities, &v.Capabilities)
	each(c, &p.Builders, &v.Builders, 0, (*converter).info)
}

func (c *converter) info(p *pb.BuilderInfo, v *BuilderInfo) {
	same(c, &p.Name, &v.Name)
	same(c, &p.Version, &v.Version)
	same(c, &p.Stability, &v.Stability)
	same(c, &p.Doc, &v.Doc)
	choice(c, "unit", &p.Unit, &v.Unit, pb.Unit(builders.UnitRun))
	same(c, &p.RawSteps, &v.RawSteps)
	same(c, &p.ConfigSchema, &v.ConfigSchema)
	if c.to != nil {
		p.Kinds = make([]pb.Kind, len(v.Kinds))
	} else {
		v.Kinds = make([]builders.Kind, len(p.Kinds))
	}
	for i := range v.Kinds {
		choice(c, "kind of record", &p.Kinds[i], &v.Kinds[i], pb.Kind(builders.KindState))
		if v.Kinds[i] == 0 && c.to == nil {
			c.fail("builder %q may emit records of kind 0", v.Name)
		}
	}
}

// Findings writes findings, except for notes. It omits their positions, which refer to the JSON that the host generated
// from the user's file.
func Findings(fs []finding.Finding) (out []*pb.Finding) {
	for _, f := range fs {
		if f.Severity == finding.Note {
			continue
		}
		fix := f.Fix
		if fix == "" && f.Suggestion != "" {
			fix = "did you mean " + f.Suggestion + "?"
		}
		severity := pb.Severity_SEVERITY_ERROR
		if f.Severity == finding.Warning {
			severity = pb.Severity_SEVERITY_WARNING
		}
		out = append(out, &pb.Finding{
			Pointer: f.Pointer, Message: f.Message, Fix: fix, Code: f.Code, Severity: severity,
		})
	}
	return out
}

// ReadFindings reads findings. To be safe, it treats an unknown severity as an error.
func ReadFindings(fs []*pb.Finding) (out []finding.Finding) {
	for _, f := range fs {
		severity := finding.Error
		if f.GetSeverity() == pb.Severity_SEVERITY_WARNING {
			severity = finding.Warning
		}
		out = append(out, finding.Finding{
			Pointer: f.GetPointer(), Message: f.GetMessage(), Fix: f.GetFix(), Code: f.GetCode(), Severity: severity,
		})
	}
	return out
}
