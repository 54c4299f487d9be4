// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command pod is what the containers of the kubelet's tests on a real engine run.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// The first argument says what to do: serve (HTTP on 8080 until SIGTERM), busy (until SIGTERM),
// exit CODE, cat FILE, say FILE TEXT (and exit 3), open FILE for reading and writing (and tell the termination log the GREETING).
func main() {
	args := append(os.Args[1:], "", "", "")
	switch args[0] {
	case "serve":
		fmt.Println("serving", os.Getenv("GREETING"))
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
		go func() {
			fmt.Println(http.ListenAndServe(":8080", nil))
			os.Exit(1)
		}()
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		fmt.Println("stopping")
	case "busy":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		for {
			select {
			case <-stop:
				return
			default:
			}
		}
	case "exit":
		code, _ := strconv.Atoi(args[1])
		os.Exit(code)
	case "cat":
		data, err := os.ReadFile(args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(string(data))
	case "say":
		if err := os.WriteFile(args[1], []byte(args[2]), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(3)
	case "open":
		f, err := os.OpenFile(args[1], os.O_RDWR, 0)
		if err == nil {
			err = f.Close()
		}
		text := os.Getenv("GREETING")
		if err != nil {
			text = err.Error()
		}
		if werr := os.WriteFile("/dev/termination-log", []byte(text), 0o644); err != nil || werr != nil {
			os.Exit(1)
		}
	default:
		os.Exit(2)
	}
}
