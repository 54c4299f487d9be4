// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podcertificate gets certificates for pods by PodCertificateRequests and renews them in time; touch it to change when.
// See KEP-4317.
package podcertificate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/object"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

const (
	// patience bounds each call of the API.
	patience = 10 * time.Second
	// lag is how long a request that was made may be missing from what is watched.
	lag = 10 * time.Second
	// spread is how much later than it could be a certificate is renewed at most, so that not all are at once.
	spread = 5 * time.Minute
	// overdue is how long after it could be renewed a certificate may be old without a word.
	overdue = 10 * time.Minute
)

// Config is what a Manager is made from; all fields are required but Recorder.
type Config struct {
	Client   kubernetes.Interface
	Clock    clock.Clock
	NodeName string
	// Node is this node, nil while it is not known.
	Node func() *corev1.Node
	// Changed is told of pods whose request has changed; it must not block.
	Changed func(types.UID)
	// Recorder tells of what is refused or late.
	Recorder record.EventRecorder
}

// Manager has the certificates of this node's pods. They are kept in memory: who starts anew asks anew. It is safe for concurrent
// use, but the calls for one pod must come one after the other.
type Manager struct {
	config   Config
	requests *object.Informer

	mu     sync.Mutex // guards the fields below
	states map[key]*state
	seen   map[key]sight
}

// sight is what was last seen of the certificate of a source.
type sight struct {
	signer string
	// refused is how the signer did that, in the words of States, "" if it did not.
	refused string
	issued  *issued // nil: none was
}

// key is one source of a projected volume.
type key struct {
	pod    types.UID
	volume string
	index  int
}

// state is how far the certificate of a source is. Only its pod's calls touch it.
type state struct {
	// request is the one that is under way, nil if none is.
	request *request
	// issued is the newest certificate, nil if there is none.
	issued *issued
	// refused says why there will be none, verdict how that is told by States.
	refused error
	verdict string
	// toldOverdue and toldExpired: the event has been written.
	toldOverdue, toldExpired bool
}

type request struct {
	name string
	key  []byte
	at   time.Time
}

type issued struct {
	Credentials
	notBefore, refreshAt, notAfter time.Time
	// at is when this node got it, by the clock on the wall.
	at time.Time
}

// due says whether it is time for a newer one. A clock that was set back may have made this one of the future, which nobody takes.
func (i *issued) due(now time.Time) bool {
	wall := now.Round(0)
	return !wall.Before(i.refreshAt) || wall.Before(i.at) && wall.Before(i.notBefore)
}

// Credentials are what a pod gets, as PEM: a key in PKCS #8, and the chain of its certificate, the leaf first.
type Credentials struct{ Key, Chain []byte }

// New returns a Manager that watches nothing yet.
func New(c Config) (*Manager, error) {
	own := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", c.NodeName).String()
	}
	informer := certificatesinformers.NewFilteredPodCertificateRequestInformer(c.Client, metav1.NamespaceAll, 0, cache.Indexers{}, own)
	m := &Manager{config: c, requests: object.NewInformer("podcertificaterequests", informer), states: map[key]*state{}, seen: map[key]sight{}}
	tell := func(o any) {
		if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		if r, ok := o.(*certificatesv1.PodCertificateRequest); ok {
			c.Changed(r.Spec.PodUID)
		}
	}
	_, err := m.requests.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell})
	if err != nil {
		return nil, fmt.Errorf("watching pod certificate requests: %w", err)
	}
	return m, nil
}

// Stop ends the watch.
func (m *Manager) Stop() { m.requests.Stop() }

// Forget drops the certificates of a pod.
func (m *Manager) Forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.states {
		if k.pod == pod {
			delete(m.states, k)
			delete(m.seen, k)
		}
	}
}

// States counts the certificates of pods by their signer and state, in upstream's words.
func (m *Manager) States() map[[2]string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, out := m.config.Clock.Now(), map[[2]string]int{}
	for _, s := range m.seen {
		out[[2]string{s.signer, s.state(now)}]++
	}
	return out
}

func (s sight) state(now time.Time) string {
	switch {
	case s.refused != "":
		return s.refused
	case s.issued == nil:
		return "not_yet_issued"
	case now.After(s.issued.notAfter):
		return "expired"
	case now.After(s.issued.refreshAt.Add(overdue)):
		return "overdue_for_refresh"
	}
	return "fresh"
}

// see notes what has become of a source, unless its pod was forgotten meanwhile.
func (m *Manager) see(k key, s *state, signer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states[k] == s {
		m.seen[k] = sight{signer: signer, refused: s.verdict, issued: s.issued}
	}
}

func (m *Manager) state(k key) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[k]
	if s == nil {
		s = &state{}
		m.states[k] = s
	}
	return s
}

