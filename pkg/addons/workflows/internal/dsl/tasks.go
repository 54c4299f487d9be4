// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// common are the properties of every task; what follows in a list of properties is the kind's own.
var common = []string{"if", "input", "output", "export", "timeout", "then", "metadata"}

// form is a kind of task: its properties, and what reads them.
type form struct {
	kind       Kind
	properties []string
	read       func(*reader, node, *Task)
}

// forms returns all kinds in the order of looking: a task with for has the property do as well.
func forms() []form {
	return []form{
		{KindCall, []string{"call", "with"}, (*reader).call},
		{KindFor, []string{"for", "while", "do"}, (*reader).forEach},
		{KindTry, []string{"try", "catch"}, (*reader).try},
		{KindDo, []string{"do"}, func(r *reader, n node, t *Task) {
			do, _ := r.child(n, "do")
			t.Do = r.list(do, t.Reference+"/do")
		}},
		{KindFork, []string{"fork"}, (*reader).fork},
		{KindEmit, []string{"emit"}, (*reader).emit},
		{KindListen, []string{"listen", "foreach"}, (*reader).listen},
		{KindRaise, []string{"raise"}, (*reader).raise},
		{KindRun, []string{"run"}, (*reader).run},
		{KindSet, []string{"set"}, (*reader).set},
		{KindSwitch, []string{"switch"}, (*reader).switchTo},
		{KindWait, []string{"wait"}, func(r *reader, n node, t *Task) { t.Wait = r.duration(n, "wait") }},
	}
}

// task reads a task, and makes it known by its reference.
func (r *reader) task(n node, name, reference string) *Task {
	t := &Task{Name: name, Reference: reference}
	r.workflow.Tasks[reference] = t
	if t.Definition = r.object(n); t.Definition == nil {
		return t
	}
	var told []string
	for _, k := range forms() {
		told = append(told, string(k.kind))
		if _, ok := r.child(n, string(k.kind)); !ok {
			continue
		}
		t.Kind = k.kind
		r.object(n, append(slices.Clone(k.properties), common...)...)
		k.read(r, n, t)
		break
	}
	if t.Kind == "" {
		r.problems = append(r.problems, field.Required(n.path, "a task has one of the properties "+strings.Join(told, ", ")))
	}
	t.If = r.expression(n, "if")
	t.Input, t.Output, t.Export = r.data(n, "input", "from"), r.data(n, "output", "as"), r.data(n, "export", "as")
	t.Timeout = r.timeout(n)
	if t.Then = r.text(n, "then", ""); t.Then != "" {
		c, _ := r.child(n, "then")
		r.later = append(r.later, func() { r.target(c, parent(reference), t.Then) })
	}
	return t
}

func (r *reader) call(n node, t *Task) {
	t.Call = &Call{Function: r.text(n, "call", "")}
	with, has := r.child(n, "with")
	if has {
		t.Call.With = r.templates(with)
	}
	function, _ := r.child(n, "call")
	needed := func(names ...string) {
		for _, name := range names {
			if !has {
				with = node{map[string]any{}, n.path.Child("with")}
			}
			r.need(with, name)
		}
	}
	switch t.Call.Function {
	case "http":
		needed("method", "endpoint")
		if has {
			r.object(with, "method", "endpoint", "headers", "body", "query", "output", "redirect")
			r.endpoint(with)
			r.oneOf(with, "output", "content", "raw", "content", "response")
			r.boolean(with, "redirect", false)
		}
	case "openapi":
		needed("document", "operationId")
		if has {
			r.object(with, "document", "operationId", "parameters", "authentication", "output", "redirect")
			r.oneOf(with, "output", "content", "raw", "content", "response")
			r.resource(with, "document")
			r.authenticationOf(with)
		}
	case "grpc":
		needed("proto", "service", "method")
		if has {
			r.object(with, "proto", "service", "method", "arguments")
			r.resource(with, "proto")
			if service, ok := r.child(with, "service"); ok {
				r.object(service, "name", "host", "port", "authentication")
				r.need(service, "name")
				r.need(service, "host")
			}
		}
	case "asyncapi", "a2a", "mcp":
		r.invalid(function, "calls of this protocol are not supported; there are http, openapi, grpc, use.functions and Functions")
	default:
		r.later = append(r.later, func() {
			if _, ok := r.workflow.Use.Functions[t.Call.Function]; !ok && !dnsLabel.MatchString(t.Call.Function) {
				r.invalid(function, "is neither in use.functions nor the name of a Function; catalogs are not supported")
			}
		})
	}
}

