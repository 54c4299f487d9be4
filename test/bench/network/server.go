// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/program"
)

// The ranges of the objects. All of it is local to the namespace of a proxy.
var (
	clusterIPs  = netip.MustParsePrefix("10.96.0.0/12")
	endpointIPs = netip.MustParsePrefix("10.64.0.0/12")
	nodeIP      = netip.MustParseAddr("10.64.0.1")
)

const (
	namespace   = "default"
	nodeName    = "bench"
	nodes       = 250 // that endpoints are on, one of which is the proxy's
	servicePort = 80
	targetPort  = 8080
)

// server is an API server with a node and Services.
type server struct {
	*program.Server
	client    kubernetes.Interface
	endpoints int
	// all are the addresses of the Services that every proxy has to serve, in the order in which they were made.
	all []netip.Addr
	// last is the endpoint that was given away last.
	last netip.Addr
}

// startServer starts an API server that has a node and no Services but its own.
func (b *bench) startServer(ctx context.Context) (_ *server, err error) {
	setup := program.Setup{
		Identity: b.identity, Dir: filepath.Join(b.dir, "server"), Minik8s: b.minik8s, APIServer: b.apiserver,
		Flags: []string{"--service-cluster-ip-range=" + clusterIPs.String(), "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"},
	}
	s := &server{endpoints: b.endpoints, last: nodeIP}
	if s.Server, err = setup.Start(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.client, err = kubernetes.NewForConfig(s.Config()); err != nil {
		return nil, err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP.String()}}},
	}
	made, err := s.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a node: %w", err)
	}
	made.Status = node.Status
	if _, err := s.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("giving a node its address: %w", err)
	}
	return s, nil
}

// allReached waits until some of the Services are reached, the first and the last among them.
func (s *server) allReached(ctx context.Context, p *program.Program, r *room) error {
	const some = 20
	for i := range some {
		if err := r.reaches(ctx, s.all[i*(len(s.all)-1)/(some-1)], netip.Addr{}); err != nil {
			return errors.Join(err, p.Alive())
		}
	}
	return nil
}

// noneMissing sees that each of the Services is reached: those that were waited for prove nothing of the others.
func (s *server) noneMissing(ctx context.Context, r *room) error {
	for i, a := range s.all {
		if _, err := r.reach(ctx, a); err != nil {
			return fmt.Errorf("one of the Services, %d of %d, is not reached when others are: %w", i, len(s.all), err)
		}
	}
	return nil
}

// next is an endpoint that nobody has had.
func (s *server) next() netip.Addr {
	s.last = s.last.Next()
	return s.last
}

// fill makes Services until there are so many.
func (s *server) fill(ctx context.Context, count int) error {
	begin := len(s.all)
	s.all = append(s.all, make([]netip.Addr, count-begin)...)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := begin; i < count; i++ {
		backends := make([]netip.Addr, s.endpoints)
		for k := range backends {
			backends[k] = s.next()
		}
		g.Go(func() (err error) {
			s.all[i], err = s.add(ctx, fmt.Sprintf("service-%05d", i), backends...)
			return err
		})
	}
	return g.Wait()
}

// add makes a Service with endpoints, and returns its address.
func (s *server) add(ctx context.Context, name string, backends ...netip.Addr) (netip.Addr, error) {
	svc, err := s.client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: servicePort, TargetPort: intstr.FromInt32(targetPort)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("making Service %s: %w", name, err)
	}
	if _, err := s.client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice(name, backends...), metav1.CreateOptions{}); err != nil {
		return netip.Addr{}, fmt.Errorf("making the endpoints of %s: %w", name, err)
	}
	return netip.ParseAddr(svc.Spec.ClusterIP)
}

// change gives a Service other endpoints.
func (s *server) change(ctx context.Context, name string, backends ...netip.Addr) error {
	_, err := s.client.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(name, backends...), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("changing the endpoints of %s: %w", name, err)
	}
	return nil
}

// remove deletes a Service and its endpoints.
func (s *server) remove(ctx context.Context, name string) error {
	if err := s.client.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.client.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func slice(service string, backends ...netip.Addr) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(targetPort)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, b := range backends {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{b.String()}, NodeName: new(nodeOf(b)), Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

// nodeOf is where an endpoint runs.
func nodeOf(endpoint netip.Addr) string {
	bytes := endpoint.As4()
	if n := binary.BigEndian.Uint32(bytes[:]) % nodes; n != 0 {
		return fmt.Sprintf("%s-%d", nodeName, n)
	}
	return nodeName
}
