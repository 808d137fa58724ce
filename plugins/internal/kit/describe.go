package kit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/plugins/internal/host"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

func checkHandshake(ctx context.Context, k *kit) error {
	return k.with(ctx, func(*subject) error { return nil })
}

func checkDescribe(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		if s.Name() == "" || s.Version() == "" {
			return fmt.Errorf("invalid name %q or version %q", s.Name(), s.Version())
		}
		for _, b := range s.Describe() {
			switch {
			case b.Version == "" || b.Doc == "":
				return fmt.Errorf("builder %s: version (%q) and doc (%q) must not be empty", b.Name, b.Version, b.Doc)
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
		if err := k.with(ctx, func(s *subject) error {
			all[i] = s.Describe()
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
	return k.each(ctx, func(s *subject) error {
		spec, err := schema.FromJSONSchema(s.builder.ConfigSchema)
		if err == nil && spec.Kind != schema.Object && spec.Kind != schema.Map {
			err = errors.New("config schema does not describe an object")
		}
		return err
	})
}

func checkUnknownBuilder(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		_, err := s.rpc.Open(ctx, &pb.OpenRequest{Builder: "no such builder", Config: []byte("{}")})
		if status.Code(err) != codes.NotFound {
			return fmt.Errorf("opening a builder that doesn't exist returned %v", err)
		}
		return s.alive(ctx)
	})
}

func checkBadConfig(ctx context.Context, k *kit) error {
	return k.each(ctx, func(s *subject) error {
		for _, config := range []string{`[]`, `{`, `"text"`} {
			m, err := s.rpc.Validate(ctx, &pb.ValidateRequest{Builder: s.builder.Name, Config: []byte(config)})
			if err != nil && status.Code(err) != codes.InvalidArgument {
				return fmt.Errorf("validating config %s returned %w", config, err)
			}
			if err == nil && len(m.GetFindings()) == 0 {
				return fmt.Errorf("invalid config %s is accepted", config)
			}
		}
		return s.alive(ctx)
	})
}

func checkValidate(ctx context.Context, k *kit) error {
	return k.each(ctx, func(s *subject) error {
		var before []finding.Finding
		for i := range 2 {
			found, err := s.Validate(ctx, s.builder.Name, s.config(s.builder.Name))
			if err != nil {
				return err
			}
			for _, f := range found {
				if f.Severity == finding.Error {
					return fmt.Errorf("the config was unexpectedly rejected: %s %s", f.Pointer, f.Message)
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
