package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// order is an order as other services publish it.
type order struct {
	ID       orderID `json:"id"`
	Customer string  `json:"customer"`
	Currency string  `json:"currency"`
	Lines    []struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
		Cents    int64  `json:"cents"`
	} `json:"lines"`
}

// orderID is a UUID, or the number of an order of the old shop, which has no UUIDs.
type orderID string

var (
	uuid   = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	number = regexp.MustCompile(`^[1-9][0-9]{0,15}$`)
)

// UnmarshalJSON reads a string with a UUID, or a number.
func (id *orderID) UnmarshalJSON(data []byte) error {
	var text string
	switch err := json.Unmarshal(data, &text); {
	case err == nil && uuid.MatchString(text):
		*id = orderID(text)
	case number.Match(data):
		*id = orderID(data)
	default:
		return fmt.Errorf("%.60s is not an order's id", data)
	}
	return nil
}

// decodeOrder reads and checks an order.
func decodeOrder(value []byte) (*order, error) {
	var event struct {
		Type  string `json:"type"`
		Order *order `json:"order"`
	}
	if err := json.Unmarshal(value, &event); err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	switch o := event.Order; {
	case event.Type != "order-placed" || o == nil:
		return nil, errors.New("reading the order: this is no placed order")
	case o.ID == "":
		return nil, errors.New("reading the order: it has no id")
	case len(o.Lines) == 0 || o.Currency == "":
		return nil, fmt.Errorf("reading the order %s: it has nothing to pay", o.ID)
	}
	return event.Order, nil
}

func (o *order) total() (cents int64) {
	for _, line := range o.Lines {
		cents += int64(line.Quantity) * line.Cents
	}
	return cents
}

// payments is a client of the payments service.
type payments struct {
	http *http.Client
	url  string

	mu    sync.Mutex
	token string
}

func newPayments(url string) *payments {
	return &payments{url: url, http: &http.Client{Timeout: 500 * time.Millisecond,
		Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
}

// refusal is an answer of the payments service other than success.
type refusal struct {
	reason          string
	final, business bool
	retryAfter      time.Duration
}

func (r *refusal) Error() string { return r.reason }

// pay has the order paid. Paying an order again changes nothing, so it can be retried.
func (p *payments) pay(o *order) error {
	token, err := p.authorize()
	if err != nil {
		return fmt.Errorf("getting a token: %w", err)
	}
	body, err := json.Marshal(map[string]any{"amount": o.total(), "currency": o.Currency, "payer": o.Customer})
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPut, p.url+"/payments/"+string(o.ID), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusCreated {
		return nil
	}
	var problem struct{ Detail string }
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = response.Status
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &refusal{
		reason: problem.Detail, business: response.StatusCode == http.StatusConflict,
		final:      response.StatusCode/100 == 4 && response.StatusCode != http.StatusTooManyRequests,
		retryAfter: time.Duration(seconds) * time.Second,
	}
}

// authorize returns the token that calls need, which is asked for once.
func (p *payments) authorize() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.token != "" {
		return p.token, nil
	}
	response, err := p.http.Post(p.url+"/oauth/token", "application/x-www-form-urlencoded",
		bytes.NewBufferString("grant_type=client_credentials"))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var granted struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&granted); err != nil {
		return "", err
	}
	if granted.Token == "" {
		return "", errors.New("the answer has no access_token")
	}
	p.token = granted.Token
	return p.token, nil
}
