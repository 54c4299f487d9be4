// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/program"
)

// createConnections is how many clients create pods, as many as upstream's harness has.
const createConnections = 30

// run is one workload on one control plane.
type run struct {
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	mapper    meta.RESTMapper
	templates templates
	progress  *progress
	cost      func() (time.Duration, error)

	folder, podTemplate string
	// expected counts the pods of namespaces that a barrier waits for.
	expected   map[string]int
	namespaces map[string]bool
	background sync.WaitGroup
	failed     chan error // of the first failure in the background

	measuring *measurement
	results   []result
}

// measurement began with an operation and ends with it or with another.
type measurement struct {
	name       string
	namespaces []string
	selector   map[string]string
	begin      time.Time
	before     time.Duration
}

// result is what was measured.
type result struct {
	name      string
	perSecond float64
	pods      int
	cost      time.Duration
}

// operators do what operations say, by opcode. The index is that in the case.
var operators = map[string]func(r *run, ctx context.Context, index int, o operation) error{
	"createNodes":         (*run).createNodes,
	"createNamespaces":    (*run).createNamespaces,
	"createPods":          (*run).createPods,
	"createPodSets":       (*run).createPodSets,
	"createAny":           (*run).createAny,
	"createPodGroups":     (*run).createAny,
	"updateAny":           (*run).updateAny,
	"allocResourceClaims": (*run).allocateClaims,
	"deletePods":          (*run).deletePods,
	"churn":               (*run).churn,
	"barrier":             (*run).barrier,
	"startCollectingMetrics": func(r *run, _ context.Context, _ int, o operation) error {
		return r.begin(o.Name, o.Namespaces, o.LabelSelector)
	},
	"stopCollectingMetrics": func(r *run, _ context.Context, _ int, _ operation) error { return r.end() },
	"sleep": func(_ *run, ctx context.Context, _ int, o operation) error {
		return program.Pause(ctx, o.Duration.Duration)
	},
}

// do runs all operations, one after the other. What they leave in the background ends with the last.
func (r *run) do(ctx context.Context, operations []operation) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.background.Wait()
	defer cancel()
	for i, o := range operations {
		operator, ok := operators[o.Opcode]
		if !ok {
			return fmt.Errorf("operation %d: %s is not known here", i, o.Opcode)
		}
		if err := operator(r, ctx, i, o); err != nil {
			return fmt.Errorf("operation %d, %s: %w", i, o.Opcode, err)
		}
		select {
		case err := <-r.failed:
			return err
		default:
		}
	}
	return nil
}

// beside does something while the next operations run.
func (r *run) beside(ctx context.Context, f func() error) {
	r.background.Go(func() {
		if err := f(); err != nil && ctx.Err() == nil {
			select {
			case r.failed <- err:
			default: // one is enough
			}
		}
	})
}

func (r *run) begin(name string, namespaces []string, selector map[string]string) error {
	if r.measuring != nil {
		return errors.New("something is measured already")
	}
	cost, err := r.cost()
	r.measuring = &measurement{name: name, namespaces: namespaces, selector: selector, begin: time.Now(), before: cost}
	return err
}

func (r *run) end() error {
	m := r.measuring
	if m == nil {
		return errors.New("nothing is measured")
	}
	r.measuring = nil
	cost, err := r.cost()
	if err != nil {
		return err
	}
	perSecond, pods := r.progress.throughput(m.begin, m.namespaces, m.selector)
	if pods == 0 {
		return errors.New("no pod was bound while that was measured")
	}
	r.results = append(r.results, result{m.name, perSecond, pods, cost - m.before})
	return nil
}

// path is one that a case names.
func (r *run) path(name string) string { return filepath.Join(r.folder, name) }