// endpoint reads the property endpoint: a URI, or an object with one.
func (r *reader) endpoint(n node) {
	c, ok := r.child(n, "endpoint")
	if !ok {
		return
	}
	if _, text := c.value.(string); text {
		return
	}
	r.object(c, "uri", "authentication")
	r.need(c, "uri")
	r.text(c, "uri", "")
	r.authenticationOf(c)
}

// resource reads a property that is a document from elsewhere.
func (r *reader) resource(n node, name string) {
	if c, ok := r.child(n, name); ok {
		r.object(c, "name", "endpoint")
		r.need(c, "endpoint")
		r.endpoint(c)
	}
}

// authenticationOf reads the property authentication, and checks that there is what it refers to.
func (r *reader) authenticationOf(n node) {
	c, ok := r.child(n, "authentication")
	if !ok {
		return
	}
	name, byName := c.value.(string)
	if !byName {
		if name = r.text(c, "use", ""); name == "" {
			r.authentication(c)
			return
		}
	}
	r.later = append(r.later, func() {
		if _, ok := r.workflow.Use.Authentications[name]; !ok {
			r.problems = append(r.problems, field.NotFound(c.path, name))
		}
	})
}

// authentication reads a policy with one scheme.
func (r *reader) authentication(n node) map[string]any {
	object := r.templates(n, "basic", "bearer", "oauth2", "digest", "certificate", "oidc")
	if len(object) != 1 {
		r.invalid(n, "must have one of basic, bearer, oauth2")
	}
	for _, scheme := range []string{"digest", "certificate", "oidc"} {
		if c, ok := r.child(n, scheme); ok {
			r.invalid(c, "this scheme is not supported; there are basic, bearer, oauth2")
		}
	}
	if c, ok := r.child(n, "basic"); ok {
		r.object(c, "username", "password", "use")
	}
	if c, ok := r.child(n, "bearer"); ok {
		if _, text := c.value.(string); !text {
			r.object(c, "token", "use")
		}
	}
	return object
}

func (r *reader) forEach(n node, t *Task) {
	c, _ := r.child(n, "for")
	r.object(c, "each", "in", "at")
	r.need(c, "in")
	t.For = &For{Each: r.text(c, "each", "item"), At: r.text(c, "at", "index"), In: r.expression(c, "in"), While: r.expression(n, "while")}
	if do, ok := r.need(n, "do"); ok {
		t.For.Do = r.list(do, t.Reference+"/do")
	}
}

func (r *reader) fork(n node, t *Task) {
	c, _ := r.child(n, "fork")
	r.object(c, "branches", "compete")
	t.Fork = &Fork{Compete: r.boolean(c, "compete", false)}
	branches, ok := r.need(c, "branches")
	if !ok {
		return
	}
	t.Fork.Branches = r.list(branches, t.Reference+"/fork/branches")
	list := r.workflow.Lists[t.Fork.Branches]
	if len(list) == 0 {
		r.invalid(branches, "must have a branch")
	}
	for i, branch := range list {
		if then := branch.Then; then != "" && then != Continue && then != Exit && then != End {
			r.invalid(node{then, branches.path.Index(i).Child(branch.Name, "then")}, "branches run at the same time: one cannot lead to another")
		}
	}
}

func (r *reader) try(n node, t *Task) {
	body, _ := r.child(n, "try")
	t.Try = &Try{Do: r.list(body, t.Reference+"/try"), As: "error"}
	c, ok := r.need(n, "catch")
	if !ok {
		return
	}
	r.object(c, "errors", "as", "when", "exceptWhen", "retry", "do")
	t.Try.As = r.text(c, "as", "error")
	t.Try.When, t.Try.ExceptWhen = r.expression(c, "when"), r.expression(c, "exceptWhen")
	if errors, ok := r.child(c, "errors"); ok {
		r.object(errors, "with")
		if with, ok := r.child(errors, "with"); ok {
			t.Try.With = r.templates(with, "type", "status", "instance", "title", "details", "detail")
		}
	}
	if retry, ok := r.child(c, "retry"); ok {
		if name, ok := retry.value.(string); ok {
			t.Try.Retry = &Retry{}
			r.later = append(r.later, func() {
				if known := r.workflow.Use.Retries[name]; known != nil {
					*t.Try.Retry = *known
				} else {
					r.problems = append(r.problems, field.NotFound(retry.path, name))
				}
			})
		} else {
			t.Try.Retry = r.retryObject(retry)
		}
	}
	if do, ok := r.child(c, "do"); ok {
		t.Try.Catch = r.list(do, t.Reference+"/catch/do")
	}
}

