package external

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// config returns the TLS configuration for the broker at a host; nil for no TLS.
func (t TLS) config(host string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.ServerName, host)}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("the authorities to trust hold no certificate in PEM form")
		}
	}
	if t.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("the client's certificate and key are no pair: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if t.AnyHost {
		// Verification is switched off only to repeat it without the host's name.
		config.InsecureSkipVerify = true
		config.VerifyConnection = chainOnly(config.RootCAs)
	}
	return config, nil
}

// chainOnly verifies that a trusted authority signed the broker's certificate, for any host.
func chainOnly(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		chain := state.PeerCertificates // never empty on a client's side
		between := x509.NewCertPool()
		for _, certificate := range chain[1:] {
			between.AddCert(certificate)
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
		}
		return nil
	}
}

// ownCertificate returns the problem with the client's certificate at a time, nil if there is none.
func (t TLS) ownCertificate(now time.Time) error {
	if t.Certificate == "" {
		return nil
	}
	pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key.Reveal()))
	if err != nil {
		return fmt.Errorf("%w: dlqbench's own certificate and key are no pair: %w", ErrCertificate, err)
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%w: dlqbench's own certificate expired on %s: get a new one", ErrCertificate, day(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w: dlqbench's own certificate is valid only from %s on: is this machine's clock right?",
			ErrCertificate, day(leaf.NotBefore))
	}
	return nil
}

func day(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// explainTLS explains a failed verification.
func explainTLS(err error, host string) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("%w: it is not signed by a trusted authority (its issuer is %q): give that authority's "+
			"certificate with ssl.ca.location",
			ErrCertificate, authority.Cert.Issuer.String())
	case errors.As(err, &name):
		return fmt.Errorf("%w: it is not for %q but for %s: use one of those names in bootstrap.servers (or in the "+
			"broker's advertised.listeners), or set dlqbench.ssl.server.name",
			ErrCertificate, host, namesOf(name.Certificate))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		leaf := invalid.Cert
		if time.Now().Before(leaf.NotBefore) {
			return fmt.Errorf("%w: the certificate of %q is valid only from %s on: is this machine's clock right?",
				ErrCertificate, leaf.Subject.String(), day(leaf.NotBefore))
		}
		return fmt.Errorf(
			"%w: the certificate of %q expired on %s: the cluster needs a new one (or this machine's clock is wrong)",
			ErrCertificate, leaf.Subject.String(), day(leaf.NotAfter))
	}
	return fmt.Errorf("%w: %w", ErrCertificate, err)
}

func namesOf(certificate *x509.Certificate) string {
	names := certificate.DNSNames
	for _, ip := range certificate.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host at all"
	}
	return fmt.Sprintf("%q", names)
}
