// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
)

// Bounds of invocations, of all functions together; those that wait for an answer and those that have one are counted apart.
const (
	maxInvocations      = 1000
	maxInvocationsBytes = 32 << 20
	// answerKept is how long an answer is kept.
	answerKept = 10 * time.Minute
	// writtenPerSecond is how many bytes are written in the long run: anybody may call a function, and the store keeps what is deleted
	// for some minutes. An invocation counts as what is sent and answered, and invocationBytes.
	writtenPerSecond = 2 << 20
	invocationBytes  = 4 << 10
	// unseen is how long one that was kept is waited for in the cache.
	unseen = time.Minute
)

// invocations makes requests that nobody waits for. It implements activator.Later.
type invocations struct {
	client    client.Client // reads from a cache
	live      client.Reader
	activator *activator.Activator
	lifetime  context.Context // ends with the controllers
	written   *rate.Limiter
	calls     sync.WaitGroup

	mu      sync.Mutex
	waiting map[types.NamespacedName]*invocation // those that have no answer in the cache yet; guarded by mu
	running int                                  // calls; guarded by mu
	closed  bool                                 // none begins any more; guarded by mu
}

// invocation is one that waits for its answer.
type invocation struct {
	size  int       // of its body
	since time.Time // when it was kept
	made  types.UID // of the object whose call has begun; "" before that
}

var _ activator.Later = (*invocations)(nil)

func newInvocations(lifetime context.Context, c client.Client, live client.Reader) *invocations {
	return &invocations{
		client: c, live: live, lifetime: lifetime, written: rate.NewLimiter(writtenPerSecond, maxInvocationsBytes),
		waiting: map[types.NamespacedName]*invocation{},
	}
}

func (i *invocations) watch(mgr manager.Manager, c cache.Cache) error {
	return ctrl.NewControllerManagedBy(mgr).Named("invocation").
		WatchesRawSource(source.Kind(c, &v1alpha1.Invocation{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Invocation]{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(i)
}

// Keep implements activator.Later.
func (i *invocations) Keep(ctx context.Context, function types.NamespacedName, r activator.Request) (string, error) {
	var fn v1alpha1.Function
	if err := i.client.Get(ctx, function, &fn); err != nil {
		return "", err
	}
	inv := &v1alpha1.Invocation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: function.Namespace, Name: function.Name + "-" + strings.ToLower(rand.Text()),
			Labels: revision.Labels(function.Name, ""), OwnerReferences: revision.OwnerReferences(&fn),
		},
		Spec: v1alpha1.InvocationSpec{
			Function: function.Name, Method: r.Method, Path: r.URI, Host: r.Host, Client: r.Client, Header: r.Header, Body: r.Body,
		},
	}
	name := client.ObjectKeyFromObject(inv)
	if !i.wait(name, len(r.Body)) {
		return "", activator.ErrFull
	}
	if err := i.client.Create(ctx, inv); err != nil {
		i.unkept(name)
		return "", err
	}
	return inv.Name, nil
}

// Result implements activator.Later.
func (i *invocations) Result(ctx context.Context, function types.NamespacedName, id string) (*activator.Answer, error) {
	name := types.NamespacedName{Namespace: function.Namespace, Name: id}
	i.mu.Lock()
	waits := i.waiting[name] != nil // looked at first: it waits until its answer is in the cache
	i.mu.Unlock()
	var inv v1alpha1.Invocation
	err := i.client.Get(ctx, name, &inv)
	switch {
	case apierrors.IsNotFound(err) && waits: // it has just been kept
		return nil, nil
	case apierrors.IsNotFound(err), err == nil && inv.Spec.Function != function.Name:
		return nil, activator.ErrNoResult
	case err != nil, inv.Status.CompletionTime == nil:
		return nil, err
	}
	s := inv.Status
	return &activator.Answer{Status: int(s.Code), ContentType: s.ContentType, Body: s.Body, TooLarge: s.TooLarge}, nil
}

// wait counts a request that has no answer yet, and tells whether there is room for it.
func (i *invocations) wait(name types.NamespacedName, size int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, total := time.Now(), size
	for name, w := range i.waiting {
		if w.made == "" && now.Sub(w.since) > unseen { // deleted before it was in the cache; if it is not, it counts again when it is
			delete(i.waiting, name)
			continue
		}
		total += w.size
	}
	if len(i.waiting) >= maxInvocations || total > maxInvocationsBytes || !i.written.AllowN(now, size+invocationBytes) {
		return false
	}
	i.waiting[name] = &invocation{size: size, since: now}
	return true
}

// unkept no longer counts a request that could not be kept, unless it was all the same, and is being made.
func (i *invocations) unkept(name types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if w := i.waiting[name]; w != nil && w.made == "" {
		delete(i.waiting, name)
	}
}

// forget no longer counts a request.
func (i *invocations) forget(name types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.waiting, name)
}

// close waits for all calls; lifetime has ended.
func (i *invocations) close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.calls.Wait()
}

