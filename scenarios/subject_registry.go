package scenarios

// A schema registry of the user's own.

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/format"
)

// OwnRegistry is a schema registry of the user's own, in the place of the one that runs have.
type OwnRegistry struct {
	// URL is the address of its API, as Confluent defines it, such as https://registry.example.com:8081.
	URL string `json:"url" jsonschema:"required,minLength=1"`
	// CredentialsFile is a file with one line, USER:PASSWORD or a bearer token: absolute, or relative to subject.yaml.
	CredentialsFile string `json:"credentials_file,omitempty" jsonschema:"minLength=1"`
	// CredentialsEnv is the environment variable of dlqbench that has them.
	CredentialsEnv string `json:"credentials_env,omitempty" jsonschema:"minLength=1"`
	// CAFile has the certificates of the authorities that its certificate is from, as PEM; default: those of the system.
	CAFile string `json:"ca_file,omitempty" jsonschema:"minLength=1"`
}

// maxSecret is the largest file with credentials or certificates, in bytes.
const maxSecret = 1 << 20

// Access returns the header Authorization, "" for none, and the authorities, nil for those of the system. Folder is
// what paths are relative to; lookup is os.LookupEnv. Errors do not contain the credentials.
func (o *OwnRegistry) Access(folder string, lookup func(string) (string, bool)) (string, *x509.CertPool, error) {
	credentials, err := o.credentials(folder, lookup)
	if err != nil {
		return "", nil, err
	}
	var roots *x509.CertPool
	if o.CAFile != "" {
		text, err := readSecret(folder, o.CAFile)
		if err != nil {
			return "", nil, fmt.Errorf("reading ca_file: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM([]byte(text)) {
			return "", nil, fmt.Errorf("ca_file: %s has no certificate in PEM (-----BEGIN CERTIFICATE-----)", o.CAFile)
		}
	}
	switch user, _, isUser := strings.Cut(credentials, ":"); {
	case credentials == "":
		return "", roots, nil
	case isUser && user == "":
		return "", nil, errors.New("the credentials have no user before the colon: write USER:PASSWORD, or a bearer token")
	case isUser:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials)), roots, nil
	}
	return "Bearer " + credentials, roots, nil
}

// credentials returns the text of the credentials, "" for none.
func (o *OwnRegistry) credentials(folder string, lookup func(string) (string, bool)) (text string, err error) {
	switch {
	case o.CredentialsFile != "":
		if text, err = readSecret(folder, o.CredentialsFile); err != nil {
			return "", fmt.Errorf("reading credentials_file: %w", err)
		}
	case o.CredentialsEnv != "":
		var set bool
		if text, set = lookup(o.CredentialsEnv); !set {
			return "", fmt.Errorf("credentials_env: the environment variable %s is not set: set it to USER:PASSWORD, or to a "+
				"bearer token", o.CredentialsEnv)
		}
	default:
		return "", nil
	}
	if text = strings.TrimSpace(text); text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return "", errors.New("the credentials are not one line: write USER:PASSWORD, or a bearer token")
	}
	return text, nil
}

// readSecret reads a small file.
func readSecret(folder, file string) (string, error) {
	from, err := os.Open(within(folder, file))
	if err != nil {
		return "", fmt.Errorf("%w: the path is relative to the folder of subject.yaml", err)
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, maxSecret))
	return string(text), err
}

// checkRegistry holds a registry of the user's own against what can be told before a run.
func (c *checker) checkRegistry(s *SubjectFile, folder string) {
	const at = "/input/registry"
	own := s.Input.Registry
	if own == nil || !c.allSound(at) {
		return
	}
	address, err := url.Parse(own.URL)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "":
		c.at(at+"/url", "this is not the address of a registry, such as https://registry.example.com:8081")
	case address.User != nil:
		c.at(at+"/url", "an address in this file has no credentials: put them into a file (credentials_file) or an "+
			"environment variable (credentials_env)")
	case address.RawQuery != "" || address.Fragment != "":
		c.at(at+"/url", "the address ends before ? and #")
	case own.CredentialsFile != "" && own.CredentialsEnv != "":
		c.at(at+"/credentials_env", "credentials_file and credentials_env exclude each other: keep one")
	case len(s.Formats()) == 0:
		c.at(at, "registry is about records with a schema: add format and schema")
	case slices.ContainsFunc(s.Formats(), (*format.Format).Apicurio):
		c.at(at, "Apicurio's ids are known for the registry of a run only: leave registry out, or write framing: confluent")
	default:
		if _, _, err := own.Access(folder, os.LookupEnv); err != nil {
			c.at(at, "%s", err)
		}
	}
}
