// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
)

// patience is the engine's, in this package's tests.
const patience = 10 * time.Second

// subject is a PLEG on a fake engine, within a bubble of its own time.
type subject struct {
	*PLEG
	t       *testing.T
	engine  *fake.Runtime
	changed chan types.UID
}

// run runs a test with a PLEG that has been started and has come to rest.
func run(t *testing.T, test func(*subject)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &subject{t: t, engine: fake.New(fake.Config{PullAll: true}), changed: make(chan types.UID, 1000)}
		s.PLEG = New(Config{Runtime: container.Bounded(s.engine, patience), Changed: func(u types.UID) { s.changed <- u }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = s.Start(ctx); close(done) }()
		s.pass(blind)
		test(s)
		cancel()
		<-done
		s.engine.Close()
	})
}

// pass lets time pass, and what it wakes come to rest.
func (s *subject) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// told returns the pods that were said to have changed since the last call.
func (s *subject) told() []types.UID {
	s.pass(2 * coalesce)
	var out []types.UID
	for {
		select {
		case u := <-s.changed:
			if !slices.Contains(out, u) {
				out = append(out, u)
			}
		default:
			slices.Sort(out)
			return out
		}
	}
}

func (s *subject) expect(want ...types.UID) {
	s.t.Helper()
	if got := s.told(); !slices.Equal(got, want) {
		s.t.Errorf("changed are %v, want %v", got, want)
	}
}

// pod makes a sandbox and a container that runs, behind the PLEG's back or not.
func (s *subject) pod(r container.Runtime, uid types.UID) (sandbox, id string) {
	s.t.Helper()
	p := container.Pod{UID: uid, Namespace: "ns", Name: "pod-" + string(uid)}
	sandbox, err := r.CreateSandbox(s.t.Context(), container.SandboxConfig{Pod: p})
	if err == nil {
		_, err = r.StartSandbox(s.t.Context(), sandbox)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	id, err = r.CreateContainer(s.t.Context(), sandbox, container.ContainerConfig{Pod: p, Name: "c", Image: s.engine.AddImage("x", nil).ID})
	if err == nil {
		err = r.StartContainer(s.t.Context(), id)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return sandbox, id
}

// state is that of the container of a pod as the PLEG has it, "" if there is none.
func (s *subject) state(uid types.UID) container.State {
	s.t.Helper()
	p, err := s.Pod(s.t.Context(), uid)
	if err != nil {
		s.t.Fatalf("pod %s: %v", uid, err)
	}
	if l := p.Latest("c"); l != nil {
		return l.State
	}
	return ""
}

// calls is how often the engine was asked since the last call.
func (s *subject) calls(op string) int {
	defer s.engine.ResetCalls()
	return len(s.engine.Calls(op))
}

func TestEvents(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		_, a := s.pod(s.engine, "a")
		s.expect("a")
		s.pod(s.engine, "b")
		s.expect("b")
		s.engine.ResetCalls()
		s.engine.Exit(a, 3)
		s.expect("a")
		if n := len(s.engine.Calls("List")); n != 0 {
			t.Errorf("%d listings for an event that names the container", n)
		}
		if n := s.calls("Inspect"); n != 1 {
			t.Errorf("%d inspections for the end of one container", n)
		}
		if got := s.state("a"); got != container.StateExited {
			t.Errorf("the container is %s", got)
		}
		// The stream breaks; what happens before the next one is found by the listing that follows.
		s.engine.BreakEvents()
		_, c := s.pod(s.engine, "c")
		s.expect("c")
		s.engine.Exit(c, 0)
		s.expect("c")
		if err := s.Healthy(); err != nil {
			t.Errorf("not healthy: %v", err)
		}
	})
}

func TestEventsAreGathered(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		s.engine.ResetCalls()
		s.pod(s.engine, "a") // created, started, created, started
		s.expect("a")
		if n := s.calls("Inspect"); n != 2 {
			t.Errorf("%d inspections, want one of the sandbox and one of the container", n)
		}
	})
}

func TestRest(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		for _, uid := range []types.UID{"a", "b", "c"} {
			s.pod(s.engine, uid)
		}
		s.pass(time.Minute)
		s.engine.ResetCalls()
		s.pass(10 * time.Minute)
		if n := len(s.engine.Calls("List")); n != 10 {
			t.Errorf("%d listings in ten minutes", n)
		}
		if n := s.calls("Inspect"); n != 0 {
			t.Errorf("%d inspections while nothing happens", n)
		}
	})
}

