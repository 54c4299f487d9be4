// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

// podServer serves lists and watches of pods as a test says.
type podServer struct {
	mu sync.Mutex
	// The following are guarded by mu.
	pods    []corev1.Pod
	version int
	watch   *watch.RaceFreeFakeWatcher
}

func (s *podServer) set(version int, pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.pods = version, nil
	for _, p := range pods {
		s.pods = append(s.pods, *p)
	}
}

func (s *podServer) current() *watch.RaceFreeFakeWatcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch
}

func (s *podServer) listerWatcher() toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, Items: s.pods}, nil
		},
		WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if opts.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(podKind.GroupKind(), "", nil) // the client lists then
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watch = watch.NewRaceFreeFake()
			return s.watch, nil
		},
	}
}

// TestInformers follows client-go's informer through events, bookmarks, and watches that break and are followed by a list.
func TestInformers(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "p"}
	created := write{kind: podKind, key: key, version: "10"}
	deleted := write{kind: podKind, key: key, deleted: "p"}
	bookmark := func(version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		present []*corev1.Pod
		write   write
		early   func(*podServer)
		late    func(*podServer)
	}{
		"event": {nil, created,
			func(s *podServer) { s.current().Add(pod("other", 9)) },
			func(s *podServer) { s.current().Add(pod("p", 10)) }},
		"event of another object": {nil, created,
			func(s *podServer) { s.current().Add(pod("other", 9)) },
			func(s *podServer) { s.current().Modify(pod("other", 11)) }},
		"bookmark": {nil, created,
			func(s *podServer) { s.current().Action(watch.Bookmark, bookmark("9")) },
			func(s *podServer) { s.current().Action(watch.Bookmark, bookmark("10")) }},
		"created and deleted while the watch was broken": {nil, created,
			func(s *podServer) { s.current().Add(pod("other", 9)) },
			func(s *podServer) {
				s.set(12, pod("other", 9))
				s.current().Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			}},
		"deletion": {[]*corev1.Pod{pod("p", 4)}, deleted,
			func(s *podServer) { s.current().Modify(pod("p", 20)) },
			func(s *podServer) { s.current().Delete(pod("p", 21)) }},
		"deleted while the watch was broken": {[]*corev1.Pod{pod("p", 4)}, deleted,
			func(s *podServer) { s.current().Action(watch.Bookmark, bookmark("20")) },
			func(s *podServer) {
				s.set(30)
				s.current().Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &podServer{}
				server.set(5, tt.present...)
				informer := toolscache.NewSharedIndexInformer(server.listerWatcher(), &corev1.Pod{}, 0, nil)
				informers := NewInformers(clientgoscheme.Scheme)
				if err := informers.Add(&corev1.Pod{}, informer); err != nil {
					t.Fatal(err)
				}
				if tt.write.isIn(informers.Of(podKind)) && tt.write.version != "" {
					t.Error("seen before there was a list")
				}
				ended := make(chan struct{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				go func() {
					informer.RunWithContext(ctx)
					close(ended)
				}()
				synctest.Wait()
				tt.early(server)
				synctest.Wait()
				if tt.write.isIn(informers.Of(podKind)) {
					t.Error("seen too early")
				}
				tt.late(server)
				// A watch that broke is followed by another one after a second or so, by the clock of the bubble.
				if !toolscache.WaitForCacheSync(ctx.Done(), func() bool { return tt.write.isIn(informers.Of(podKind)) }) {
					t.Error("not seen in a minute")
				}
				cancel()
				<-ended
			})
		})
	}
}

// TestInformers_Representations are groups of their own.
func TestInformers_Representations(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(podKind)
	informers := NewInformers(clientgoscheme.Scheme)
	for _, obj := range []runtime.Object{&corev1.Pod{}, metadata, &corev1.Pod{}} {
		if err := informers.Add(obj, toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, obj, 0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for _, group := range informers.Of(podKind) {
		got = append(got, len(group))
	}
	if len(got) != 2 || got[0] != 2 || got[1] != 1 {
		t.Errorf("groups of %v, want two of pods and one of metadata", got)
	}
	if got := informers.Of(corev1.SchemeGroupVersion.WithKind("Node")); len(got) > 0 {
		t.Errorf("nodes have %v", got)
	}
}
