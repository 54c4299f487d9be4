// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox speaks to the servers in pods of functions: it gives them code, and asks whether they can be called. Touch it when the
// servers of package runtime learn something new.
package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Code is what a server is given.
type Code struct {
	// Revision names it: a server that has this one already is content.
	Revision string `json:"revision"`
	// Handler is MODULE.FUNCTION.
	Handler string `json:"handler"`
	// Env are variables in addition to those of the container.
	Env map[string]string `json:"env,omitempty"`
	// Files are contents by path, relative.
	Files map[string][]byte `json:"files"`
	// TimeoutSeconds is how long a request may take.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// HandlerError is that of code which does not load: it is the code's fault, and stays so.
type HandlerError struct{ Message string }

func (e *HandlerError) Error() string { return e.Message }

// attempt is how long one call may take; code that loads for longer is asked about again.
const attempt = 10 * time.Second

// client keeps no connections: there are one or two calls per pod.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // what runs in a pod sends this process nowhere
}

// Load gives a server its code, once. The error is a *HandlerError if the code does not load; another one may pass.
func Load(ctx context.Context, address, token string, code []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/.minik8s/load", bytes.NewReader(code))
	if err != nil {
		return fmt.Errorf("bringing code to %s: %w", address, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return do(req)
}

func do(req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", req.URL.Host, err)
	}
	var answer struct{ Error string }
	_ = json.Unmarshal(body, &answer) // what is no JSON says nothing more than its status
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnprocessableEntity:
		return &HandlerError{Message: answer.Error}
	}
	return fmt.Errorf("%s answers %s to %s: %s", req.URL.Host, resp.Status, req.URL.Path, answer.Error)
}

// Await tries again and again until try succeeds, says that it is the code's fault, or ctx ends: for a second every few milliseconds, for
// somebody waits, and to be refused a connection costs next to nothing; then later and later.
func Await(ctx context.Context, try func(context.Context) error) error {
	const first, last, hurry = 4 * time.Millisecond, 250 * time.Millisecond, time.Second
	begin := time.Now()
	for pause := first; ; {
		if time.Since(begin) > hurry {
			pause = min(pause*5/4, last)
		}
		err := try(ctx)
		var fault *HandlerError
		if err == nil || errors.As(err, &fault) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// Listens tells whether anything answers at an address: all that is known of a program in an image is that it listens.
func Listens(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