func TestLostEvents(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		sandbox, a := s.pod(s.engine, "a")
		s.expect("a")
		s.engine.LoseEvents(1)
		s.engine.Exit(a, 1)
		s.expect()
		s.pass(time.Minute)
		s.expect("a")
		if got := s.state("a"); got != container.StateExited {
			t.Errorf("the container is %s", got)
		}
		s.engine.LoseEvents(10)
		for _, err := range []error{s.engine.RemoveContainer(t.Context(), a), s.engine.RemoveSandbox(t.Context(), sandbox)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		s.expect()
		s.pass(time.Minute)
		s.expect("a")
		if got := s.Pods(); len(got) != 0 {
			t.Errorf("what is gone is still known: %v", got)
		}
	})
}

// TestOwnChanges checks that who acts sees what it did, events or not.
func TestOwnChanges(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		s.engine.LoseEvents(1000)
		ctx := t.Context()
		r := s.Runtime()
		sandbox, id := s.pod(r, "a")
		if got := s.state("a"); got != container.StateRunning {
			t.Errorf("started, and it is %s", got)
		}
		for _, step := range []struct {
			name string
			do   func() error
			want container.State
		}{
			{"stopped", func() error { return r.StopContainer(ctx, id, 0, "") }, container.StateExited},
			{"removed", func() error { return r.RemoveContainer(ctx, id) }, ""},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if got := s.state("a"); got != step.want {
				t.Errorf("%s, and it is %q", step.name, got)
			}
		}
		if err := r.RemoveSandbox(ctx, sandbox); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Pod(ctx, "a"); p != nil || err != nil {
			t.Errorf("nothing is left, and it is %+v, %v", p, err)
		}
		if n := len(s.pods) + len(s.owner); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// TestLostAnswers checks that what was made is seen though nobody was told its id.
func TestLostAnswers(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		s.engine.LoseEvents(1000)
		r := s.Runtime()
		p := container.Pod{UID: "a", Namespace: "ns", Name: "pod-a"}
		s.engine.LoseOnce("CreateSandbox")
		if _, err := r.CreateSandbox(t.Context(), container.SandboxConfig{Pod: p}); err == nil {
			t.Fatal("the answer came")
		}
		obs, err := s.Pod(t.Context(), "a")
		if err != nil || len(obs.Sandboxes) != 1 {
			t.Fatalf("%+v, %v", obs, err)
		}
		sandbox := obs.Sandboxes[0].ID
		s.engine.LoseOnce("StartSandbox")
		if _, err := r.StartSandbox(t.Context(), sandbox); err == nil {
			t.Fatal("the answer came")
		}
		if obs, err := s.Pod(t.Context(), "a"); err != nil || obs.Sandbox() == nil {
			t.Fatalf("%+v, %v", obs, err)
		}
		s.engine.LoseOnce("CreateContainer")
		if _, err := r.CreateContainer(t.Context(), sandbox, container.ContainerConfig{Pod: p, Name: "c", Image: s.engine.AddImage("x", nil).ID}); err == nil {
			t.Fatal("the answer came")
		}
		if got := s.state("a"); got != container.StateCreated {
			t.Errorf("the container is %q", got)
		}
		s.engine.ResetCalls()
		if _, err := s.Pod(t.Context(), "a"); err != nil || s.calls("List") != 0 {
			t.Errorf("what is known is listed again, %v", err)
		}
	})
}

// TestOneIsUnknown checks that a container of which the engine tells nothing is no matter of the other pods.
func TestOneIsUnknown(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		_, a := s.pod(s.engine, "a")
		_, b := s.pod(s.engine, "b")
		s.expect("a", "b")
		release := s.engine.Hang("Inspect", a)
		s.engine.OOMKill(a)
		s.expect()
		s.engine.Exit(b, 1)
		s.expect("b")
		if got := s.state("b"); got != container.StateExited {
			t.Errorf("the other container is %s", got)
		}
		if _, err := s.Pod(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), a) {
			t.Errorf("error %v", err)
		}
		s.expect("a") // its view is unknown
		s.pass(10 * time.Minute)
		if err := s.Healthy(); err != nil {
			t.Errorf("one container makes the node unhealthy: %v", err)
		}
		if s.Pods()["a"] == nil || !s.IDs()[a] {
			t.Error("what is unknown counts as gone")
		}
		release()
		s.pass(time.Minute)
		s.expect("a")
		if got := s.state("a"); got != container.StateExited {
			t.Errorf("the container is %s", got)
		}
	})
}

