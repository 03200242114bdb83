package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/dlqbench/dlqbench/internal/security"
)

// mechanism returns franz-go's form of the mechanism, nil for no authentication.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism == "" {
		return nil, nil
	}
	secret := s.Password.Reveal()
	if s.Mechanism == MechanismOAuthBearer {
		secret = s.Token.Reveal()
	}
	return security.Mechanism(s.Mechanism, s.Username, secret)
}

// authenticate proves dlqbench's identity to the broker.
func (p *probe) authenticate(ctx context.Context) error {
	mechanism, err := p.config.SASL.mechanism()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAuthentication, err)
	}
	if mechanism == nil {
		return nil
	}
	if err := p.shakeHands(mechanism.Name()); err != nil {
		return err
	}
	session, message, err := mechanism.Authenticate(ctx, p.address)
	for err == nil {
		answer, refused := p.token(message)
		if refused != nil {
			return refused
		}
		var done bool
		if done, message, err = session.Challenge(answer); done && err == nil {
			return nil // the broker has proved that it knows the password too, if the mechanism requires that
		}
	}
	return fmt.Errorf("%w: %s with the broker at %s: %s; %s", ErrAuthentication, mechanism.Name(), p.address,
		p.config.redact(err.Error()), p.advice())
}

func (p *probe) shakeHands(mechanism string) error {
	request, response := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeResponse()
	request.SetVersion(1)
	request.Mechanism = mechanism
	if err := p.ask(request, response); err != nil {
		return fmt.Errorf("%w: the broker at %s answers no SASL handshake (%w)", ErrAuthentication, p.address, err)
	}
	switch response.ErrorCode {
	case 0:
		return nil
	case kerr.UnsupportedSaslMechanism.Code:
		return fmt.Errorf("%w: the broker at %s does not take %s; it takes %s: set sasl.mechanism", ErrAuthentication,
			p.address, mechanism, strings.Join(response.SupportedMechanisms, ", "))
	case kerr.IllegalSaslState.Code:
		return fmt.Errorf("%w: the broker at %s wants no authentication on this port, but security.protocol is %s: set it "+
			"to %s, or use the port of the SASL listener",
			ErrProtocol, p.address, p.config.protocol(), strings.TrimPrefix(p.config.protocol(), "SASL_"))
	}
	return fmt.Errorf("%w: the broker at %s answers the SASL handshake with %s", ErrAuthentication, p.address,
		codeName(response.ErrorCode))
}

// token sends one message of the mechanism and returns the broker's answer.
func (p *probe) token(message []byte) ([]byte, error) {
	request, response := kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrSASLAuthenticateResponse()
	request.SASLAuthBytes = message
	err := p.ask(request, response)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return nil, fmt.Errorf("%w: the broker at %s closed the connection when it was told %s: %s", ErrAuthentication,
			p.address, p.who(), p.advice())
	case err != nil:
		return nil, fmt.Errorf("%w: the broker at %s does not finish the authentication (%w)", ErrUnreachable, p.address, err)
	case response.ErrorCode != 0:
		said := ""
		if response.ErrorMessage != nil && *response.ErrorMessage != "" {
			said = fmt.Sprintf(" (%s)", p.config.redact(*response.ErrorMessage))
		}
		return nil, fmt.Errorf("%w: the broker at %s does not accept %s%s: %s", ErrAuthentication, p.address, p.who(), said,
			p.advice())
	}
	return response.SASLAuthBytes, nil
}

func (p *probe) who() string {
	if p.config.SASL.Mechanism == MechanismOAuthBearer {
		return "the token"
	}
	return fmt.Sprintf("user %q and its password by %s", p.config.SASL.Username, p.config.SASL.Mechanism)
}

func (p *probe) advice() string {
	if p.config.SASL.Mechanism == MechanismOAuthBearer {
		return "is it expired? Put a new one into " + EnvToken
	}
	return "check sasl.username, sasl.password (or " + EnvUsername + " and " + EnvPassword + ") and sasl.mechanism"
}
