// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/activator"
	"minik8s.io/minik8s/pkg/addons/functions/internal/revision"
	"minik8s.io/minik8s/pkg/addons/functions/internal/scaler"
)

// tick is how often a function with pods is looked at.
const tick = time.Second

// maxBody is how large a request may be to a server of ours.
const maxBody = 10 << 20

// pass is one look at a function.
type pass struct {
	*Reconciler
	fn        *v1alpha1.Function
	name      types.NamespacedName
	state     *state
	now       time.Time
	revisions []revision.Revision // kept, oldest first
	latest    revision.Revision
	problem   problem // what the condition says, unless all is well
	aim       aim
	kindRetry time.Duration // how soon the kind or the Secret of a trigger is looked for again; 0 if there is none to be looked for
}

// problem is a reason and a message of the condition Ready.
type problem struct{ reason, message string }

// Reconcile brings a function about.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var fn v1alpha1.Function
	if err := r.client.Get(ctx, request.NamespacedName, &fn); err != nil || fn.DeletionTimestamp != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p := &pass{Reconciler: r, fn: fn.DeepCopy(), name: request.NamespacedName, state: r.stateOf(request.NamespacedName, &fn), now: time.Now()}
	result, err := p.run(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the cache is behind, and will bring it here again
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Bringing a function about failed; it is tried again")
		p.state.failures++
		return ctrl.Result{RequeueAfter: again(p.state.failures, p.nextTrigger())}, nil
	}
	p.state.failures = 0
	return result, nil
}

// again is how soon a function is looked at after so many passes that failed in turn: later and later, but never long after the next time
// of a trigger (0 is none), whatever it is that fails, a pod beyond a quota perhaps.
func again(failures int, trigger time.Duration) time.Duration {
	const first, last = 100 * time.Millisecond, 30 * time.Second
	after := last
	if failures < 10 {
		after = min(first<<(failures-1), last)
	}
	if trigger > 0 {
		after = min(after, max(trigger, first))
	}
	return after
}

func (p *pass) run(ctx context.Context) (ctrl.Result, error) {
	if err := p.readRevisions(ctx); err != nil {
		return ctrl.Result{}, err
	}
	known := p.makeLatest(ctx)
	served := p.serve(ctx)
	podErr := p.scale(ctx, known == nil)
	p.pull(ctx)
	collected := p.collect(ctx)
	told := p.tell(ctx)
	result := ctrl.Result{RequeueAfter: p.next()}
	return result, errors.Join(transient(known), transient(served), transient(podErr), collected, told)
}

// transient is an error that is worth a try soon, rather than the user's to mend. What a namespace that ends refuses ends with it.
func transient(err error) error {
	if errors.As(err, new(*userError)) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// userError is one that the user has to do something about; the condition says so.
type userError struct{ error }

// readRevisions reads what is kept.
func (p *pass) readRevisions(ctx context.Context) error {
	var kept corev1.ConfigMapList
	if err := p.client.List(ctx, &kept, client.InNamespace(p.fn.Namespace), client.MatchingLabels(revision.Labels(p.fn.Name, ""))); err != nil {
		return err
	}
	slices.SortFunc(kept.Items, older)
	for i := range kept.Items {
		cm := &kept.Items[i]
		if cm.DeletionTimestamp != nil || !slices.ContainsFunc(cm.OwnerReferences, revision.IsOwner(p.fn)) {
			continue
		}
		rev, err := revision.Read(cm)
		if err != nil {
			continue // somebody has put it there
		}
		p.revisions = append(p.revisions, rev)
	}
	return nil
}

// older orders revisions from the oldest to the newest. Several may be made in the second to which times of creation are kept; what they
// are kept in never changes, so that their versions have the order in which they were made.
func older(a, b corev1.ConfigMap) int {
	version, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		version = 0
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), version, cmp.Compare(a.Name, b.Name))
}

func (p *pass) kept(name string) *revision.Revision {
	i := slices.IndexFunc(p.revisions, func(r revision.Revision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &p.revisions[i]
}

// makeLatest finds the revision that the spec makes, and keeps it.
func (p *pass) makeLatest(ctx context.Context) error {
	files, err := p.files(ctx)
	if err == nil {
		p.latest, err = revision.New(&p.fn.Spec, files)
		if err != nil {
			err = &userError{err}
		}
	}
	if err != nil {
		p.problem = problem{v1alpha1.ReasonSource, err.Error()}
		return err
	}
	if p.state.generation != p.fn.Generation { // what did not load may do so now
		p.state.generation = p.fn.Generation
		delete(p.state.broken, p.latest.Name)
	}
	c := condition(p.fn)
	told := c != nil && c.Reason == v1alpha1.ReasonHandler && c.ObservedGeneration == p.fn.Generation
	if told && p.fn.Status.LatestRevision == p.latest.Name {
		p.state.broken[p.latest.Name], _, _ = strings.Cut(c.Message, serving) // another process has tried it
	}
	if p.kept(p.latest.Name) == nil {
		cm, err := p.latest.Keep(p.fn)
		if err != nil {
			return err
		}
		if err := p.client.Create(ctx, cm); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("keeping revision %s: %w", p.latest.Name, err)
		}
		p.revisions = append(p.revisions, p.latest)
	}
	return nil
}

// files are the code that the spec names.
func (p *pass) files(ctx context.Context) (map[string][]byte, error) {
	source := p.fn.Spec.Source
	switch {
	case source.Inline != "":
		return revision.Inline(p.fn.Spec.Runtime, p.fn.Spec.Handler, source.Inline), nil
	case source.ConfigMap == nil:
		return nil, nil
	}
	var cm corev1.ConfigMap
	err := p.live.Get(ctx, types.NamespacedName{Namespace: p.fn.Namespace, Name: source.ConfigMap.Name}, &cm)
	if apierrors.IsNotFound(err) {
		return nil, &userError{fmt.Errorf("there is no ConfigMap %q with the code: make it with minik8s function create, or kubectl create configmap "+
			"--from-file", source.ConfigMap.Name)}
	}
	if err != nil {
		return nil, err
	}
	files, err := revision.FromConfigMap(&cm)
	if err != nil {
		return nil, &userError{err}
	}
	return files, nil
}

// scale has as many pods as there are to be, and sends the requests to those that take them.
func (p *pass) scale(ctx context.Context, haveLatest bool) error {
	var pods corev1.PodList
	if err := p.client.List(ctx, &pods, client.InNamespace(p.fn.Namespace), client.MatchingLabels(revision.Labels(p.fn.Name, ""))); err != nil {
		return err
	}
	own := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !p.ours(&pod) })
	p.observe(p.state, own, p.now)
	p.takeFailures(p.state)
	p.prepare()
	p.takeOutcomes()
	var unknown string
	p.aim, unknown = decide(p.situation(haveLatest))
	if unknown != "" && p.problem.reason == "" {
		p.problem = problem{v1alpha1.ReasonTraffic, fmt.Sprintf("traffic names revision %q, which is not there: its share goes to the newest one that works", unknown)}
	}
	p.state.scaling = p.aim.Scaling
	p.dismiss()
	p.route()
	err := p.make(ctx)
	return errors.Join(err, p.remove(ctx))
}

