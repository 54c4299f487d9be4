// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// profiled runs f, and takes a profile of the processor for its first ten seconds and one of the heap after it, if profiles
// are asked for.
func (b *bench) profiled(ctx context.Context, s *server, name string, f func() error) error {
	if b.profiles == "" {
		return f()
	}
	processor := make(chan error, 1)
	go func() { processor <- b.profile(ctx, s, name+".cpu", "profile?seconds=10") }()
	return errors.Join(f(), <-processor, b.profile(ctx, s, name+".heap", "heap?gc=1"))
}

func (b *bench) profile(ctx context.Context, s *server, name, of string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/debug/pprof/"+of, nil)
	if err != nil {
		return err
	}
	answer, err := s.HTTP().Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("profile %s: %s", of, answer.Status)
	}
	file, err := os.Create(filepath.Join(b.profiles, fmt.Sprintf("%s-%s.pprof", s.side, name)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, answer.Body)
	return err
}