// TestUnknownFromTheStart checks a pod that an earlier kubelet has left, in the same case.
func TestUnknownFromTheStart(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		s.engine.LoseEvents(1000)
		sandbox, _ := s.pod(s.engine, "a")
		s.engine.Hang("Inspect", "")
		if err := s.Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.Pods()["a"]; p == nil || p.Name != "pod-a" || p.Namespace != "ns" || p.Sandbox() != nil {
			t.Errorf("%+v", p)
		}
		if !s.IDs()[sandbox] {
			t.Error("its sandbox is not known")
		}
	})
}

func TestManyHang(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		for i := range 3 * inspections {
			_, id := s.pod(s.engine, types.UID(rune('A'+i)))
			s.engine.Hang("Inspect", id)
		}
		s.told()
		s.pod(s.engine, "z")
		began := time.Now()
		if got := s.state("z"); got != container.StateRunning && got != "" || time.Since(began) > patience {
			t.Errorf("after %s it is %s", time.Since(began), got)
		}
	})
}

func TestEngineAway(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		_, a := s.pod(s.engine, "a")
		s.expect("a")
		s.engine.SetUnavailable(true)
		if err := s.Relist(t.Context()); !errors.Is(err, container.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		s.pass(2 * time.Minute)
		if err := s.Healthy(); err != nil {
			t.Errorf("after two minutes: %v", err)
		}
		s.pass(2 * time.Minute)
		if err := s.Healthy(); err == nil || !strings.Contains(err.Error(), "pleg was last seen active 4m") {
			t.Errorf("after four minutes: %v", err)
		}
		if got := s.state("a"); got != container.StateRunning {
			t.Errorf("what was seen last is forgotten: %s", got)
		}
		s.engine.Exit(a, 2) // nobody hears it
		s.engine.SetUnavailable(false)
		s.pass(2 * blind)
		s.expect("a")
		if err := s.Healthy(); err != nil || s.state("a") != container.StateExited {
			t.Errorf("back, and %s, %v", s.state("a"), err)
		}
	})
}

// TestEngineHangs checks that an engine that answers nothing is noticed, and waited for.
func TestEngineHangs(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		var releases []func()
		for _, op := range []string{"List", "Inspect", "Events"} {
			releases = append(releases, s.engine.Hang(op, ""))
		}
		s.engine.BreakEvents()
		s.pass(threshold + time.Minute)
		if s.Healthy() == nil {
			t.Error("healthy after four minutes without an answer")
		}
		for _, release := range releases {
			release()
		}
		s.pass(2 * patience)
		s.pod(s.engine, "a")
		s.expect("a")
		if err := s.Healthy(); err != nil {
			t.Errorf("back, and %v", err)
		}
	})
}

// TestRelisted checks what is told of listings, for the metrics.
func TestRelisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fake.New(fake.Config{})
		type listing struct{ took, since time.Duration }
		var told []listing
		p := New(Config{Runtime: engine, Changed: func(types.UID) {}, Relisted: func(took, since time.Duration) { told = append(told, listing{took, since}) }})
		if err := p.Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
		engine.FailOnce("List", errors.New("no such luck"))
		if err := p.Relist(t.Context()); err == nil {
			t.Error("a listing that failed was none")
		}
		<-time.After(time.Minute)
		release := engine.Hang("List", "")
		time.AfterFunc(2*time.Second, release)
		if err := p.Relist(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []listing{{0, 0}, {2 * time.Second, time.Minute}}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

func TestRelistIsShared(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		release := s.engine.Hang("List", "")
		var wg sync.WaitGroup
		relist := func() {
			if err := s.Relist(t.Context()); err != nil {
				t.Error(err)
			}
		}
		wg.Go(relist)
		synctest.Wait()
		s.engine.ResetCalls()
		for range 20 {
			wg.Go(relist)
		}
		synctest.Wait()
		release()
		wg.Wait()
		if n := s.calls("List"); n != 1 {
			t.Errorf("%d listings for all that came while one was under way", n)
		}
	})
}

// TestLateEvents checks that what is told of a container that is gone makes no pod.
func TestLateEvents(t *testing.T) {
	run(t, func(s *subject) {
		t := s.t
		r := s.Runtime()
		sandbox, id := s.pod(r, "a")
		for _, err := range []error{r.RemoveContainer(t.Context(), id), r.RemoveSandbox(t.Context(), sandbox)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if p, err := s.Pod(t.Context(), "a"); p != nil || err != nil {
			t.Fatalf("%+v, %v", p, err)
		}
		s.touched(container.Pod{UID: "a"}, id)
		if got := s.Pods(); len(got) != 0 {
			t.Errorf("there is a pod: %v", got)
		}
		s.told()
		if n := len(s.pods); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}
