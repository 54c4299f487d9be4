// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package call makes the calls of workflows: HTTP, OpenAPI, gRPC and Functions. Touch it to add a protocol, a way to log in, or a limit.
package call

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

const (
	// MaxBytes is the longest answer. What a workflow works on is kept in the API, which is no place for more.
	MaxBytes = 1 << 20
	// Limit is how long a call may take if no timeout of the workflow is shorter.
	Limit = 15 * time.Minute
	// KeyHeader is the header that has the key of a call: the same when a call is repeated because it is not known whether it was made.
	KeyHeader = "Idempotency-Key"
)

// Caller makes calls.
type Caller struct {
	// Transport makes HTTP requests.
	Transport http.RoundTripper
	// Dial connects calls of gRPC; there are none without it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Function returns the URL of a Function.
	Function func(ctx context.Context, name string) (url string, err error)
}

// Do makes a call, and returns what the task that it is of comes to.
func (c *Caller) Do(ctx context.Context, a engine.Action) engine.Result {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	if !a.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, a.Deadline)
		defer stop()
	}
	output, err := c.do(ctx, a)
	if err == nil {
		return engine.Result{Output: output}
	}
	var problem *engine.Error
	switch {
	case errors.As(err, &problem):
	case errors.Is(err, context.DeadlineExceeded):
		problem = engine.NewError(engine.Timeout, "%v", err)
	default:
		problem = engine.NewError(engine.Communication, "%v", err)
	}
	return engine.Result{Error: problem}
}

func (c *Caller) do(ctx context.Context, a engine.Action) (any, error) {
	arguments, _ := a.Arguments.(map[string]any)
	if a.Kind == engine.ActionFunction {
		if c.Function == nil {
			return nil, engine.NewError(engine.Configuration, "there are no Functions here")
		}
		url, err := c.Function(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		return c.http(ctx, request{method: http.MethodPost, uri: url, body: a.Arguments, json: true, key: a.Key})
	}
	switch a.Name {
	case "http":
		r, err := newRequest(arguments, a.Input)
		if err != nil {
			return nil, err
		}
		r.key = a.Key
		return c.http(ctx, r)
	case "openapi":
		return c.openAPI(ctx, arguments, a)
	case "grpc":
		return c.grpc(ctx, arguments, a)
	}
	return nil, engine.NewError(engine.Configuration, "calls of %q are not supported", a.Name)
}

// text returns a property that is a string.
func text(object map[string]any, name string) string {
	s, _ := object[name].(string)
	return s
}

// plain writes a value as it is in a URI or a header.
func plain(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case map[string]any, []any:
		return "", engine.NewError(engine.Expression, "%v is neither text, nor a number, nor true or false", v)
	}
	return fmt.Sprint(value), nil
}