func (r *run) namespace(ctx context.Context, name string) error {
	if r.namespaces[name] {
		return nil
	}
	r.namespaces[name] = true
	_, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (r *run) createNamespaces(ctx context.Context, _ int, o operation) error {
	for i := range o.Count {
		n := &corev1.Namespace{}
		if o.NamespaceTemplatePath != "" {
			if err := r.templates.render(r.path(o.NamespaceTemplatePath), nil, i, o.Count, n); err != nil {
				return err
			}
		}
		n.Name = fmt.Sprintf("%s-%d", o.Prefix, i)
		r.namespaces[n.Name] = true
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func (r *run) barrier(ctx context.Context, _ int, o operation) error {
	fits := isBound
	if o.StageRequirement == "Attempted" {
		fits = isAttempted
	}
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		for n := range r.expected {
			namespaces = append(namespaces, n)
		}
	}
	for _, n := range namespaces {
		if err := r.progress.await(ctx, n, o.LabelSelector, r.expected[n], fits); err != nil {
			return err
		}
	}
	return nil
}

// resource is where objects of that kind are created. A namespace is made if it is not there.
func (r *run) resource(ctx context.Context, obj *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	kind := obj.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return r.dynamic.Resource(mapping.Resource), nil
	}
	return r.dynamic.Resource(mapping.Resource).Namespace(namespace), r.namespace(ctx, namespace)
}

func (r *run) createAny(ctx context.Context, _ int, o operation) error {
	return r.each(ctx, o, func(c dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
		_, err := c.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	})
}

func (r *run) updateAny(ctx context.Context, _ int, o operation) error {
	return r.each(ctx, o, func(c dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
		options := metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}
		if _, err := c.Update(ctx, obj, options, o.Subresources...); err != nil {
			return err
		}
		_, err := c.UpdateStatus(ctx, obj, options)
		return err
	})
}

// each renders as many objects as the operation says, so many a second if it says that.
func (r *run) each(ctx context.Context, o operation, f func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	count := o.Count
	if count == 0 && o.CountParam == "" {
		count = 1
	}
	for i := range count {
		obj := &unstructured.Unstructured{}
		if err := r.templates.render(r.path(o.TemplatePath), o.TemplateParams, i, count, &obj.Object); err != nil {
			return err
		}
		c, err := r.resource(ctx, obj, o.Namespace)
		if err != nil {
			return err
		}
		if err := f(c, obj); err != nil {
			return fmt.Errorf("%s, object %d: %w", o.TemplatePath, i, err)
		}
		if o.UpdatePerSecond > 0 {
			if err := program.Pause(ctx, time.Second/time.Duration(o.UpdatePerSecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// churn makes objects and takes them away again, or only makes them, until the workload is over.
func (r *run) churn(ctx context.Context, index int, o operation) error {
	namespace := o.Namespace
	if namespace == "" {
		namespace = fmt.Sprintf("namespace-%d", index)
	}
	every := 500 * time.Millisecond
	if o.IntervalMilliseconds != 0 {
		every = time.Duration(o.IntervalMilliseconds) * time.Millisecond
	}
	var objects []*unstructured.Unstructured
	var clients []dynamic.ResourceInterface
	for _, path := range o.TemplatePaths {
		obj := &unstructured.Unstructured{}
		if err := r.templates.render(r.path(path), nil, 0, 1, &obj.Object); err != nil {
			return err
		}
		c, err := r.resource(ctx, obj, namespace)
		if err != nil {
			return err
		}
		objects, clients = append(objects, obj), append(clients, c)
	}
	recreate := o.Mode == "recreate"
	r.beside(ctx, func() error {
		there := make([][]string, len(objects)) // names of what was made, in a ring
		for round := 0; recreate || o.Number == 0 || round < o.Number; round++ {
			if err := program.Pause(ctx, every); err != nil {
				return nil //nolint:nilerr // it ends with the workload
			}
			for i, obj := range objects {
				if recreate && len(there[i]) >= o.Number {
					// An object that is on its way may be there still; the scheduler may have taken it away, if it is a pod.
					if err := clients[i].Delete(ctx, there[i][0], metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
						return err
					}
					there[i] = there[i][1:]
					continue
				}
				made, err := clients[i].Create(ctx, obj, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				there[i] = append(there[i], made.GetName())
			}
		}
		return nil
	})
	return nil
}
