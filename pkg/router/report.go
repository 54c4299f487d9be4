// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeTime is what one write may take.
const writeTime = 10 * time.Second

// change is what is to be done about an object.
type change struct {
	object client.Object
	do     func(context.Context, client.Client, client.Object) error
}

func create(ctx context.Context, c client.Client, o client.Object) error { return c.Create(ctx, o) }
func update(ctx context.Context, c client.Client, o client.Object) error { return c.Update(ctx, o) }

// remove deletes the object that was seen, and no other of its name.
func remove(ctx context.Context, c client.Client, o client.Object) error {
	return c.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())})
}

func updateStatus(ctx context.Context, c client.Client, o client.Object) error {
	return c.Status().Update(ctx, o)
}

// statuses are changes of statuses.
func statuses(objects []client.Object) []change {
	changes := make([]change, len(objects))
	for i, o := range objects {
		changes[i] = change{o, updateStatus}
	}
	return changes
}

// reporter writes beside the work, which waits for no write. What it could not write it has computed anew.
type reporter struct {
	client client.Client
	again  func()
	next   chan []change // of length 1: what was not begun gives way to what is newer
}

func newReporter(c client.Client, again func()) *reporter {
	return &reporter{client: c, again: again, next: make(chan []change, 1)}
}

// report hands over what is to be written. It is for one goroutine.
func (r *reporter) report(changes []change) {
	select {
	case <-r.next:
	default:
	}
	r.next <- changes
}

func (r *reporter) run(ctx context.Context) error {
	backoff, stop := time.Second, func() bool { return true }
	defer func() { stop() }()
	for {
		var changes []change
		select {
		case changes = <-r.next:
		case <-ctx.Done():
			return nil
		}
		failed := false
		for _, c := range changes {
			if err := r.write(ctx, c); err != nil && ctx.Err() == nil {
				failed = true
				klog.FromContext(ctx).Error(err, "Writing an object, or its status", "object", klog.KObj(c.object))
			}
		}
		if !failed {
			backoff = time.Second
			continue
		}
		stop()
		stop = time.AfterFunc(backoff, r.again).Stop
		backoff = min(2*backoff, time.Minute)
	}
}

// write does one thing. If somebody was faster, the watch will tell what there is now.
func (r *reporter) write(ctx context.Context, c change) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	err := c.do(ctx, r.client, c.object)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// told is what was said of objects by events, so that it is said once as long as it is so.
type told map[types.UID]map[string]bool

// problem is an event that an object is to have.
type problem struct {
	object       client.Object
	reason, text string
}

// tell writes the events of the problems that are new.
func (t told) tell(recorder record.EventRecorder, problems []problem) {
	now := told{}
	for _, p := range problems {
		uid, text := p.object.GetUID(), p.reason+": "+p.text
		if now[uid] == nil {
			now[uid] = map[string]bool{}
		}
		if !t[uid][text] && !now[uid][text] {
			recorder.Event(p.object.(runtime.Object), corev1.EventTypeWarning, p.reason, p.text)
		}
		now[uid][text] = true
	}
	clear(t)
	maps.Copy(t, now)
}