// Get returns the certificate of a source of one of the pod's volumes, and asks for it or a newer one if it is time to. Errors wrap
// plugin.ErrPending while the signer has not answered, and plugin.ErrUnavailable if the API server did not decide.
func (m *Manager) Get(ctx context.Context, pod *corev1.Pod, volume string, index int, p *corev1.PodCertificateProjection) (Credentials, error) {
	k := key{pod.UID, volume, index}
	s := m.state(k)
	defer m.see(k, s, p.SignerName)
	now := m.config.Clock.Now()
	err := m.look(ctx, pod, s, now)
	if s.refused != nil {
		return Credentials{}, s.refused
	}
	if err == nil && s.request == nil && (s.issued == nil || s.issued.due(now)) {
		s.request, err = m.ask(ctx, pod, p, now)
	}
	if s.issued != nil {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Renewing a pod's certificate failed, keeping the old one", "pod", klog.KObj(pod), "volume", volume)
		}
		m.warn(pod, s, now)
		return s.issued.Credentials, nil
	}
	if err == nil {
		err = fmt.Errorf("credential bundle is not issued yet: %w", plugin.ErrPending)
	}
	return Credentials{}, err
}

// look sees what has become of the request that is under way.
func (m *Manager) look(ctx context.Context, pod *corev1.Pod, s *state, now time.Time) error {
	if s.request == nil {
		return nil
	}
	if err := m.requests.Await(ctx); err != nil {
		return err
	}
	r, gone, err := m.find(ctx, pod.Namespace, s.request, now)
	if gone {
		s.request = nil // another one is made
	}
	if r == nil || err != nil {
		return err
	}
	decided, got := decision(r)
	switch decided.Type {
	case certificatesv1.PodCertificateRequestConditionTypeIssued:
		got.Key, got.at = s.request.key, now.Round(0)
		got.refreshAt = got.refreshAt.Add(rand.N(spread))
		*s = state{issued: &got}
	case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
		verb := map[string]string{certificatesv1.PodCertificateRequestConditionTypeDenied: "was denied", certificatesv1.PodCertificateRequestConditionTypeFailed: "failed"}[decided.Type]
		why := fmt.Sprintf("%s, reason=%q, message=%q", verb, decided.Reason, decided.Message)
		s.request, s.refused, s.verdict = nil, errors.New("PodCertificateRequest "+why), strings.ToLower(decided.Type)
		m.event(pod, decided.Type, fmt.Sprintf("PodCertificateRequest %s/%s %s", r.Namespace, r.Name, why))
	}
	return nil
}

// find returns a request, nil if somebody has deleted it (it is gone then) or if it may only be too new to be known.
func (m *Manager) find(ctx context.Context, namespace string, r *request, now time.Time) (_ *certificatesv1.PodCertificateRequest, gone bool, err error) {
	o, there, err := m.requests.GetStore().GetByKey(namespace + "/" + r.name)
	if err != nil {
		return nil, false, err
	}
	if known, ok := o.(*certificatesv1.PodCertificateRequest); there && ok {
		return known, false, nil
	}
	if now.Sub(r.at) < lag {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := m.config.Client.CertificatesV1().PodCertificateRequests(namespace).Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, unavailable(fmt.Errorf("while getting PodCertificateRequest %q: %w", namespace+"/"+r.name, err))
	}
	return got, false, nil
}

// ask makes a key and a request for its certificate.
func (m *Manager) ask(ctx context.Context, pod *corev1.Pod, p *corev1.PodCertificateProjection, now time.Time) (*request, error) {
	node := m.config.Node()
	if node == nil {
		return nil, fmt.Errorf("requesting a certificate: this node is not known yet: %w", plugin.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	account, err := m.config.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, accountName(pod), metav1.GetOptions{})
	if err != nil {
		return nil, unavailable(fmt.Errorf("while fetching service account: %w", err))
	}
	private, csr, err := generate(p.KeyType)
	if err != nil {
		return nil, err
	}
	made, err := m.config.Client.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx, newRequest(pod, account, node, p, csr), metav1.CreateOptions{})
	if err != nil {
		return nil, unavailable(fmt.Errorf("while creating PodCertificateRequest: %w", err))
	}
	// From the first request on its answer is watched for.
	if err := m.requests.Await(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "The answer to a request for a certificate comes later", "pod", klog.KObj(pod))
	}
	return &request{name: made.Name, key: private, at: now}, nil
}

// unavailable marks an error by which the API server did not decide.
func unavailable(err error) error {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) {
		return fmt.Errorf("%w: %w", plugin.ErrUnavailable, err)
	}
	return err
}

// warn tells once that a certificate is not renewed in time.
func (m *Manager) warn(pod *corev1.Pod, s *state, now time.Time) {
	if !s.toldOverdue && now.After(s.issued.refreshAt.Add(overdue)) {
		s.toldOverdue = true
		m.event(pod, "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
	}
	if !s.toldExpired && now.After(s.issued.notAfter) {
		s.toldExpired = true
		m.event(pod, "CertificateExpired", "PodCertificate expired")
	}
}

func (m *Manager) event(pod *corev1.Pod, reason, message string) {
	if m.config.Recorder != nil {
		m.config.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, reason, message)
	}
}

func accountName(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}
