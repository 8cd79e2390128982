// Replaces values with tokens, and turns the tokens back into values. Needs Go 1.21 or newer and
// only the standard library:
//
//	STANDIN_API_KEY=stk_... go run .
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	deadline       = 30 * time.Second
	requestTimeout = 10 * time.Second
	// Longer than any deadline. A larger number of seconds could overflow a Duration.
	maxWaitSeconds = 3600
)

// Standin calls a service. Several goroutines may use it at once.
type Standin struct {
	URL    string
	APIKey string
	HTTP   http.Client
}

// Error is an answer with an error status. Programs decide on Code; Message is for people.
type Error struct {
	Status    int
	Code      string `json:"error"`
	Message   string `json:"message"`
	RequestID string
}

func (e *Error) Error() string {
	said := fmt.Sprintf("%d %s", e.Status, e.Code)
	if e.Message != "" {
		said += ": " + e.Message
	}
	return fmt.Sprintf("%s (request id %s)", said, e.RequestID)
}

// Tokenize returns the tokens of values, in the same order.
func (s *Standin) Tokenize(ctx context.Context, values []string) ([]string, error) {
	return s.call(ctx, "tokenize", values)
}

// Detokenize returns the values of tokens, in the same order.
func (s *Standin) Detokenize(ctx context.Context, tokens []string) ([]string, error) {
	return s.call(ctx, "detokenize", tokens)
}

// A list of strings, which the service replaces under any policy. Of any other data, a policy can
// leave strings in clear.
type list struct {
	Data struct {
		Values []string `json:"values"`
	} `json:"data"`
}

// call retries limited and shed requests until ctx ends.
func (s *Standin) call(ctx context.Context, operation string, texts []string) ([]string, error) {
	var request list
	request.Data.Values = texts
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	for {
		restored, wait, err := s.send(ctx, operation, body)
		if wait == 0 {
			return restored, err
		}
		if until, ok := ctx.Deadline(); ok && time.Until(until) <= wait {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// send sends once. If it returns a time, the caller may retry after that time.
func (s *Standin) send(
	ctx context.Context, operation string, body []byte,
) ([]string, time.Duration, error) {
	url := s.URL + "/api/v1/" + operation
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+s.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.HTTP.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode == http.StatusOK {
		var answer list
		err = decoder.Decode(&answer)
		return answer.Data.Values, 0, err
	}
	failure := &Error{}
	// An answer without JSON comes from a proxy, and its status is enough.
	_ = decoder.Decode(failure)
	failure.Status = response.StatusCode
	failure.RequestID = response.Header.Get("X-Request-Id")
	return nil, retryAfter(response), failure
}

func retryAfter(response *http.Response) time.Duration {
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil || seconds < 1 {
			seconds = 1
		}
		return time.Duration(min(seconds, maxWaitSeconds)) * time.Second
	}
	return 0
}

func run() error {
	url := os.Getenv("STANDIN_URL")
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	apiKey := os.Getenv("STANDIN_API_KEY")
	if apiKey == "" {
		return fmt.Errorf("set STANDIN_API_KEY to an API key")
	}
	standin := &Standin{URL: url, APIKey: apiKey, HTTP: http.Client{Timeout: requestTimeout}}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	customer := []string{"Ann Lee", "ann@example.com", "bo@example.org"}
	tokens, err := standin.Tokenize(ctx, customer)
	if err != nil {
		return err
	}
	values, err := standin.Detokenize(ctx, tokens)
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	if err := output.Encode(tokens); err != nil {
		return err
	}
	return output.Encode(values)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}
