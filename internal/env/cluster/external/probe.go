package external

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// stepLimit bounds connecting, the TLS handshake and each answer of a probe.
	stepLimit = 3 * time.Second
	// largestAnswer is far above the size of any cluster's metadata. A larger size means that the peer is not Kafka.
	largestAnswer = 64 << 20

	metadataVersion int16 = 8 // spoken by every broker from 2.3 to 4.x, and not yet flexible
)

// probe is a connection to one broker that performs every step separately, so that a failure can be named. A client
// library reports many failures only as a closed connection.
type probe struct {
	config  Config
	address string
	conn    net.Conn
	from    *bufio.Reader
	asked   int32
}

// reach connects to a broker and authenticates. The caller must close the probe.
func (c Config) reach(ctx context.Context, address string) (_ *probe, err error) {
	p := &probe{config: c, address: address}
	if err := p.dial(ctx); err != nil {
		return nil, err
	}
	defer p.closeWith(ctx)()
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := p.secure(ctx); err != nil {
		return nil, err
	}
	if err := p.versions(ctx); err != nil {
		return nil, err
	}
	return p, p.authenticate(ctx)
}

func (p *probe) close() { _ = p.conn.Close() }

// closeWith closes the connection when the context ends, until stop is called.
func (p *probe) closeWith(ctx context.Context) (stop func() bool) {
	conn := p.conn // the connection below TLS, if there will be any
	return context.AfterFunc(ctx, func() { _ = conn.Close() })
}

func (p *probe) dial(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: stepLimit}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrUnreachable, dialTrouble(p.address, err))
	}
	p.conn, p.from = conn, bufio.NewReader(conn)
	return nil
}

func dialTrouble(address string, err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("no host has the name %s: is it right, and known to this machine's DNS?", dns.Name)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("%s does not answer: is a firewall or VPN between?", address)
	case errors.Is(err, context.Canceled):
		return "the attempt was broken off"
	case strings.Contains(err.Error(), "refused"):
		return fmt.Sprintf("%s refuses connections: is a broker running there, on that port?", address)
	}
	return fmt.Sprintf("connecting to %s: %v", address, err)
}

// secure performs the TLS handshake.
func (p *probe) secure(ctx context.Context) error {
	host, _, _ := net.SplitHostPort(p.address) // was checked
	config, err := p.config.TLS.config(host)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if config == nil {
		return nil
	}
	secured := tls.Client(p.conn, config)
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := secured.HandshakeContext(limited); err != nil {
		return p.handshakeTrouble(ctx, err, config.ServerName)
	}
	p.conn, p.from = secured, bufio.NewReader(secured)
	return nil
}

func (p *probe) handshakeTrouble(ctx context.Context, err error, host string) error {
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &verification):
		return fmt.Errorf("the certificate of the broker at %s: %w", p.address, explainTLS(err, host))
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"):
		return p.alertTrouble(err)
	case p.config.speaksPlain(ctx, p.address):
		return fmt.Errorf("%w: the broker at %s speaks Kafka without TLS on this port, but security.protocol is %s: use "+
			"the TLS listener's port, or set security.protocol to %s",
			ErrProtocol, p.address, p.config.protocol(),
			strings.ReplaceAll(strings.ReplaceAll(p.config.protocol(), "SASL_SSL", "SASL_PLAINTEXT"), "SSL", "PLAINTEXT"))
	}
	return fmt.Errorf("%w: no TLS handshake with %s (%w): is this the port of a TLS listener?", ErrProtocol,
		p.address, err)
}

// alertTrouble explains that the broker aborted the handshake, nearly always because of the client's certificate.
func (p *probe) alertTrouble(err error) error {
	if p.config.TLS.Certificate == "" {
		return fmt.Errorf("%w: the broker at %s broke the TLS handshake off (%w): it may want a certificate of its "+
			"clients; set ssl.certificate.location and ssl.key.location",
			ErrCertificate, p.address, err)
	}
	return fmt.Errorf("%w: the broker at %s does not accept dlqbench's own certificate (%w): is it signed by an "+
		"authority that the cluster trusts, and not expired?",
		ErrCertificate, p.address, err)
}

