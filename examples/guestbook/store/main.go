// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command store keeps the guestbook's messages: one leader takes writes and appends them to a file, followers copy them
// over HTTP and answer reads. Touch it to change how the example replicates.
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

const usage = `usage: store leader | store follower

environment:
  STORE_FILE     where a leader keeps its messages (default /data/messages)
  STORE_TOKEN    what writers must send as bearer token; the leader requires it
  STORE_LEADER   where a follower finds the leader (default http://store-leader)`

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
	if len(args) != 1 {
		return errors.New(usage)
	}
	switch args[0] {
	case "leader":
		token := os.Getenv("STORE_TOKEN")
		if token == "" {
			return errors.New("STORE_TOKEN must be set")
		}
		messages, err := openJournal(env("STORE_FILE", "/data/messages"))
		if err != nil {
			return err
		}
		defer messages.close()
		return listen(ctx, (&server{messages: messages, token: token}).routes())
	case "follower":
		messages := newJournal()
		go follow(ctx, env("STORE_LEADER", "http://store-leader"), messages)
		return listen(ctx, (&server{messages: messages}).routes())
	}
	return errors.New(usage)
}

// listen serves until ctx ends, then lets requests in flight end.
func listen(ctx context.Context, h http.Handler) error {
	const address = ":8080"
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("listening on %s", address)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close() // followers that wait for the next message
}

// env returns an environment variable or its default.
func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
