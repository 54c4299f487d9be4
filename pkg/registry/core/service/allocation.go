// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/service/ipallocator"
	"minik8s.io/minik8s/pkg/registry/core/service/portallocator"
	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
)

// releaseTimeout bounds how long giving back may take after the request is over; repair does it otherwise.
const releaseTimeout = 10 * time.Second

// allocators hand out what services need.
type allocators struct {
	families []corev1.IPFamily
	ips      *ipallocator.Allocator
	ports    *portallocator.Allocator
}

// newAllocators builds the allocators of a server. list reads all services.
func newAllocators(c registry.Config, store *ranges.Store, list func(ctx context.Context) ([]corev1.Service, error)) (*allocators, error) {
	if len(c.ServiceIPRanges) == 0 || len(c.ServiceIPRanges) > 2 {
		return nil, fmt.Errorf("one or two service IP ranges are needed, got %v", c.ServiceIPRanges)
	}
	a := &allocators{ips: ipallocator.New(c.Stores)}
	for _, prefix := range c.ServiceIPRanges {
		r, err := ipallocator.NewRange(prefix)
		if err != nil {
			return nil, err
		}
		if slices.Contains(a.families, r.Family()) {
			return nil, fmt.Errorf("the service IP ranges %v must be of different families", c.ServiceIPRanges)
		}
		a.families = append(a.families, r.Family())
	}
	a.ports = portallocator.New(c.NodePorts, store, func(ctx context.Context) ([]int32, error) {
		services, err := list(ctx)
		if err != nil {
			return nil, err
		}
		var out []int32
		for i := range services {
			for port := range nodePorts(&services[i]) {
				out = append(out, port)
			}
			if p := services[i].Spec.HealthCheckNodePort; p != 0 {
				out = append(out, p)
			}
		}
		return out, nil
	})
	return a, nil
}

// configure connects the allocators to the store.
func configure(s *registry.Store[*corev1.Service], c registry.Config) error {
	store, err := ranges.NewStore(c)
	if err != nil {
		return err
	}
	a, err := newAllocators(c, store, lister(s.Store))
	if err != nil {
		return err
	}
	destroy := s.DestroyFunc
	s.DestroyFunc = func() {
		destroy()
		store.Destroy()
	}
	s.Decorator = hideUnused
	s.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		svc := obj.(*corev1.Service)
		normalizeClusterIPs(svc, nil)
		return a.begin(ctx, svc, nil, dryrun.IsDryRun(options.DryRun))
	}
	s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		svc, was := obj.(*corev1.Service), old.(*corev1.Service)
		normalize(svc, was)
		return a.begin(ctx, svc, was, dryrun.IsDryRun(options.DryRun))
	}
	s.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
		if dryrun.IsDryRun(options.DryRun) {
			return
		}
		svc := obj.(*corev1.Service)
		deleteEndpoints(c.Stores, svc)
		a.releaseAll(svc)
	}
	return nil
}

// hideUnused leaves out of what clients see what has no meaning, but is stored, as ever.
func hideUnused(obj runtime.Object) {
	hide := func(s *corev1.Service) {
		if s.Spec.Type == corev1.ServiceTypeExternalName {
			s.Spec.InternalTrafficPolicy = nil
		}
	}
	switch o := obj.(type) {
	case *corev1.Service:
		hide(o)
	case *corev1.ServiceList:
		for i := range o.Items {
			hide(&o.Items[i])
		}
	}
}

// lister reads all services, from etcd itself: a stale answer would give an address away twice.
func lister(s *genericregistry.Store) func(ctx context.Context) ([]corev1.Service, error) {
	return func(ctx context.Context) ([]corev1.Service, error) {
		ctx = genericapirequest.WithNamespace(ctx, metav1.NamespaceAll)
		list, err := s.List(ctx, &internalversion.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		return list.(*corev1.ServiceList).Items, nil
	}
}

// begin takes what the service needs and returns what is to be done at the end of the write: if it succeeded, what is
// no longer needed is released, else what was taken.
func (a *allocators) begin(ctx context.Context, s, old *corev1.Service, dryRun bool) (genericregistry.FinishFunc, error) {
	if errs := defaultFamilies(s, old, a.families); len(errs) > 0 {
		return nil, invalid(s, errs...)
	}
	t := &transaction{allocators: a, dryRun: dryRun}
	if err := t.take(ctx, s, old); err != nil {
		t.finish(ctx, false)
		return nil, err
	}
	return t.finish, nil
}

// releaseAll frees everything that a deleted service held.
func (a *allocators) releaseAll(s *corev1.Service) {
	t := &transaction{allocators: a}
	gone := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}
	t.oldIPs = planIPs(gone, s).release
	t.oldPorts = planPorts(gone, s).release
	if s.Spec.HealthCheckNodePort != 0 {
		t.oldPorts = append(t.oldPorts, s.Spec.HealthCheckNodePort)
	}
	t.finish(context.Background(), true)
}

// transaction is what one write takes and will release.
type transaction struct {
	*allocators
	dryRun             bool
	newIPs, oldIPs     []string
	newPorts, oldPorts []int32
}

func (t *transaction) take(ctx context.Context, s, old *corev1.Service) error {
	if err := t.takeIPs(ctx, s, old); err != nil {
		return err
	}
	if err := t.takePorts(ctx, s, old); err != nil {
		return err
	}
	return t.takeHealthCheckPort(ctx, s, old)
}

