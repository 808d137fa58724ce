package kit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/internal/host"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

func checkHandshake(ctx context.Context, k *kit) error {
	return k.with(ctx, func(*host.Plugin) error { return nil })
}

func checkDescribe(ctx context.Context, k *kit) error {
	return k.with(ctx, func(p *host.Plugin) error {
		if p.Name() == "" || p.Version() == "" {
			return fmt.Errorf("invalid name %q or version %q", p.Name(), p.Version())
		}
		for _, b := range p.Describe() {
			switch {
			case b.Version == "" || b.Doc == "":
				return fmt.Errorf("builder %s: missing version %q or doc %q", b.Name, b.Version, b.Doc)
			case !slices.Contains([]string{"stable", "beta", "experimental"}, b.Stability):
				return fmt.Errorf("builder %s: invalid stability %q: expected stable, beta or experimental",
					b.Name, b.Stability)
			case strings.Contains(b.Name, "/"):
				return fmt.Errorf("builder %q: invalid name: a name must not contain a slash", b.Name)
			}
		}
		return nil
	})
}

func checkDescribeAgain(ctx context.Context, k *kit) error {
	var all [2][]host.BuilderInfo
	for i := range all {
		if err := k.with(ctx, func(p *host.Plugin) error {
			all[i] = p.Describe()
			return nil
		}); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(all[0], all[1]) {
		return errors.New("the plugin's second description differs from the first")
	}
	return nil
}

func checkSchema(ctx context.Context, k *kit) error {
	return k.each(ctx, func(_ *host.Plugin, b host.BuilderInfo) error {
		spec, err := schema.FromJSONSchema(b.ConfigSchema)
		if err == nil && spec.Kind != schema.Object && spec.Kind != schema.Map {
			err = errors.New("config schema does not describe an object")
		}
		return err
	})
}

// call is like with, for checks that call the plugin without the host's own client.
func (k *kit) call(ctx context.Context, f func(*host.Plugin, pb.BuilderClient) error) error {
	return k.with(ctx, func(p *host.Plugin) error {
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		return f(p, c)
	})
}

func rpc(ctx context.Context, p *host.Plugin) (pb.BuilderClient, error) {
	conn, err := p.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return pb.NewBuilderClient(conn), nil
}

func checkUnknownBuilder(ctx context.Context, k *kit) error {
	return k.call(ctx, func(_ *host.Plugin, c pb.BuilderClient) error {
		_, err := c.Open(ctx, &pb.OpenRequest{Builder: "no such builder", Config: []byte("{}")})
		if status.Code(err) != codes.NotFound {
			return fmt.Errorf("opening a builder that doesn't exist returned %v", err)
		}
		return alive(ctx, c)
	})
}

// alive returns an error if the plugin no longer answers.
func alive(ctx context.Context, c pb.BuilderClient) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.Describe(ctx, &pb.DescribeRequest{}); err != nil {
		return fmt.Errorf("the plugin no longer answers: %w", err)
	}
	return nil
}

func checkBadConfig(ctx context.Context, k *kit) error {
	return k.each(ctx, func(p *host.Plugin, b host.BuilderInfo) error {
		c, err := rpc(ctx, p)
		if err != nil {
			return err
		}
		for _, config := range []string{`[]`, `{`, `"text"`} {
			m, err := c.Validate(ctx, &pb.ValidateRequest{Builder: b.Name, Config: []byte(config)})
			if err != nil && status.Code(err) != codes.InvalidArgument {
				return fmt.Errorf("validating config %s returned %w", config, err)
			}
			if err == nil && len(m.GetFindings()) == 0 {
				return fmt.Errorf("invalid config %s is accepted", config)
			}
		}
		return alive(ctx, c)
	})
}

func checkValidate(ctx context.Context, k *kit) error {
	return k.each(ctx, func(p *host.Plugin, b host.BuilderInfo) error {
		var before []finding.Finding
		for i := range 2 {
			found, err := p.Validate(ctx, b.Name, k.config(b.Name))
			if err != nil {
				return err
			}
			for _, f := range found {
				if f.Severity == finding.Error {
					return fmt.Errorf("unexpected refusal of the config: %s %s", f.Pointer, f.Message)
				}
			}
			if i == 1 && !reflect.DeepEqual(before, found) {
				return errors.New("the second validation of the config differs from the first")
			}
			before = found
		}
		return nil
	})
}
