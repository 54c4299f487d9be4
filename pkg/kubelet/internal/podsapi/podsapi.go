// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podsapi tells programs on the node which pods it has and what becomes of them, as the kubelet knows it before the API server does
// (KEP-4188, API v1alpha1). Touch it when that API grows.
package podsapi

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"minik8s.io/minik8s/pkg/kubelet/internal/socket"
)

const (
	// folder is where programs look, below the kubelet's directory; file is the socket in it, which only root may use.
	folder, file = "pods-api", "pods-api.sock"
	// maxRequest bounds a request, in bytes.
	maxRequest = 16 << 10
	// Requests per second of all programs together, and how many at once: upstream's. Watches are not counted.
	qps, burst = 100, 10
)

// Config is what a Server is made from; all fields are required.
type Config struct {
	// RootDir is the kubelet's directory.
	RootDir string
	// Ready says whether all pods that were there when the kubelet began are known, before which nothing is told.
	Ready func() bool
	// Pods are those that this node has. Nobody changes them.
	Pods func() []*corev1.Pod
	// Pod is one of them, nil if the node has it not.
	Pod func(types.UID) *corev1.Pod
	// Status is the newest of a pod; false if it is the API server's, because the kubelet has not looked at the pod yet.
	Status func(*corev1.Pod) (corev1.PodStatus, bool)
	// Intercept and InterceptStream are around requests.
	Intercept       grpc.UnaryServerInterceptor
	InterceptStream grpc.StreamServerInterceptor
}

// Server serves the API. Its methods are safe for concurrent use.
type Server struct {
	podsv1alpha1.UnimplementedPodsServer

	cfg Config

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
}

// New returns a Server; nothing happens before Start.
func New(cfg Config) *Server { return &Server{cfg: cfg, watches: map[*watch]struct{}{}} }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest),
		grpc.ChainUnaryInterceptor(socket.Limit(qps, burst), s.cfg.Intercept), grpc.ChainStreamInterceptor(s.cfg.InterceptStream))
	podsv1alpha1.RegisterPodsServer(server, s)
	return socket.Serve(ctx, s.cfg.RootDir, folder, file, server)
}

// Changed tells of a pod that came, changed or went. It does not block.
func (s *Server) Changed(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.changed(uid)
	}
}

// ListPods implements the API.
func (s *Server) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	pods, err := s.pods()
	if err != nil {
		return nil, err
	}
	out := &podsv1alpha1.ListPodsResponse{}
	for _, p := range pods {
		data, err := s.encode(p)
		if err != nil {
			return nil, err
		}
		out.Pods = append(out.Pods, data)
	}
	return out, nil
}

// GetPod implements the API.
func (s *Server) GetPod(_ context.Context, r *podsv1alpha1.GetPodRequest) (*podsv1alpha1.GetPodResponse, error) {
	if !s.cfg.Ready() {
		return nil, errBegins
	}
	pod := s.cfg.Pod(types.UID(r.GetPodUID()))
	if pod == nil {
		return nil, status.Errorf(codes.NotFound, "pod with UID %s not found", r.GetPodUID())
	}
	data, err := s.encode(pod)
	if err != nil {
		return nil, err
	}
	return &podsv1alpha1.GetPodResponse{Pod: data}, nil
}

// WatchPods implements the API. A client that reads slowly gets the newest of each pod, not all that was in between, and is never dropped.
func (s *Server) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent]) error {
	w := &watch{wake: make(chan struct{}, 1), told: map[types.UID]told{}}
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
	}()
	pods, err := s.pods()
	if err != nil {
		return err
	}
	for _, p := range pods {
		if err := s.tell(stream, w, p.UID, p); err != nil {
			return err
		}
	}
	if err := stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-w.wake:
		}
		for _, uid := range w.take() {
			if err := s.tell(stream, w, uid, s.cfg.Pod(uid)); err != nil {
				return err
			}
		}
	}
}

// tell tells what is new of a pod, nil if it has gone.
func (s *Server) tell(stream grpc.ServerStreamingServer[podsv1alpha1.WatchPodsEvent], w *watch, uid types.UID, pod *corev1.Pod) error {
	before, known := w.told[uid]
	if pod == nil {
		if !known {
			return nil
		}
		delete(w.told, uid)
		data, err := encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: before.name.Namespace, Name: before.name.Name, UID: uid}})
		if err != nil {
			return err
		}
		return stream.Send(&podsv1alpha1.WatchPodsEvent{Type: podsv1alpha1.EventType_DELETED, Pod: data})
	}
	data, err := s.encode(pod)
	if err != nil {
		return err
	}
	sum := maphash.Bytes(seed, data)
	event := podsv1alpha1.EventType_ADDED
	if known {
		if event = podsv1alpha1.EventType_MODIFIED; sum == before.sum {
			return nil
		}
	}
	w.told[uid] = told{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, sum: sum}
	return stream.Send(&podsv1alpha1.WatchPodsEvent{Type: event, Pod: data})
}

// errBegins is upstream's.
var errBegins = status.Error(codes.FailedPrecondition, "Kubelet is initializing")

// pods are all of them, by UID.
func (s *Server) pods() ([]*corev1.Pod, error) {
	if !s.cfg.Ready() {
		return nil, errBegins
	}
	pods := s.cfg.Pods()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods, nil
}

// encode is a pod with its newest status.
func (s *Server) encode(pod *corev1.Pod) ([]byte, error) {
	newest := *pod
	st, own := s.cfg.Status(pod)
	if newest.Status = st; !own {
		newest.Status = unverified(st)
	}
	if newest.Status.Phase == "" {
		newest.Status.Phase = corev1.PodPending
	}
	return encode(&newest)
}

func encode(pod *corev1.Pod) ([]byte, error) {
	data, err := pod.Marshal()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encoding pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return data, nil
}

// unverified is a status of which the kubelet does not know yet whether it holds: that a pod is ready is not told on somebody's word.
func unverified(st corev1.PodStatus) corev1.PodStatus {
	st.Conditions = slices.Clone(st.Conditions)
	for i := range st.Conditions {
		if c := &st.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ContainersNotReady", "the kubelet has not looked at its containers yet"
		}
	}
	return st
}

// seed is that of the sums by which it is known what a client has been told.
var seed = maphash.MakeSeed()

// told is what a client knows of a pod.
type told struct {
	name types.NamespacedName
	sum  uint64
}

// watch is one client's.
type watch struct {
	wake chan struct{}
	told map[types.UID]told // used by its own goroutine only

	mu sync.Mutex
	// pods are those to look at, in the order in which they changed, and once each.
	pods []types.UID // guarded by mu
}

// changed has a pod looked at. It does not block.
func (w *watch) changed(uid types.UID) {
	w.mu.Lock()
	if !slices.Contains(w.pods, uid) {
		w.pods = append(w.pods, uid)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns which pods are to be looked at.
func (w *watch) take() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := w.pods
	w.pods = nil
	return pods
}
