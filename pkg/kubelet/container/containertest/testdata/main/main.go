// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command main is the program of containertest's image.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"minik8s.io/minik8s/pkg/kubelet/container/containertest/program"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && strings.HasPrefix(args[0], "linux-") {
		os.Exit(linux(args))
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	signals := make(chan string)
	go func() {
		for s := range caught {
			signals <- s.String()
		}
	}()
	os.Exit(program.Run(context.Background(), program.Process{
		Args: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
		Listen: func(port int32) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) },
	}))
}

// linux are commands that look at what only a real engine has.
func linux(args []string) int {
	switch args[0] {
	case "linux-orphan":
		// The child leaves a grandchild behind that ends at once, for pid 1 to reap.
		child := exec.Command("/proc/self/exe", "linux-fork")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "linux-fork":
		if err := exec.Command("/proc/self/exe", "exit", "0").Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "linux-zombies":
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return 1
		}
		for _, e := range entries {
			if b, err := os.ReadFile("/proc/" + e.Name() + "/stat"); err == nil && strings.Contains(string(b), ") Z ") {
				fmt.Println(strings.TrimSpace(string(b)))
			}
		}
		return 0
	case "linux-cat":
		for _, name := range args[1:] {
			b, err := os.ReadFile(name)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			os.Stdout.Write(b)
		}
		return 0
	case "linux-ls":
		entries, err := os.ReadDir(args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return 0
	case "linux-eat":
		var kept [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			kept = append(kept, b)
			if len(kept) > 1<<14 {
				return 0
			}
		}
	}
	fmt.Fprintln(os.Stderr, "unknown command")
	return 2
}
