// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranges

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// memory is a storage with one object, replaced by compare-and-swap. It may fail, lose an answer, and let a write wait.
type memory struct {
	storage.Interface
	mu       sync.Mutex
	object   corev1.RangeAllocation
	version  int
	attempts int
	// fail is the error of each write; with lost, what is written is written all the same.
	fail error
	lost bool
	// between runs between reading and writing, without the lock.
	between func()
}

func (m *memory) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (m *memory) Get(_ context.Context, _ string, _ storage.GetOptions, into apiruntime.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.object.DeepCopyInto(into.(*corev1.RangeAllocation))
	return nil
}

func (m *memory) GuaranteedUpdate(_ context.Context, _ string, _ apiruntime.Object, _ bool, _ *storage.Preconditions, update storage.UpdateFunc, _ apiruntime.Object) error {
	for {
		m.mu.Lock()
		read, version := m.object.DeepCopy(), m.version
		m.attempts++
		m.mu.Unlock()
		out, _, err := update(read, storage.ResponseMeta{})
		if err != nil {
			return err
		}
		if m.between != nil {
			m.between()
		}
		m.mu.Lock()
		if m.version != version {
			m.mu.Unlock()
			continue
		}
		defer m.mu.Unlock()
		if m.fail != nil && !m.lost {
			return m.fail
		}
		m.object, m.version = *out.(*corev1.RangeAllocation).DeepCopy(), version+1
		m.object.ResourceVersion = strconv.Itoa(m.version)
		return m.fail
	}
}

// ports returns a range of the size, in the storage, with these numbers in use.
func ports(m *memory, size uint64, used ...uint64) *Range {
	return &Range{Name: "p", Spec: "s", Size: size, Store: FromStore(&genericregistry.Store{
		KeyFunc: func(_ context.Context, name string) (string, error) { return "/" + name, nil },
		Storage: genericregistry.DryRunnableStorage{Storage: m, Codec: clientgoscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)},
	}), Used: func(context.Context) (Set, error) { return NewSet(used...), nil }}
}

// n changes at a time, by two servers, are n numbers and not n² attempts.
func TestRange_Parallel(t *testing.T) {
	const n = 300
	m := &memory{}
	servers := []*Range{ports(m, n), ports(m, n)}
	taken := make(chan uint64, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			some, err := servers[i%2].TakeAny(t.Context(), 1, nil, false)
			if err != nil {
				t.Errorf("taking: %v", err)
			}
			for _, o := range some {
				taken <- o
			}
		})
	}
	all.Wait()
	close(taken)
	seen := map[uint64]bool{}
	for o := range taken {
		if seen[o] || o >= n {
			t.Errorf("%d was given twice, or is out of range", o)
		}
		seen[o] = true
	}
	// Two servers: an attempt is lost only to a write of the other.
	if m.attempts > 2*n {
		t.Errorf("%d attempts for %d changes", m.attempts, n)
	}
	if _, err := servers[0].TakeAny(t.Context(), 1, nil, false); !errors.Is(err, ErrFull) {
		t.Errorf("a full range gives %v", err)
	}
}

// What a dry run has chosen is avoided by what it chooses next, until nothing is left.
func TestRange_TakeAny(t *testing.T) {
	m := &memory{}
	r := ports(m, 10, 0, 1, 2, 3)
	for _, tc := range []struct {
		name   string
		n      int
		except Set
		dryRun bool
		want   Set
		fails  error
	}{
		{"too many", 7, nil, true, nil, ErrFull},
		{"too many beside those that are chosen", 4, NewSet(3, 5, 6, 7), true, nil, ErrFull},
		{"all, dry run", 6, nil, true, NewSet(4, 5, 6, 7, 8, 9), nil},
		{"the rest, dry run", 3, NewSet(4, 5, 6), true, NewSet(7, 8, 9), nil},
		{"all", 6, nil, false, NewSet(4, 5, 6, 7, 8, 9), nil},
		{"none are left", 1, nil, false, nil, ErrFull},
	} {
		got, err := r.TakeAny(t.Context(), tc.n, tc.except, tc.dryRun)
		if diff := cmp.Diff(tc.want, NewSet(got...), cmpopts.EquateEmpty()); diff != "" || !errors.Is(err, tc.fails) {
			t.Errorf("%s: %v, want %v (-want +got):\n%s", tc.name, err, tc.fails, diff)
		}
	}
}

