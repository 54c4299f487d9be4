// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package trustbundle finds the trust anchors that pods ask for by the name of a ClusterTrustBundle or by its signer; touch it to
// change which there are, or their form. See KEP-3257.
package trustbundle

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/object"
)

// Manager knows all bundles once a pod has asked for one. It is safe for concurrent use.
type Manager struct {
	bundles *object.Informer
	changed func(types.UID)

	mu   sync.Mutex
	pods map[types.UID]bool // that have asked
}

// New returns a Manager that watches nothing yet. changed is told of the pods that have asked when a bundle changes; it must not
// block.
func New(client kubernetes.Interface, changed func(types.UID)) (*Manager, error) {
	m := &Manager{
		bundles: object.NewInformer("clustertrustbundles", certificatesinformers.NewClusterTrustBundleInformer(client, 0, cache.Indexers{})),
		changed: changed, pods: map[types.UID]bool{},
	}
	_, err := m.bundles.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				m.notify()
			}
		},
		UpdateFunc: func(_, _ any) { m.notify() },
		DeleteFunc: func(any) { m.notify() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching cluster trust bundles: %w", err)
	}
	return m, nil
}

func (m *Manager) notify() {
	m.mu.Lock()
	pods := slices.Collect(maps.Keys(m.pods))
	m.mu.Unlock()
	for _, uid := range pods {
		m.changed(uid)
	}
}

// Stop ends the watch.
func (m *Manager) Stop() { m.bundles.Stop() }

// Forget drops a pod.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, pod)
}

// Get returns what the projection asks for, as PEM: each certificate once, in an order that says nothing. It is empty if there is
// nothing and that is allowed. Errors wrap plugin.ErrUnavailable if the API server did not tell.
func (m *Manager) Get(ctx context.Context, pod types.UID, p *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	m.mu.Lock()
	m.pods[pod] = true
	m.mu.Unlock()
	if err := m.bundles.Await(ctx); err != nil {
		return nil, err
	}
	if p.Name == nil {
		return Select(p, m.bundles.GetStore().List())
	}
	o, there, err := m.bundles.GetStore().GetByKey(*p.Name)
	if err != nil {
		return nil, err
	}
	if !there {
		return Select(p, nil)
	}
	return Select(p, []any{o})
}

// Select returns what a projection asks for of all bundles.
func Select(p *corev1.ClusterTrustBundleProjection, bundles []any) ([]byte, error) {
	matches, missing, err := matcher(p)
	if err != nil {
		return nil, err
	}
	anchors := map[string]bool{}
	found := false
	for _, o := range bundles {
		b, ok := o.(*certificatesv1.ClusterTrustBundle)
		if !ok || !matches(b) {
			continue
		}
		found = true
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			anchors[string(block.Bytes)] = true
		}
	}
	if !found && (p.Optional == nil || !*p.Optional) {
		return nil, missing
	}
	var text []byte
	for _, der := range slices.Sorted(maps.Keys(anchors)) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return text, nil
}

// matcher returns what says which bundles are meant, and the error if there is none.
func matcher(p *corev1.ClusterTrustBundleProjection) (matches func(*certificatesv1.ClusterTrustBundle) bool, missing, err error) {
	switch {
	case p.Name != nil:
		notFound := apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundle"), *p.Name)
		return func(b *certificatesv1.ClusterTrustBundle) bool { return b.Name == *p.Name }, fmt.Errorf("while getting ClusterTrustBundle: %w", notFound), nil
	case p.SignerName != nil:
		selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector) // of nothing if there is none
		if err != nil {
			return nil, nil, fmt.Errorf("while parsing label selector: %w", err)
		}
		missing := errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
		return func(b *certificatesv1.ClusterTrustBundle) bool {
			return b.Spec.SignerName == *p.SignerName && selector.Matches(labels.Set(b.Labels))
		}, missing, nil
	}
	return nil, nil, errors.New("either name or signerName must be set for clusterTrustBundle projection")
}