func (p *pass) situation(haveLatest bool) situation {
	s := situation{
		Spec: &p.fn.Spec, Latest: p.state.ready, Ready: p.state.ready, Broken: p.state.broken, Stats: p.activator.Stats(p.name),
		Taking: map[string]int{}, Has: map[string]int{}, Scaling: p.state.scaling, Since: p.state.since, Now: p.now,
	}
	if haveLatest {
		s.Latest = p.latest.Name
	}
	if name := p.state.ready; p.state.since[name].IsZero() { // it has just been seen to work
		p.state.since[name] = p.now
	}
	for _, r := range p.revisions {
		s.Kept = append(s.Kept, r.Name)
	}
	for _, pod := range p.state.pods {
		if pod.leaving.IsZero() {
			s.Has[pod.revision]++
			if pod.ready {
				s.Taking[pod.revision]++
			}
		}
	}
	return s
}

// route tells the activator where requests go.
func (p *pass) route() {
	routes := activator.Routes{
		Concurrency: int(p.fn.Spec.Concurrency), Timeout: time.Duration(p.fn.Spec.TimeoutSeconds) * time.Second, Refusal: p.refusal(),
	}
	if p.fn.Spec.Source.Image == "" {
		routes.MaxBody = maxBody
	}
	for _, name := range slices.Sorted(maps.Keys(p.aim.Percent)) {
		rev := activator.Revision{Name: name, Percent: p.aim.Percent[name]}
		for _, pod := range p.state.pods {
			if pod.revision == name && pod.ready && pod.leaving.IsZero() {
				rev.Pods = append(rev.Pods, activator.Pod{Name: pod.name, Epoch: pod.epoch, Address: pod.address})
			}
		}
		routes.Revisions = append(routes.Revisions, rev)
	}
	p.activator.Route(p.name, routes)
}

// refusal is why no request can be answered, if that is so until the function changes.
func (p *pass) refusal() string {
	if p.state.ready != "" {
		return ""
	}
	if why := p.state.broken[p.latest.Name]; why != "" {
		return "the function's code does not load: " + why
	}
	if p.problem.reason == v1alpha1.ReasonSource {
		return p.problem.message
	}
	return ""
}

// next is when the function is to be looked at again without anything having happened; 0 is never.
func (p *pass) next() time.Duration {
	next := p.nextTrigger()
	if len(p.state.pods) > 0 || p.problem.reason == v1alpha1.ReasonConflict {
		if next == 0 || next > tick {
			next = tick
		}
	}
	for _, st := range p.activator.Stats(p.name) {
		if st.Held > 0 && next > 0 { // it may become too long
			next = min(next, scaler.HeldTooLong+10*time.Millisecond)
		}
	}
	for _, pod := range p.state.pods {
		if !pod.leaving.IsZero() && !pod.deleted { // as soon as its last request has ended
			next = min(next, 50*time.Millisecond)
		}
	}
	return next
}

// collect deletes revisions that nobody needs any more.
func (p *pass) collect(ctx context.Context) error {
	used := map[string]bool{p.state.ready: true, p.latest.Name: true}
	for name := range p.aim.Percent {
		used[name] = true
	}
	for _, pod := range p.state.pods {
		used[pod.revision] = true
	}
	names := make([]string, len(p.revisions))
	for i, r := range p.revisions {
		names[i] = r.Name
	}
	limit := 3
	if l := p.fn.Spec.RevisionHistoryLimit; l != nil {
		limit = int(*l)
	}
	var failed []error
	for _, name := range expired(names, used, limit) {
		cm := &corev1.ConfigMap{}
		cm.Namespace, cm.Name = p.fn.Namespace, p.fn.Name+"-"+name
		if err := p.client.Delete(ctx, cm); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("deleting revision %s: %w", name, err))
		}
		p.revisions = slices.DeleteFunc(p.revisions, func(r revision.Revision) bool { return r.Name == name })
		delete(p.state.broken, name)
		delete(p.state.since, name)
	}
	return errors.Join(failed...)
}
