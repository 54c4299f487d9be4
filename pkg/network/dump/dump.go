// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dump reads lists of the kernel whole. One that changes while it is listed, as that of routes does where pods come and go, the
// kernel may list in part, and says so. Touch it for how often it is asked again.
package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// Attempts is how often the kernel is asked for a list that keeps changing.
const Attempts = 10

// Whole returns what list does as soon as that was not interrupted, and an error rather than a part of a list.
func Whole[T any](list func() (T, error)) (T, error) {
	var err error
	for range Attempts {
		var all T
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	var none T
	return none, err
}
