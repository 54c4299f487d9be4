// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"regexp"
	"runtime"
	"strings"
	"time"
)

// daemons start goroutines once per process that never end, by the function that starts them.
var daemons = []string{
	"testing.",
	"os/signal.",
	"runtime.",
	"k8s.io/klog/v2.",
	"k8s.io/apiserver/pkg/storage/value/", // keys of the encryption cache, at init
	"k8s.io/component-base/metrics",
	"k8s.io/apiserver/pkg/server/healthz.(*log)", // the health of the log, once per process
	"go.opencensus.io/",
	"k8s.io/apimachinery/pkg/util/wait.BackoffUntil", // reporting of work queues, once per process
	"sigs.k8s.io/controller-runtime/pkg/log",
	"gopkg.in/natefinch/lumberjack", // the rotation of an audit log, which the library never ends
}

var creator = regexp.MustCompile(`created by (\S+)`)

// stacks counts the goroutines by the function that started them.
type stacks map[string][]string

// snapshot takes down what runs now.
func snapshot() stacks {
	buffer := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buffer, true)
		if n < len(buffer) {
			buffer = buffer[:n]
			break
		}
		buffer = make([]byte, 2*len(buffer))
	}
	found := stacks{}
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		by := creator.FindStringSubmatch(stack)
		if by == nil || isDaemon(by[1]) {
			continue
		}
		found[by[1]] = append(found[by[1]], stack)
	}
	return found
}

func isDaemon(creator string) bool {
	for _, prefix := range daemons {
		if strings.HasPrefix(creator, prefix) {
			return true
		}
	}
	return false
}

// leaks returns the stacks of goroutines that are more than before and do not end within the time.
func (s stacks) leaks(within time.Duration) []string {
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var left []string
		for by, now := range snapshot() {
			if len(now) > len(s[by]) {
				left = append(left, now[len(s[by]):]...)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-ticker.C
	}
}
