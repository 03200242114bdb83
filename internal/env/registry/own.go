package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// Own is a registry of the user's own.
type Own struct {
	// URL is the address of Confluent's API, http or https, without credentials.
	URL string
	// Authorization is the header of that name for clients that send none, "" for none.
	Authorization string
	// Roots are the authorities that the registry's certificate may be from; nil stands for those of the system.
	Roots *x509.CertPool
}

// ownLimit bounds a request to a registry of the user's own.
const ownLimit = 15 * time.Second

// maxRegistered is the largest request that registers a schema, in bytes.
const maxRegistered = 8 << 20

// Forward serves the user's registry on loopback. Schemas that it has under their subjects keep the ids that they have.
// Others are registered under their subject, with the prefix before it unless it begins with it. Close removes these,
// and what was registered through the registry by others. An error tells what the user's registry said.
func Forward(ctx context.Context, own Own, prefix string, schemas ...Schema) (*Registry, error) {
	target, err := url.Parse(own.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the schema registry: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: own.Roots, MinVersion: tls.VersionTLS12}
	f := &forwarder{transport: authorized{transport, own.Authorization}}
	f.client, err = sr.NewClient(sr.URLs(strings.TrimSuffix(own.URL, "/")), sr.UserAgent("dlqbench"),
		sr.HTTPClient(&http.Client{Transport: f.transport, Timeout: ownLimit}))
	if err != nil {
		return nil, fmt.Errorf("reading the address of the schema registry: %w", err)
	}
	r := &Registry{own: f}
	for _, one := range schemas {
		known, err := f.find(ctx, prefix, one)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("asking the schema registry %s for the schema of %s: %w: check input.registry",
				own.URL, one.Subject, err), f.close(context.WithoutCancel(ctx)))
		}
		r.Known = append(r.Known, known)
	}
	f.proxy = &httputil.ReverseProxy{Transport: f.transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) }}
	if err := r.serve(f); err != nil {
		return nil, errors.Join(err, f.close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// authorized adds a header to requests that have none.
type authorized struct {
	http.RoundTripper
	value string
}

// RoundTrip sends a request.
func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.value != "" && request.Header.Get("Authorization") == "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", a.value)
	}
	return a.RoundTripper.RoundTrip(request)
}

// forwarder is in front of a registry of the user's own.
type forwarder struct {
	client    *sr.Client
	transport authorized
	proxy     *httputil.ReverseProxy
	mu        sync.Mutex
	added     []sr.SubjectSchema // versions to remove at the end
}

// find returns a schema as the registry knows it. One that it does not have is registered.
func (f *forwarder) find(ctx context.Context, prefix string, wanted Schema) (sr.SubjectSchema, error) {
	known, err := f.client.LookupSchema(ctx, wanted.Subject, wanted.Schema)
	if !absent(err) {
		return known, err
	}
	subject := wanted.Subject
	if !strings.HasPrefix(subject, prefix) {
		subject = prefix + "." + subject
	}
	if _, err := f.client.RegisterSchema(ctx, subject, wanted.Schema, -1, -1); err != nil {
		return sr.SubjectSchema{}, fmt.Errorf("registering it as %s: %w", subject, err)
	}
	known, err = f.client.LookupSchema(ctx, subject, wanted.Schema)
	if err == nil {
		f.added = append(f.added, known)
	}
	return known, err
}

// absent reports whether a registry does not have what it was asked for.
func absent(err error) bool {
	var answer *sr.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// ServeHTTP forwards a request. It remembers the version that a registration adds.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	subject, registers := registered(request)
	if !registers {
		f.proxy.ServeHTTP(w, request)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRegistered))
	var schema sr.Schema
	if err != nil || json.Unmarshal(body, &schema) != nil {
		http.Error(w, "this is no schema", http.StatusUnprocessableEntity)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), ownLimit)
	defer cancel()
	_, before := f.client.LookupSchema(ctx, subject, schema)
	f.proxy.ServeHTTP(w, request)
	if added, err := f.client.LookupSchema(ctx, subject, schema); err == nil && absent(before) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.added = append(f.added, added)
	}
}

// registered returns the subject under which a request registers a schema. Its name may have slashes, escaped as %2F.
func registered(request *http.Request) (subject string, registers bool) {
	parent, last := path.Split(strings.TrimSuffix(request.URL.EscapedPath(), "/"))
	parent, escaped := path.Split(strings.TrimSuffix(parent, "/"))
	subject, err := url.PathUnescape(escaped)
	registers = request.Method == http.MethodPost && last == "versions" && path.Base(parent) == "subjects"
	return subject, registers && err == nil
}

// close removes what was added, the newest first.
func (f *forwarder) close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, one := range slices.Backward(f.added) {
		soft := f.client.DeleteSchema(ctx, one.Subject, one.Version, sr.SoftDelete)
		if err := f.client.DeleteSchema(ctx, one.Subject, one.Version, sr.HardDelete); err != nil && !absent(err) {
			errs = append(errs, fmt.Errorf("removing version %d of %s from the schema registry: %w: remove it by hand",
				one.Version, one.Subject, cmp.Or(soft, err)))
		}
	}
	f.added = nil
	if transport, is := f.transport.RoundTripper.(*http.Transport); is {
		transport.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