func (t *transaction) takeIPs(ctx context.Context, s, old *corev1.Service) error {
	p := planIPs(s, old)
	t.oldIPs = p.release
	if len(p.families) == 0 {
		return nil
	}
	ips := make([]string, len(p.families))
	for i, family := range p.families {
		ips[i] = p.want[i]
		if p.keep[i] {
			continue
		}
		ip, err := t.takeIP(ctx, s, family, p.want[i])
		if err != nil {
			return err
		}
		ips[i] = ip
	}
	if len(s.Spec.ClusterIPs) > len(ips) {
		return nil // more addresses than families: validation tells
	}
	s.Spec.ClusterIPs, s.Spec.ClusterIP = ips, ips[0]
	return nil
}

func (t *transaction) takeIP(ctx context.Context, s *corev1.Service, family corev1.IPFamily, want string) (string, error) {
	if !slices.Contains(t.families, family) {
		return want, nil // validation tells
	}
	owner, at := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, field.NewPath("spec", "clusterIPs")
	if want == "" {
		ip, err := t.ips.AllocateNext(ctx, owner, family, t.dryRun)
		switch {
		case errors.Is(err, ipallocator.ErrFull):
			return "", apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
		case err != nil:
			return "", invalid(s, field.Invalid(at, s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP: %v", err)))
		}
		t.newIPs = append(t.newIPs, ip.String())
		return ip.String(), nil
	}
	ip, err := netip.ParseAddr(want)
	if err != nil {
		return want, nil //nolint:nilerr // validation tells
	}
	if err := t.ips.Allocate(ctx, owner, ip, t.dryRun); err != nil {
		return "", invalid(s, field.Invalid(at, s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", want, err)))
	}
	t.newIPs = append(t.newIPs, ip.String())
	return want, nil
}

func (t *transaction) takePorts(ctx context.Context, s, old *corev1.Service) error {
	p := planPorts(s, old)
	t.oldPorts = append(t.oldPorts, p.release...)
	// The ports that are asked for come first, so that a random one cannot be in their way.
	for i, port := range p.take {
		if port == 0 {
			continue
		}
		if err := t.ports.Allocate(ctx, port, t.dryRun); err != nil {
			return invalid(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error()))
		}
		t.newPorts = append(t.newPorts, port)
	}
	var open []int
	for i, port := range p.take {
		if port == 0 {
			open = append(open, i)
		}
	}
	ports, err := t.nextPorts(ctx, s, len(open))
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	for k, i := range open {
		s.Spec.Ports[i].NodePort = ports[k]
	}
	for i, j := range p.same {
		s.Spec.Ports[i].NodePort = s.Spec.Ports[j].NodePort
	}
	return nil
}

// nextPorts takes any n ports. A dry run remembers nothing, so the service's own are avoided.
func (t *transaction) nextPorts(ctx context.Context, s *corev1.Service, n int) ([]int32, error) {
	if n == 0 {
		return nil, nil
	}
	ports, err := t.ports.AllocateNext(ctx, n, slices.Collect(maps.Keys(nodePorts(s))), t.dryRun)
	t.newPorts = append(t.newPorts, ports...)
	return ports, err
}

func (t *transaction) takeHealthCheckPort(ctx context.Context, s, old *corev1.Service) error {
	had := int32(0)
	if old != nil && needsHealthCheck(old) {
		had = old.Spec.HealthCheckNodePort
	}
	if !needsHealthCheck(s) {
		if had != 0 {
			t.oldPorts = append(t.oldPorts, had)
		}
		return nil
	}
	switch port := s.Spec.HealthCheckNodePort; {
	case had != 0: // it may not change
	case port != 0:
		if err := t.ports.Allocate(ctx, port, t.dryRun); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}
		t.newPorts = append(t.newPorts, port)
	default:
		ports, err := t.nextPorts(ctx, s, 1)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", port, err))
		}
		s.Spec.HealthCheckNodePort = ports[0]
	}
	return nil
}

// finish implements genericregistry.FinishFunc. What cannot be given back now is found by repair.
func (t *transaction) finish(ctx context.Context, success bool) {
	ips, ports := t.newIPs, t.newPorts
	if success {
		ips, ports = t.oldIPs, t.oldPorts
	}
	if t.dryRun || len(ips)+len(ports) == 0 {
		return
	}
	// The client may be gone; what it had is still to be given back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	var errs []error
	for _, text := range ips {
		if ip, err := netip.ParseAddr(text); err == nil {
			errs = append(errs, t.ips.Release(ctx, ip))
		}
	}
	for _, port := range ports {
		errs = append(errs, t.ports.Release(ctx, port))
	}
	if err := errors.Join(errs...); err != nil {
		klog.FromContext(ctx).Error(err, "Releasing what a service held failed, repair will do it", "ips", ips, "ports", ports)
	}
}

// deleteEndpoints keeps a new service of the same name from inheriting the old one's endpoints.
func deleteEndpoints(stores *registry.Stores, s *corev1.Service) {
	endpoints, err := stores.Get(schema.GroupResource{Resource: "endpoints"})
	if err != nil {
		return // not served
	}
	ctx, cancel := context.WithTimeout(genericapirequest.WithNamespace(context.Background(), s.Namespace), releaseTimeout)
	defer cancel()
	_, _, err = endpoints.Delete(ctx, s.Name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Deleting the endpoints of a deleted service failed", "service", klog.KObj(s))
	}
}

func invalid(s *corev1.Service, errs ...*field.Error) error {
	return apierrors.NewInvalid(Kind, s.Name, errs)
}

// Kind is that of services.
var Kind = schema.GroupKind{Kind: "Service"}
