// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// circuit is a circuit breaker before an API that somebody else serves. Once a call had no answer in time, one call at a time finds
// out whether there are answers again, and the others fail at once: an API that hangs holds up one worker, and not all autoscalers.
// Safe for concurrent use.
type circuit struct {
	mu sync.Mutex
	// late is the error of the last call if that had no answer in time; trying says that a call finds out. Guarded by mu.
	late   error
	trying bool
}

// do calls if there is hope for an answer. The call has to have a deadline of its own.
func (c *circuit) do(call func() error) (err error) {
	late, mine := c.enter()
	if late != nil && !mine {
		return fmt.Errorf("not asked again yet, as the last call had no answer in time: %w", late)
	}
	defer func() { c.leave(err, mine) }()
	return call()
}

func (c *circuit) enter() (late error, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late == nil || c.trying {
		return c.late, false
	}
	c.trying = true
	return c.late, true
}

func (c *circuit) leave(err error, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mine {
		c.trying = false
	}
	c.late = nil
	if isLate(err) {
		c.late = err
	}
}

// isLate reports whether a call ended for want of an answer, here or at the API server, which passes calls on.
func isLate(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}
