// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package token gets service account tokens that are bound to pods and renews them in time; touch it to change when.
// See KEP-1205 and upstream's "Bound service account tokens".
package token

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// maxAge is after how long a token is renewed however long it is valid.
const maxAge = 24 * time.Hour

// Manager keeps the tokens of the pods of this node. It is safe for concurrent use.
type Manager struct {
	client kubernetes.Interface
	clock  clock.PassiveClock

	mu     sync.Mutex
	tokens map[key]issued
}

// issued is a token and when, by the clock on the wall, this node got it.
type issued struct {
	*authenticationv1.TokenRequest
	at time.Time
}

type key struct {
	pod                types.UID
	serviceAccount     string
	audience           string
	expirationSeconds  int64
	podName, namespace string
}

// New returns a Manager without tokens.
func New(client kubernetes.Interface, c clock.PassiveClock) *Manager {
	return &Manager{client: client, clock: c, tokens: map[key]issued{}}
}

// Get returns a token for what the projection asks. A token that could not be renewed is returned as long as it is
// valid. Errors wrap plugin.ErrUnavailable if the API server did not decide.
func (m *Manager) Get(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	got, err := m.Request(ctx, pod, p)
	return got.Token, err
}

// Request is Get with the time at which the token ends.
func (m *Manager) Request(
	ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection,
) (authenticationv1.TokenRequestStatus, error) {
	k := key{pod: pod.UID, serviceAccount: pod.Spec.ServiceAccountName, audience: p.Audience, podName: pod.Name, namespace: pod.Namespace}
	if k.serviceAccount == "" {
		k.serviceAccount = "default"
	}
	k.expirationSeconds = 60 * 60
	if p.ExpirationSeconds != nil {
		k.expirationSeconds = *p.ExpirationSeconds
	}
	m.mu.Lock()
	have, had := m.tokens[k]
	m.mu.Unlock()
	now := m.clock.Now().Round(0) // what is compared is what clocks on the wall say
	if had && !due(have, now) {
		return have.Status, nil
	}
	got, err := m.request(ctx, k)
	if err != nil {
		if had && now.Before(have.Status.ExpirationTimestamp.Time) {
			klog.FromContext(ctx).Error(err, "Renewing a service account token failed, keeping the old one",
				"pod", klog.KObj(pod), "serviceAccount", k.serviceAccount)
			return have.Status, nil
		}
		return authenticationv1.TokenRequestStatus{}, fmt.Errorf("failed to fetch token: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens[k] = issued{got, now}
	return got.Status, nil
}

// Forget drops the tokens of a pod.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.tokens {
		if k.pod == pod {
			delete(m.tokens, k)
		}
	}
}

func (m *Manager) request(ctx context.Context, k key) (*authenticationv1.TokenRequest, error) {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &k.expirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: k.podName, UID: k.pod},
	}}
	if k.audience != "" {
		r.Spec.Audiences = []string{k.audience}
	}
	got, err := m.client.CoreV1().ServiceAccounts(k.namespace).CreateToken(ctx, k.serviceAccount, r, metav1.CreateOptions{})
	if err != nil {
		if undecided(err) {
			return nil, fmt.Errorf("%w: %w", plugin.ErrUnavailable, err)
		}
		return nil, err
	}
	return got, nil
}

// due says whether 80 % of the token's life or maxAge have passed. A clock that was set back may have made it one of the future,
// which the API server refuses.
func due(t issued, now time.Time) bool {
	if t.Spec.ExpirationSeconds == nil {
		return true
	}
	life := time.Duration(*t.Spec.ExpirationSeconds) * time.Second
	begin := t.Status.ExpirationTimestamp.Add(-life)
	return now.After(begin.Add(life*8/10)) || now.After(begin.Add(maxAge)) || now.Before(t.at)
}

func undecided(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err)
}
