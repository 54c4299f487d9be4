// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// get prints what a URL answers; an answer that is not 2xx is an error.
func get(ctx context.Context, out io.Writer, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return nil
}

// lookup prints the addresses of a host name.
func lookup(ctx context.Context, out io.Writer, name string) error {
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		_, _ = fmt.Fprintln(out, a)
	}
	return nil
}

// cat prints a file, which may have no end.
func cat(out io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}

const toolboxHelp = `get URL, lookup NAME, cat FILE, ls DIR, env, id, tty, exit`

// toolbox reads commands from a prompt: an image made from scratch has no shell to look around with.
func toolbox(ctx context.Context, in io.Reader, out io.Writer) error {
	_, _ = fmt.Fprintln(out, toolboxHelp)
	lines := bufio.NewScanner(in)
	for {
		_, _ = fmt.Fprint(out, "guestbook> ")
		if !lines.Scan() {
			return lines.Err()
		}
		command, argument, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if command == "exit" {
			return nil
		}
		if err := tool(ctx, out, command, strings.TrimSpace(argument)); err != nil {
			_, _ = fmt.Fprintf(out, "error: %v\n", err)
		}
	}
}

func tool(ctx context.Context, out io.Writer, command, argument string) error {
	switch command {
	case "":
		return nil
	case "get":
		return get(ctx, out, argument)
	case "lookup":
		return lookup(ctx, out, argument)
	case "cat":
		return cat(out, argument)
	case "ls":
		entries, err := os.ReadDir(argument)
		for _, e := range entries {
			_, _ = fmt.Fprintln(out, e.Name())
		}
		return err
	case "env":
		for _, e := range os.Environ() {
			_, _ = fmt.Fprintln(out, e)
		}
		return nil
	case "id":
		_, err := fmt.Fprintf(out, "uid=%d gid=%d\n", os.Getuid(), os.Getgid())
		return err
	case "tty":
		info, err := os.Stdin.Stat()
		if err == nil {
			_, err = fmt.Fprintf(out, "terminal: %t\n", info.Mode()&os.ModeCharDevice != 0)
		}
		return err
	}
	return fmt.Errorf("%q is not one of: %s", command, toolboxHelp)
}