// Reconcile makes a request that has no answer, and deletes one whose answer nobody needs any more.
func (i *invocations) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var inv v1alpha1.Invocation
	if err := i.client.Get(ctx, request.NamespacedName, &inv); err != nil {
		if client.IgnoreNotFound(err) == nil {
			i.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if inv.Status.CompletionTime == nil {
		return i.begin(ctx, &inv)
	}
	i.forget(request.NamespacedName)
	if err := i.trim(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(time.Until(inv.Status.CompletionTime.Add(answerKept)), time.Second)}, nil
}

// begin makes a request, unless it is being made.
func (i *invocations) begin(ctx context.Context, inv *v1alpha1.Invocation) (ctrl.Result, error) {
	name := client.ObjectKeyFromObject(inv)
	function := types.NamespacedName{Namespace: inv.Namespace, Name: inv.Spec.Function}
	err := i.client.Get(ctx, function, &v1alpha1.Function{})
	if apierrors.IsNotFound(err) { // the cache may have the invocation before a function that was made sooner
		err = i.live.Get(ctx, function, &v1alpha1.Function{})
	}
	unknown := apierrors.IsNotFound(err)
	if err != nil && !unknown {
		return ctrl.Result{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	w := i.waiting[name]
	if w == nil { // another process has kept it, or somebody has made the object
		w = &invocation{size: len(inv.Spec.Body), since: time.Now()}
		i.waiting[name] = w
	}
	switch {
	case w.made == inv.UID, i.closed:
		return ctrl.Result{}, nil
	case i.running >= maxInvocations, !unknown && i.activator.Port(function) == 0: // it is served soon
		return ctrl.Result{RequeueAfter: tick}, nil
	}
	w.made = inv.UID
	i.running++
	i.calls.Go(func() {
		answer := failure(http.StatusNotFound, fmt.Sprintf("there is no function %q", inv.Spec.Function))
		if !unknown {
			answer = i.call(function, inv)
		}
		gone := i.finish(inv, answer)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.running--
		if gone && i.waiting[name] == w {
			delete(i.waiting, name)
		}
	})
	return ctrl.Result{}, nil
}

// failure is an answer that is no function's.
func failure(status int, why string) activator.Answer {
	body, _ := json.Marshal(map[string]string{"error": why})
	return activator.Answer{Status: status, ContentType: "application/json", Body: body}
}

// call makes a request.
func (i *invocations) call(function types.NamespacedName, inv *v1alpha1.Invocation) activator.Answer {
	s := inv.Spec
	r := activator.Request{Method: s.Method, URI: s.Path, Host: s.Host, Client: s.Client, Header: s.Header, Body: s.Body}
	answer, served := i.activator.Call(i.lifetime, function, r)
	if !served {
		return failure(http.StatusServiceUnavailable, "the function has been deleted")
	}
	return answer
}

// tooOften is how often the API server may refuse an answer before it is thought to be because of its body.
const tooOften = 5

// finish writes an answer, for as long as it takes: the request must not be made again for the want of it. When the process ends it writes
// none, and the next one makes the request. It tells whether the invocation was deleted meanwhile.
func (i *invocations) finish(inv *v1alpha1.Invocation, answer activator.Answer) (gone bool) {
	completed := metav1.Now()
	i.written.ReserveN(completed.Time, len(answer.Body))
	refused := 0
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 10 * time.Second}
	_ = backoff.DelayFunc().Until(i.lifetime, true, false, func(ctx context.Context) (bool, error) {
		if ctx.Err() != nil { // what has ended it may have ended the call, too
			return false, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		answered := inv.DeepCopy()
		answered.Status = v1alpha1.InvocationStatus{
			CompletionTime: &completed, Code: int32(answer.Status), ContentType: answer.ContentType, Body: answer.Body, TooLarge: answer.TooLarge,
		}
		// By the version it is refused if it is for another invocation of the name.
		err := i.client.Status().Patch(ctx, answered, client.MergeFromWithOptions(inv, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) == nil {
			gone = err != nil
			return true, nil
		}
		var now v1alpha1.Invocation
		switch again := i.client.Get(ctx, client.ObjectKeyFromObject(inv), &now); {
		case apierrors.IsNotFound(again), again == nil && now.UID != inv.UID:
			gone = true
			return true, nil
		case again == nil && apierrors.IsConflict(err): // somebody else has written it
			inv = &now
			return false, nil
		}
		klog.Background().Error(err, "Keeping the answer to an invocation failed; trying again", "invocation", client.ObjectKeyFromObject(inv))
		switch apierrors.ReasonForError(err) {
		case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonInternalError:
			if refused++; refused == tooOften { // the store takes no object of this size
				answer.Body, answer.TooLarge = nil, true
			}
		}
		return false, nil
	})
	return gone
}

// trim deletes the answers that are kept no longer.
func (i *invocations) trim(ctx context.Context) error {
	var all v1alpha1.InvocationList
	if err := i.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var failed []error
	for _, inv := range unneeded(all.Items, time.Now()) {
		options := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &inv.UID}}
		err := i.client.Delete(ctx, &v1alpha1.Invocation{ObjectMeta: metav1.ObjectMeta{Namespace: inv.Namespace, Name: inv.Name}}, options)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// unneeded returns the answers that are old enough, and the oldest of those for which there is no room.
func unneeded(all []v1alpha1.Invocation, now time.Time) (delete []*v1alpha1.Invocation) {
	var answered []*v1alpha1.Invocation
	for n := range all {
		if all[n].Status.CompletionTime != nil && all[n].DeletionTimestamp == nil {
			answered = append(answered, &all[n])
		}
	}
	slices.SortStableFunc(answered, func(a, b *v1alpha1.Invocation) int {
		return b.Status.CompletionTime.Compare(a.Status.CompletionTime.Time) // the newest first
	})
	size := 0
	for n, inv := range answered {
		size += len(inv.Status.Body)
		if n >= maxInvocations || size > maxInvocationsBytes || now.Sub(inv.Status.CompletionTime.Time) >= answerKept {
			return answered[n:]
		}
	}
	return nil
}