func (r *reader) retryObject(n node) *Retry {
	r.object(n, "when", "exceptWhen", "delay", "backoff", "limit", "jitter")
	retry := &Retry{When: r.expression(n, "when"), ExceptWhen: r.expression(n, "exceptWhen"), Delay: r.duration(n, "delay")}
	if c, ok := r.child(n, "backoff"); ok {
		object := r.object(c, "constant", "linear", "exponential")
		if len(object) != 1 {
			r.invalid(c, "must have one of constant, linear, exponential")
		}
		for name := range object {
			retry.Backoff = name
		}
	}
	if c, ok := r.child(n, "limit"); ok {
		r.object(c, "attempt", "duration")
		retry.Duration = r.duration(c, "duration")
		if attempt, ok := r.child(c, "attempt"); ok {
			r.object(attempt, "count", "duration")
			retry.AttemptDuration = r.duration(attempt, "duration")
			if count, ok := r.child(attempt, "count"); ok {
				n, whole := count.value.(int)
				if retry.Count = n; !whole || n < 1 {
					r.invalid(count, "must be a whole number above 0")
				}
			}
		}
	}
	if c, ok := r.child(n, "jitter"); ok {
		r.object(c, "from", "to")
		r.need(c, "from")
		r.need(c, "to")
		retry.JitterFrom, retry.JitterTo = r.duration(c, "from"), r.duration(c, "to")
	}
	return retry
}

func (r *reader) raise(n node, t *Task) {
	c, _ := r.child(n, "raise")
	r.object(c, "error")
	e, ok := r.need(c, "error")
	if !ok {
		return
	}
	if name, ok := e.value.(string); ok {
		t.Raise = map[string]any{}
		r.later = append(r.later, func() {
			known := r.workflow.Use.Errors[name]
			if known == nil {
				r.problems = append(r.problems, field.NotFound(e.path, name))
			}
			maps.Copy(t.Raise, known)
		})
		return
	}
	t.Raise = r.error(e)
}

func (r *reader) error(n node) map[string]any {
	object := r.templates(n, "type", "status", "instance", "title", "detail")
	r.need(n, "type")
	if status, ok := r.need(n, "status"); ok {
		if _, whole := status.value.(int); !whole {
			r.invalid(status, "must be a whole number")
		}
	}
	return object
}

func (r *reader) run(n node, t *Task) {
	c, _ := r.child(n, "run")
	object := r.object(c, "container", "script", "shell", "workflow", "await", "return")
	t.Run = &Run{Await: r.boolean(c, "await", true), Return: r.oneOf(c, "return", "stdout", "stdout", "stderr", "code", "all", "none")}
	found := 0
	for _, name := range []string{"container", "script", "shell", "workflow"} {
		p, ok := r.child(c, name)
		if !ok {
			continue
		}
		found++
		switch name {
		case "container":
			t.Run.Container = r.templates(p, "image", "name", "command", "ports", "volumes", "environment", "stdin", "arguments",
				"lifetime", "pullPolicy")
			r.need(p, "image")
			for _, unknown := range []string{"ports", "volumes", "stdin"} {
				if u, ok := r.child(p, unknown); ok {
					r.invalid(u, "not supported; containers get what they need by arguments and environment")
				}
			}
			r.oneOf(p, "pullPolicy", "ifNotPresent", "ifNotPresent", "always", "never")
			if t.Run.Return == "stderr" {
				r.invalid(node{"stderr", c.path.Child("return")}, "the logs of a pod do not tell stderr from stdout")
			}
		case "workflow":
			t.Run.Workflow = r.templates(p, "namespace", "name", "version", "input")
			r.need(p, "name")
		default:
			r.invalid(p, "not supported; use container with an image that has what it needs")
		}
	}
	if object != nil && found != 1 {
		r.invalid(c, "must have one of container, workflow")
	}
}

func (r *reader) set(n node, t *Task) {
	c, _ := r.child(n, "set")
	switch c.value.(type) {
	case map[string]any, string:
		t.Set = r.template(c)
	default:
		r.problems = append(r.problems, field.TypeInvalid(c.path, c.value, "must be an object, or an expression of one"))
	}
}