// speaksPlain reports whether a port answers Kafka's requests without TLS.
func (c Config) speaksPlain(ctx context.Context, address string) bool {
	c.TLS = TLS{}
	p := &probe{config: c, address: address}
	if p.dial(ctx) != nil {
		return false
	}
	defer p.close()
	return p.ask(kmsg.NewPtrApiVersionsRequest(), new(kmsg.ApiVersionsResponse)) == nil
}

// speaksTLS reports whether a port answers a TLS handshake. Nothing is sent over the connection, so the owner of the
// certificate does not matter.
func speaksTLS(ctx context.Context, address string) bool {
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	answered := false
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error {
		answered = true
		return errors.New("that was all")
	}}}
	conn, err := dialer.DialContext(limited, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return answered
}

// versions asks for the broker's API versions, which a broker answers before any authentication. This first answer
// shows whether the server is a Kafka broker.
func (p *probe) versions(ctx context.Context) error {
	err := p.ask(kmsg.NewPtrApiVersionsRequest(), new(kmsg.ApiVersionsResponse))
	if err == nil {
		return nil
	}
	if p.config.TLS.Enabled {
		// With TLS 1.3, the client learns that the broker refuses its certificate only after the handshake.
		if strings.Contains(err.Error(), "remote error: tls:") {
			return p.alertTrouble(err)
		}
		return fmt.Errorf("%w: %s answers a TLS handshake but not Kafka's first request (%w): is this the port of a broker?",
			ErrProtocol, p.address, err)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() { // a TLS listener aborts at the first bytes that are not TLS
		return fmt.Errorf("%w: %s accepts connections, but does not answer within %s: is it a broker, and is it well?",
			ErrUnreachable, p.address, stepLimit)
	}
	if speaksTLS(ctx, p.address) {
		return fmt.Errorf("%w: %s speaks TLS, but security.protocol is %s: set it to %s", ErrProtocol, p.address,
			p.config.protocol(), strings.Replace(p.config.protocol(), "PLAINTEXT", "SSL", 1))
	}
	return fmt.Errorf("%w: %s does not answer Kafka's first request (%w): is this the port of a broker?", ErrProtocol,
		p.address, err)
}

// ask sends a request and reads its answer.
func (p *probe) ask(request kmsg.Request, response kmsg.Response) error {
	p.asked++
	if err := p.conn.SetDeadline(time.Now().Add(stepLimit)); err != nil {
		return err
	}
	response.SetVersion(request.GetVersion())
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("dlqbench"))
	if _, err := p.conn.Write(formatter.AppendRequest(nil, request, p.asked)); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.from, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > largestAnswer {
		return errors.New("the answer is not Kafka's")
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(p.from, payload); err != nil {
		return err
	}
	if int32(binary.BigEndian.Uint32(payload)) != p.asked {
		return errors.New("the answer is not Kafka's")
	}
	return response.ReadFrom(payload[4:])
}

// metadata asks for the cluster's brokers.
func (p *probe) metadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	request, response := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	request.SetVersion(metadataVersion)
	request.Topics, request.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{}, false // none, not all
	err := p.ask(request, response)
	switch {
	case err == nil:
		return response, nil
	case p.config.SASL.Mechanism == "":
		if offered := p.config.offered(ctx, p.address); len(offered) > 0 {
			return nil, fmt.Errorf("%w: the broker at %s requires authentication, and security.protocol is %s: set it to "+
				"SASL_%s, and sasl.mechanism to one that it offers (%s)",
				ErrAuthentication, p.address, p.config.protocol(), p.config.protocol(), strings.Join(offered, ", "))
		}
	}
	return nil, fmt.Errorf("%w: %s does not say which brokers the cluster has (%w)", ErrUnreachable, p.address, err)
}

// offered returns the SASL mechanisms that a listener accepts, by requesting one that does not exist.
func (c Config) offered(ctx context.Context, address string) []string {
	c.SASL = SASL{}
	p, err := c.reach(ctx, address)
	if err != nil {
		return nil
	}
	defer p.close()
	request, response := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeResponse()
	request.SetVersion(1)
	request.Mechanism = "NONE"
	if p.ask(request, response) != nil || response.ErrorCode != kerr.UnsupportedSaslMechanism.Code {
		return nil
	}
	return response.SupportedMechanisms
}

func codeName(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		return err.Error()
	}
	return fmt.Sprint(code)
}
