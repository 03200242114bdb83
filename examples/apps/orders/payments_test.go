package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

const placed = `{"type":"order-placed","order":{"id":7,"customer":"c","currency":"EUR",` +
	`"lines":[{"sku":"a","quantity":2,"cents":150},{"sku":"b","quantity":1,"cents":99}]}}`

func TestDecodeOrder(t *testing.T) {
	o, err := decodeOrder([]byte(placed))
	if err != nil {
		t.Fatal(err)
	}
	if o.ID != "7" || o.total() != 399 {
		t.Errorf("order %s of %d cents", o.ID, o.total())
	}
	for _, bad := range []string{"", "null", `{"type":"order-placed"}`, `{"type":"order-cancelled","order":{"id":7}}`,
		`{"type":"order-placed","order":{"id":"x"}}`, `{"type":"order-placed","order":{"id":7,"currency":"EUR"}}`} {
		if _, err := decodeOrder([]byte(bad)); err == nil {
			t.Errorf("%s is an order", bad)
		}
	}
}

func TestPay(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		want   refusal
	}{
		"created":     {status: 201},
		"conflict":    {409, refusal{reason: "no", final: true, business: true}},
		"refused":     {422, refusal{reason: "no", final: true}},
		"too many":    {429, refusal{reason: "no", retryAfter: 2 * time.Second}},
		"unavailable": {503, refusal{reason: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"access_token":"secret"}`)
			})
			mux.HandleFunc("PUT /payments/7", func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "Bearer secret" {
					t.Errorf("authorization is %q", got)
				}
				if test.want.retryAfter > 0 {
					w.Header().Set("Retry-After", "2")
				}
				w.WriteHeader(test.status)
				io.WriteString(w, `{"detail":"no"}`)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			o, err := decodeOrder([]byte(placed))
			if err != nil {
				t.Fatal(err)
			}
			err = newPayments(server.URL).pay(o)
			var got *refusal
			switch {
			case test.status == 201:
				if err != nil {
					t.Error(err)
				}
			case !errors.As(err, &got) || *got != test.want:
				t.Errorf("pay returns %v, want %+v", err, test.want)
			}
		})
	}
}
