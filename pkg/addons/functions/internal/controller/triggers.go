// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/functions/internal/trigger"
)

const (
	// kindRetry is how soon a kind is looked for again that is not defined, or a Secret that may not be read.
	kindRetry = 10 * time.Second
	// toldEvery is how far apart it is written at least up to where a trigger has told its changes, for each is a write. A process that is
	// killed has the next one tell again what it has told since.
	toldEvery = 5 * time.Second
)

// cronState is when a trigger calls next.
type cronState struct {
	spec  v1alpha1.CronTrigger
	times cron.Schedule
	next  time.Time
}

// objectsState is a trigger that watches.
type objectsState struct {
	spec    v1alpha1.ObjectTrigger
	account string
	objects *trigger.Objects
	stop    context.CancelFunc
}

// told is up to where the changes of a trigger have been told, and when that was taken down.
type told struct {
	version string
	at      time.Time
}

// told is up to where its changes have been told. It is not kept of one that watches Functions: to it the note would be a change.
func (o *objectsState) told() string {
	if gv, err := schema.ParseGroupVersion(o.spec.APIVersion); err != nil || gv.Group == v1alpha1.GroupVersion.Group && o.spec.Kind == "Function" {
		return ""
	}
	return o.objects.Told()
}

// pull brings the function's triggers about.
func (p *pass) pull(ctx context.Context) {
	crons, objects := map[string]bool{}, map[string]bool{}
	for i := range p.fn.Spec.Triggers {
		t := &p.fn.Spec.Triggers[i]
		var err error
		switch {
		case t.Cron != nil:
			crons[t.Name] = true
			err = p.fire(t)
		case t.Objects != nil:
			objects[t.Name] = true
			err = p.watchObjects(t)
		case t.Webhook != nil:
			err = p.allowed(ctx, t)
		}
		if reason := reasonOf(err); err != nil && (p.problem.reason == "" || p.problem.reason == v1alpha1.ReasonStarting) {
			p.problem = problem{reason, fmt.Sprintf("trigger %s: %v", t.Name, err)}
		}
	}
	for name := range p.state.cron {
		if !crons[name] {
			delete(p.state.cron, name)
		}
	}
	for name, o := range p.state.objects {
		if !objects[name] {
			o.stop()
			delete(p.state.objects, name)
		}
	}
	maps.DeleteFunc(p.state.told, func(name string, _ told) bool { return !objects[name] })
	for name, o := range p.state.objects {
		if version := o.told(); version != p.state.told[name].version && p.now.Sub(p.state.told[name].at) >= toldEvery {
			p.state.told[name] = told{version, p.now}
		}
	}
}

// triggers is what the status says of them.
func (p *pass) triggers() (out []v1alpha1.TriggerStatus) {
	for i := range p.fn.Spec.Triggers {
		name := p.fn.Spec.Triggers[i].Name
		if t := p.state.told[name]; t.version != "" {
			out = append(out, v1alpha1.TriggerStatus{Name: name, Told: t.version})
		}
	}
	return out
}

// reasonOf is the condition's for what a trigger waits for.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, trigger.ErrStarting):
		return v1alpha1.ReasonStarting
	case errors.As(err, new(*forbiddenError)):
		return v1alpha1.ReasonSecret
	}
	return v1alpha1.ReasonTrigger
}

// fire calls the function if it is time.
func (p *pass) fire(t *v1alpha1.Trigger) error {
	c := p.state.cron[t.Name]
	if c == nil || c.spec != *t.Cron {
		times, err := trigger.Schedule(t.Cron)
		if err != nil {
			delete(p.state.cron, t.Name)
			return err
		}
		c = &cronState{spec: *t.Cron, times: times, next: times.Next(p.now)}
		p.state.cron[t.Name] = c
	}
	if c.next.After(p.now) {
		return nil
	}
	c.next = c.times.Next(p.now)
	go func() {
		err := p.call(p.lifetime, p.fn, http.Header{"Content-Type": {"application/json"}}, []byte(c.spec.Payload))
		if err != nil && p.lifetime.Err() == nil {
			p.triggerFailed(p.fn, t.Name, err)
		}
	}()
	return nil
}