func (r *reader) switchTo(n node, t *Task) {
	c, _ := r.child(n, "switch")
	items, ok := c.value.([]any)
	if !ok || len(items) == 0 {
		r.invalid(c, "must be a list of cases")
		return
	}
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok || len(object) != 1 {
			r.invalid(node{item, c.path.Index(i)}, "must be an object with one property, whose name is the case's")
			continue
		}
		for name, value := range object {
			p := node{value, c.path.Index(i).Child(name)}
			r.object(p, "when", "then")
			one := Case{Name: name, When: r.expression(p, "when"), Then: r.text(p, "then", "")}
			if then, ok := r.need(p, "then"); ok {
				r.later = append(r.later, func() { r.target(then, parent(t.Reference), one.Then) })
			}
			t.Switch = append(t.Switch, one)
		}
	}
}

func (r *reader) emit(n node, t *Task) {
	c, _ := r.child(n, "emit")
	r.object(c, "event")
	event, ok := r.need(c, "event")
	if !ok {
		return
	}
	r.object(event, "with")
	if with, ok := r.need(event, "with"); ok {
		t.Emit = r.templates(with)
		r.need(with, "source")
		r.need(with, "type")
	}
}

func (r *reader) listen(n node, t *Task) {
	c, _ := r.child(n, "listen")
	r.object(c, "to", "read")
	t.Listen = &Listen{Read: r.oneOf(c, "read", "data", "data", "envelope", "raw")}
	if to, ok := r.need(c, "to"); ok {
		t.Listen.To = r.strategy(to)
	}
	if each, ok := r.child(n, "foreach"); ok {
		r.object(each, "item", "at", "do", "output", "export")
		t.Listen.Each = &Each{
			Item: r.text(each, "item", "item"), At: r.text(each, "at", "index"),
			Output: r.data(each, "output", "as"), Export: r.data(each, "export", "as"),
		}
		if do, ok := r.child(each, "do"); ok {
			t.Listen.Each.Do = r.list(do, t.Reference+"/foreach/do")
		}
	}
}

func (r *reader) strategy(n node) Strategy {
	object := r.object(n, "all", "any", "one", "until")
	var s Strategy
	found := 0
	filters := func(c node) []Filter {
		items, ok := c.value.([]any)
		if !ok {
			r.problems = append(r.problems, field.TypeInvalid(c.path, c.value, "must be a list of filters"))
		}
		out := make([]Filter, len(items))
		for i, item := range items {
			out[i] = r.filter(node{item, c.path.Index(i)})
		}
		return out
	}
	if c, ok := r.child(n, "one"); ok {
		found++
		s.All = []Filter{r.filter(c)}
	}
	if c, ok := r.child(n, "all"); ok {
		found++
		if s.All = filters(c); len(s.All) == 0 {
			r.invalid(c, "must have a filter")
		}
	}
	if c, ok := r.child(n, "any"); ok {
		found++
		s.Any = filters(c)
		s.Every = len(s.Any) == 0
	}
	if object != nil && found != 1 {
		r.invalid(n, "must have one of one, all, any")
	}
	if c, ok := r.child(n, "until"); ok && (s.Any != nil || s.Every) {
		if _, text := c.value.(string); text {
			s.Until = r.expression(n, "until")
		} else if c.value != false {
			until := r.strategy(c)
			s.UntilEvents = &until
		}
	}
	return s
}

func (r *reader) filter(n node) Filter {
	r.object(n, "with", "correlate")
	f := Filter{Correlate: map[string]Correlation{}}
	if with, ok := r.need(n, "with"); ok {
		if f.With = r.templates(with); len(f.With) == 0 {
			r.invalid(with, "must have an attribute")
		}
	}
	if c, ok := r.child(n, "correlate"); ok {
		object := r.object(c)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			one := node{object[name], c.path.Key(name)}
			r.object(one, "from", "expect")
			r.need(one, "from")
			f.Correlate[name] = Correlation{From: r.expression(one, "from"), Expect: r.text(one, "expect", "")}
			if expect, ok := r.child(one, "expect"); ok {
				if err := expression.CheckText(fmt.Sprint(expect.value)); err != nil {
					r.invalid(expect, "not a jq expression: %v", err)
				}
			}
		}
	}
	return f
}
