// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"syscall"
)

// Problem is an error that the user can do something about: one sentence with the cause and the remedy.
type Problem struct {
	Cause, Remedy string
	Err           error
}

// Error implements error.
func (p *Problem) Error() string { return p.Cause + ": " + p.Remedy }

// Unwrap returns what was wrong underneath.
func (p *Problem) Unwrap() error { return p.Err }

// explain turns errors of the machine that users meet into Problems.
func explain(err error, dataDir string) error {
	var p *Problem
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.Is(err, syscall.ENOSPC), strings.Contains(err.Error(), "no space left on device"):
		return &Problem{Cause: "the disk that holds " + dataDir + " is full", Remedy: "free some space, or choose another place with --data-dir", Err: err}
	case errors.Is(err, syscall.EROFS):
		return &Problem{Cause: dataDir + " is on a read-only file system", Remedy: "choose another place with --data-dir", Err: err}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &Problem{Cause: "no permission: " + err.Error(), Remedy: "run this as root or as whoever the files belong to, or choose another place with --data-dir", Err: err}
	}
	return err
}

func isProblem(err error) bool {
	var p *Problem
	return errors.As(err, &p)
}