// While one write is under way, all others wait for one more.
func TestRange_Batch(t *testing.T) {
	const n = 50
	m, begun, release := &memory{}, make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.between = func() {
		once.Do(func() {
			close(begun)
			<-release
		})
	}
	r := ports(m, 2*n)
	var all sync.WaitGroup
	all.Go(func() {
		if err := r.Take(t.Context(), 0, false); err != nil {
			t.Errorf("the first: %v", err)
		}
	})
	<-begun
	results := make(chan error, n)
	for range n {
		all.Go(func() { results <- r.Take(t.Context(), 1, false) })
	}
	gone, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		if err := r.Take(gone, 2, false); !errors.Is(err, context.Canceled) {
			t.Errorf("whoever goes away gets %v", err)
		}
	})
	for waiting := 0; waiting < n+1; {
		r.queue.mu.Lock()
		waiting = len(r.queue.waiting)
		r.queue.mu.Unlock()
		runtime.Gosched()
	}
	cancel()
	for waiting := n + 1; waiting > n; {
		r.queue.mu.Lock()
		waiting = len(r.queue.waiting)
		r.queue.mu.Unlock()
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	refused := 0
	for range n {
		if err := <-results; errors.Is(err, ErrTaken) {
			refused++
		} else if err != nil {
			t.Errorf("one of many: %v", err)
		}
	}
	if got := decodeSet(m.object.Data); refused != n-1 || m.attempts != 2 || !cmp.Equal(got, Set{0, 1}) {
		t.Errorf("%d refused, %d attempts, taken %v; want %d, 2, and the first two numbers", refused, m.attempts, got, n-1)
	}
}

func TestRange_Failures(t *testing.T) {
	m := &memory{fail: errors.New("no leader")}
	r := ports(m, 10)
	if err := r.Take(t.Context(), 1, false); !errors.Is(err, m.fail) {
		t.Errorf("a write that fails: %v", err)
	}
	if len(m.object.Data) > 0 {
		t.Error("it has written")
	}
	m.lost = true // written, and the answer gets lost: the number is nobody's until it is repaired
	if err := r.Take(t.Context(), 1, false); !errors.Is(err, m.fail) {
		t.Errorf("a lost answer: %v", err)
	}
	m.fail = nil
	if err := r.Take(t.Context(), 1, false); !errors.Is(err, ErrTaken) {
		t.Errorf("after a lost answer: %v", err)
	}
	leaks := Leaks{}
	for range graceRounds {
		if _, _, err := r.Repair(t.Context(), leaks); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Take(t.Context(), 1, false); err != nil {
		t.Errorf("after repair: %v", err)
	}
}

// What upstream has stored is gone on with, what this program stored in its own encoding once is made anew from what is in use.
func TestRange_Stored(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stored corev1.RangeAllocation
		want   Set
	}{
		{"nothing", corev1.RangeAllocation{}, Set{5}},
		{"upstream's", corev1.RangeAllocation{Range: "s", Data: []byte{0x01, 0x06}}, Set{1, 2, 8}},
		{"for another range", corev1.RangeAllocation{Range: "t", Data: []byte{0x06}}, Set{5}},
		{"the old encoding", named(corev1.RangeAllocation{Range: "s", Data: []byte{5, 0x80}}), Set{5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &memory{object: tc.stored}
			r := ports(m, 10, 5)
			if err := r.Take(t.Context(), 9, false); err != nil {
				t.Fatal(err)
			}
			if got := decodeSet(m.object.Data); !cmp.Equal(got, tc.want.with(9)) || m.object.Name != "" || m.object.Range != "s" {
				t.Errorf("stored is %v, %v, want %v and 9", &m.object, got, tc.want)
			}
			if _, _, err := r.Repair(t.Context(), Leaks{}); err != nil {
				t.Errorf("repair: %v", err)
			}
		})
	}
}

func named(a corev1.RangeAllocation) corev1.RangeAllocation {
	a.Name = "servicenodeports"
	return a
}
