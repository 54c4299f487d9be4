// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command frontend is the guestbook's web server, its sidecar, and a few small tools, all in one image made from scratch.
// Touch it to change what the example shows.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage: guestbook COMMAND

  serve          the web page and its JSON API
  count          the sidecar: counts the lines of the access log, answers on localhost
  static DIR     serve the files in a folder
  get URL        print what a URL answers
  lookup NAME    print the addresses of a host name
  cat FILE       print a file
  toolbox        the last three, and a few more, at a prompt`

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command, rest := "", []string(nil)
	if len(args) > 0 {
		command, rest = args[0], args[1:]
	}
	switch {
	case command == "serve" && len(rest) == 0:
		return serve(ctx)
	case command == "count" && len(rest) == 0:
		return count(ctx)
	case command == "static" && len(rest) == 1:
		return listen(ctx, ":8080", http.FileServer(http.Dir(rest[0])))
	case command == "get" && len(rest) == 1:
		return get(ctx, os.Stdout, rest[0])
	case command == "lookup" && len(rest) == 1:
		return lookup(ctx, os.Stdout, rest[0])
	case command == "cat" && len(rest) == 1:
		return cat(os.Stdout, rest[0])
	case command == "toolbox" && len(rest) == 0:
		return toolbox(ctx, os.Stdin, os.Stdout)
	}
	return errors.New(usage)
}

// listen serves until ctx ends, then lets requests in flight end.
func listen(ctx context.Context, address string, h http.Handler) error {
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("listening on %s", address)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Requests may still come until every node has heard that this pod is leaving.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// env returns an environment variable or its default.
func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
