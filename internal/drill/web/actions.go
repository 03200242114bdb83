package web

// This file handles people's actions: a POST to do/ACTION with an order as JSON, from the page's script or from curl,
// or as a plain form if there is no script.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/internal/drill"
)

const (
	// actLimit is the time that the session may take for an action. The action continues when the browser disconnects.
	actLimit = 110 * time.Second
	// nameLimit and textLimit are the maximum lengths of a person's name and text, in characters.
	nameLimit, textLimit = 60, 2000
)

// order is what was asked for.
type order struct {
	drill.Action
	// By is the person's name.
	By string `json:"by"`
	// plain means that the order came from a form, which expects a page in return.
	plain bool
	key   string
}

// told is the answer: one of the two is set.
type told struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// act carries out an order if its origin is allowed.
func (s *Server) act(role drill.Role, session Session) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		order, status, err := readOrder(r)
		if err != nil {
			answer(w, order.plain, status, "", err)
			return
		}
		if err := s.guard.mayChange(role, r, order.key); err != nil {
			answer(w, order.plain, http.StatusForbidden, "", err)
			return
		}
		// Lifting faults must not stop halfway because a browser was closed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actLimit)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(actLimit + requestLimit))
		order.Name = r.PathValue("action")
		message, err := order.Do(ctx, session, drill.Actor{Name: order.By, Role: role})
		switch {
		case errors.Is(err, drill.ErrUnknownAction):
			status = http.StatusNotFound
		case errors.Is(err, drill.ErrNotAllowed):
			status = http.StatusForbidden
		case err != nil:
			status = http.StatusConflict
		}
		if err != nil && role == drill.RoleResponder {
			err = s.discreet(err)
		}
		answer(w, order.plain, status, message, err)
	}
}

// discreet returns the error text for a responder. The session words its refusals for responders. A failure may name
// the fault, so its text goes only to the log.
func (s *Server) discreet(err error) error {
	for _, known := range []error{drill.ErrNotAllowed, drill.ErrNotOpen, drill.ErrRefused, drill.ErrUnknownAction} {
		if errors.Is(err, known) {
			return err
		}
	}
	s.log.Printf("what a responder asked for failed: %v", err)
	return errors.New("this failed; the drill's terminal says why")
}

// readOrder reads the body. If it is invalid, the status says why.
func readOrder(r *http.Request) (order, int, error) {
	out := order{key: r.Header.Get(formHeader)}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/x-www-form-urlencoded" && out.key == "":
		out.plain = true
		if err := r.ParseForm(); err != nil {
			return out, http.StatusBadRequest, fmt.Errorf("reading the form: %w", err)
		}
		out.key, out.By, out.Text = r.PostForm.Get(formField), r.PostForm.Get("by"), r.PostForm.Get("text")
	case kind == "application/json":
		decoder := json.NewDecoder(r.Body)
		if err := decoder.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
			if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return out, http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", large.Limit)
			}
			return out, http.StatusBadRequest, fmt.Errorf("reading what was asked: %w", err)
		}
	case r.ContentLength != 0 && kind != "application/x-www-form-urlencoded":
		return out, http.StatusUnsupportedMediaType, fmt.Errorf("the body is %q, not application/json: %w", kind,
			errors.Join(err))
	}
	if utf8.RuneCountInString(out.By) > nameLimit || utf8.RuneCountInString(out.Text) > textLimit {
		return out, http.StatusBadRequest, fmt.Errorf("a name has at most %d characters, a note %d", nameLimit, textLimit)
	}
	out.By, out.Text = strings.TrimSpace(out.By), strings.TrimSpace(out.Text)
	return out, http.StatusOK, nil
}

// answer reports the result to the browser or the command line.
func answer(w http.ResponseWriter, plain bool, status int, message string, err error) {
	if plain {
		if err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Location", "../")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	out := told{Message: message}
	if err != nil {
		out = told{Error: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

// catalogue serves the faults to the roles that may inject them.
func (s *Server) catalogue(role drill.Role, session Watched) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		breakables := []drill.Breakable{}
		if role == drill.RoleInjector {
			breakables = session.Catalogue()
		}
		if err := json.NewEncoder(w).Encode(breakables); err != nil {
			s.log.Printf("writing the catalogue: %v", err)
		}
	}
}