// nextTrigger is how long it is until a trigger has to be looked at; 0 if none has.
func (p *pass) nextTrigger() time.Duration {
	next := p.kindRetry
	sooner := func(until time.Duration) {
		if until = max(until, time.Millisecond); next == 0 || until < next {
			next = until
		}
	}
	for _, c := range p.state.cron {
		sooner(time.Until(c.next))
	}
	for name, o := range p.state.objects {
		if t := p.state.told[name]; o.told() != t.version {
			sooner(time.Until(t.at.Add(toldEvery)))
		}
	}
	return next
}

// watchObjects has the objects of a trigger watched, and returns why that cannot be done.
func (p *pass) watchObjects(t *v1alpha1.Trigger) error {
	account := t.Objects.ServiceAccountName
	if account == "" {
		account = p.fn.Spec.ServiceAccountName
	}
	if account == "" {
		account = "default"
	}
	have := p.state.objects[t.Name]
	if have != nil && have.account == account && equality.Semantic.DeepEqual(have.spec, *t.Objects) {
		return have.objects.Problem()
	}
	if have != nil {
		have.stop()
		delete(p.state.objects, t.Name)
		delete(p.state.told, t.Name)
	}
	client, err := p.clientOf(t.Objects, account)
	if meta.IsNoMatchError(err) {
		p.kindRetry = kindRetry
		return fmt.Errorf("there is no kind %s of %s", t.Objects.Kind, t.Objects.APIVersion)
	}
	if err != nil {
		p.kindRetry = kindRetry
		return err
	}
	r, fn, function, name := p.Reconciler, p.fn, p.name, t.Name
	fresh := &trigger.Objects{
		Trigger: *t.Objects.DeepCopy(), Client: client, Since: p.state.told[t.Name].version,
		Tell:    func(ctx context.Context, c trigger.Change) error { return r.tellChange(ctx, function, c) },
		Dropped: func(err error) { r.triggerFailed(fn, name, err) },
		News:    func() { r.poke(function) },
	}
	ctx, stop := context.WithCancel(p.lifetime)
	p.state.objects[name] = &objectsState{spec: fresh.Trigger, account: account, objects: fresh, stop: stop}
	go fresh.Run(ctx)
	return fresh.Problem()
}

// clientOf reads objects as an account of the function's namespace, with no more rights than that has.
func (p *pass) clientOf(t *v1alpha1.ObjectTrigger, account string) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("apiVersion: %w", err)
	}
	mapping, err := p.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: t.Kind}, gv.Version)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(p.rest)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + p.fn.Namespace + ":" + account}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource).Namespace(p.fn.Namespace), nil
	}
	return client.Resource(mapping.Resource), nil
}

// tellChange calls a function with a change, as it is by then.
func (r *Reconciler) tellChange(ctx context.Context, name types.NamespacedName, c trigger.Change) error {
	var fn v1alpha1.Function
	if err := r.client.Get(ctx, name, &fn); err != nil {
		return err
	}
	header, body, err := c.Event()
	if err != nil {
		return trigger.Refused(err)
	}
	return r.call(ctx, &fn, header, body)
}

// caller calls functions: nobody else in between, and no place that a function would send it to.
var caller = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// call calls a function as anybody does.
func (r *Reconciler) call(ctx context.Context, fn *v1alpha1.Function, header http.Header, body []byte) error {
	port := r.activator.Port(types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name})
	if port == 0 {
		return errors.New("the function is not served")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(fn.Spec.TimeoutSeconds)*time.Second+time.Minute)
	defer cancel()
	url := "http://" + net.JoinHostPort(r.config.Address.String(), strconv.Itoa(port))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := caller.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return err
	}
	err = fmt.Errorf("the function answers %s: %s", resp.Status, answer)
	if resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests {
		err = trigger.Refused(err)
	}
	return err
}

func (r *Reconciler) triggerFailed(fn *v1alpha1.Function, name string, err error) {
	note := shorten(fmt.Sprintf("trigger %s: %v", name, err), maxNote)
	r.recorder.Eventf(fn, nil, corev1.EventTypeWarning, "TriggerFailed", "Call", "%s", note)
}
