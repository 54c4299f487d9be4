// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
)

// count is the sidecar: it tells the container beside it, over localhost, how many lines their shared log has.
func count(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", func(rw http.ResponseWriter, _ *http.Request) {
		n, err := countLines(accessLogPath())
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(rw, n)
	})
	return listen(ctx, "localhost:9090", mux)
}

// countLines returns the number of lines in a file, 0 if it is not there yet.
func countLines(path string) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines, buffer := 0, make([]byte, 64<<10)
	for {
		n, err := f.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte("\n"))
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
