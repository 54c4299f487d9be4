// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const dnsService = "kube-dns"

// publishDNS makes the Service by which pods find cluster DNS. It is repeated until it succeeds.
func publishDNS(ctx context.Context, client kubernetes.Interface, clusterIP, server netip.Addr) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = errors.Join(ensureDNSService(ctx, client, clusterIP), ensureDNSSlice(ctx, client, server))
		return last == nil, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the cluster ends
	}
	if err != nil {
		return fmt.Errorf("publishing cluster DNS: %w", last)
	}
	return nil
}

func ensureDNSService(ctx context.Context, client kubernetes.Interface, ip netip.Addr) error {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: dnsService, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip.String(),
			Ports: []corev1.ServicePort{
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromInt32(53)},
				{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53, TargetPort: intstr.FromInt32(53)},
			},
		},
	}
	services := client.CoreV1().Services(metav1.NamespaceSystem)
	if _, err := services.Get(ctx, dnsService, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := services.Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func ensureDNSSlice(ctx context.Context, client kubernetes.Interface, server netip.Addr) error {
	ready, port := true, int32(53)
	udp, tcp := corev1.ProtocolUDP, corev1.ProtocolTCP
	udpName, tcpName := "dns", "dns-tcp"
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: dnsService, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{discoveryv1.LabelServiceName: dnsService, discoveryv1.LabelManagedBy: "minik8s"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{server.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &udpName, Protocol: &udp, Port: &port}, {Name: &tcpName, Protocol: &tcp, Port: &port}},
	}
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem)
	have, err := slices.Get(ctx, dnsService, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = slices.Create(ctx, want, metav1.CreateOptions{})
		return err
	}
	if err != nil || apiequality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) {
		return err
	}
	have.Endpoints, have.Ports = want.Endpoints, want.Ports
	_, err = slices.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// addLoopback gives this machine an address that is reachable from it and from its pods only.
func addLoopback(a netip.Addr) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.AddrReplace(link, host(a))
}

func removeLoopback(a netip.Addr) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.AddrDel(link, host(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

func host(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
}
