// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package program is what the containers of containertest run: compiled into an image for a real engine, called as a
// function by the fake. Touch it when the suite needs a container that does something new.
package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Process is the world of one run.
type Process struct {
	Args           []string // without the program's own name
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Signals        <-chan string
	Listen         func(port int32) (net.Listener, error)
}

// Run does what the first argument says and returns the exit code.
//
//	wait               until a signal comes, then exit 0
//	stubborn           prints "ready", then until killed, whatever signal comes
//	exit N             at once with that code
//	print              "out N" to stdout and "err N" to stderr, five times each in turn, then exit 0
//	tick               a line now and then until a signal comes
//	long N             one line of N letters, then exit 0
//	env                its environment, then exit 0
//	cat                what it reads, until the end of stdin
//	serve PORT         an echo server until a signal comes
//	write FILE TEXT    to a file, then exit 0
//	pid                print its process id, then wait as above
func Run(ctx context.Context, p Process) int {
	if len(p.Args) == 0 {
		fmt.Fprintln(p.Stderr, "no command")
		return 2
	}
	arg := func(i int) string {
		if i < len(p.Args) {
			return p.Args[i]
		}
		return ""
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(arg(i))
		return n
	}
	switch p.Args[0] {
	case "wait":
		return wait(ctx, p)
	case "stubborn":
		fmt.Fprintln(p.Stdout, "ready")
		<-ctx.Done()
		return 137
	case "exit":
		return number(1)
	case "print":
		for i := range 5 {
			fmt.Fprintf(p.Stdout, "out %d\n", i)
			// Each line with a timestamp of its own, and the order of two streams known.
			time.Sleep(5 * time.Millisecond)
			fmt.Fprintf(p.Stderr, "err %d\n", i)
			time.Sleep(5 * time.Millisecond)
		}
		return 0
	case "tick":
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			fmt.Fprintf(p.Stdout, "tick %d\n", i)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return 137
			case <-p.Signals:
				return 0
			}
		}
	case "long":
		fmt.Fprintln(p.Stdout, strings.Repeat("x", number(1)))
		return 0
	case "env":
		for _, e := range p.Env {
			fmt.Fprintln(p.Stdout, e)
		}
		return 0
	case "cat":
		if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
			return 1
		}
		fmt.Fprintln(p.Stderr, "end")
		return 0
	case "serve":
		l, err := p.Listen(int32(number(1)))
		if err != nil {
			fmt.Fprintln(p.Stderr, err)
			return 1
		}
		defer l.Close()
		fmt.Fprintln(p.Stdout, "serving")
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = io.Copy(c, c)
				}()
			}
		}()
		return wait(ctx, p)
	case "write":
		if err := os.WriteFile(arg(1), []byte(arg(2)), 0o644); err != nil {
			fmt.Fprintln(p.Stderr, err)
			return 1
		}
		return 0
	case "pid":
		fmt.Fprintln(p.Stdout, os.Getpid())
		return wait(ctx, p)
	}
	fmt.Fprintf(p.Stderr, "unknown command %q\n", p.Args[0])
	return 2
}

func wait(ctx context.Context, p Process) int {
	select {
	case <-ctx.Done():
		return 137
	case <-p.Signals:
		return 0
	}
}
