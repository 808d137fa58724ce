package httpclient

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/nat-go/nat-go/internal/durable"
)

// TLS configures how the service and the client authenticate themselves. It is part of adapters' configs.
type TLS struct {
	CAFile             string `yaml:"ca_file" doc:"PEM file of the authorities that may sign the service's certificate; if unset, the system's"`
	CertFile           string `yaml:"cert_file" validate:"required_with=KeyFile" doc:"PEM file of the client certificate, for services that require one"`
	KeyFile            string `yaml:"key_file" validate:"required_with=CertFile" doc:"PEM file of the client certificate's key"`
	ServerName         string `yaml:"server_name" doc:"name to check the service's certificate against; if unset, the host's"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" default:"false" doc:"don't verify the service's certificate at all; for tests only, and refused with a token"`
}

// maxPEM is the maximum size of a certificate file; systems ship files of a few hundred KiB.
const maxPEM = 16 << 20

func (t TLS) config() (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify,
	}
	if t.CAFile != "" {
		pem, err := durable.ReadFile(t.CAFile, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: no PEM certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := t.pair()
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func (t TLS) pair() (tls.Certificate, error) {
	cert, err := durable.ReadFile(t.CertFile, maxPEM)
	key, err2 := durable.ReadFile(t.KeyFile, maxPEM)
	if err := cmp.Or(err, err2); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
