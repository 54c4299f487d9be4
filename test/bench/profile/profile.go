// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package profile takes profiles of API servers that are measured, to be looked at with go tool pprof. Touch it when one of another
// kind is wanted.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// Dir is the folder that profiles are written to; empty: none are taken.
type Dir string

// Run runs f, and takes a profile of the processor for its first ten seconds and one of the heap after it. The client has the rights
// of an administrator of the server at url.
func (d Dir) Run(ctx context.Context, client *http.Client, url, name string, f func() error) error {
	if d == "" {
		return f()
	}
	processor := make(chan error, 1)
	go func() { processor <- d.take(ctx, client, url, name+".cpu", "profile?seconds=10") }()
	return errors.Join(f(), <-processor, d.take(ctx, client, url, name+".heap", "heap?gc=1"))
}

func (d Dir) take(ctx context.Context, client *http.Client, url, name, of string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/debug/pprof/"+of, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("profile %s: %s", of, answer.Status)
	}
	file, err := os.Create(filepath.Join(string(d), name+".pprof"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, answer.Body)
	return err
}
