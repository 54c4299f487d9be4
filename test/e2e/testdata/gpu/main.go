// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command gpu stands in for the programs of examples/gpu where there is no GPU: it prints which device it was given, opens it, and
// takes some seconds. Touch it when TestGPU is to see something else of a container.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	fmt.Printf("device: %s\n", os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	f, err := os.OpenFile("/dev/nvidia0", os.O_RDWR, 0)
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
	<-time.After(3 * time.Second) // as long as it computes
	if err := f.Close(); err != nil {
		os.Exit(1)
	}
}
