// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/allocation"
	"minik8s.io/minik8s/pkg/kubelet/internal/devicemanager"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
	"minik8s.io/minik8s/pkg/kubelet/internal/launch"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
	"minik8s.io/minik8s/pkg/kubelet/internal/pleg"
	"minik8s.io/minik8s/pkg/kubelet/internal/podlog"
	"minik8s.io/minik8s/pkg/kubelet/internal/prober"
	"minik8s.io/minik8s/pkg/kubelet/internal/snapshot"
	"minik8s.io/minik8s/pkg/kubelet/internal/status"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/network"
)

// images are those of the engine.
type images struct{ *fake.Runtime }

func (i images) Ensure(ctx context.Context, _ *corev1.Pod, ref string, _ corev1.PullPolicy, _ *corev1.ObjectReference) (*container.Image, error) {
	return i.PullImage(ctx, ref, nil)
}

// nothing is what pods have that need neither volumes nor devices, and of which nothing was decided.
type nothing struct {
	Volumes
	Cgroups
	Failures
}

func (nothing) Mount(context.Context, *corev1.Pod, []string) error          { return nil }
func (nothing) EnsurePod(*corev1.Pod) (string, error)                       { return "", nil }
func (nothing) Tune(*corev1.Pod, *corev1.Container, string) error           { return nil }
func (nothing) Failure(types.UID) (*status.Failure, error)                  { return nil, nil } //nolint:nilnil // there is none
func (nothing) Source(context.Context, *corev1.Pod) env.Source              { return nil }
func (nothing) Groups(*corev1.Pod) []int64                                  { return nil }
func (nothing) Health(types.UID, string) []corev1.ResourceStatus            { return nil }
func (nothing) CDIDevices(*corev1.Pod, *corev1.Container) ([]string, error) { return nil, nil }
func (nothing) ContainerMounts(context.Context, plugin.Container) ([]container.Mount, error) {
	return nil, nil
}
func (nothing) ContainerDevices(*corev1.Pod, *corev1.Container) ([]container.Device, error) {
	return nil, nil
}
func (nothing) Container(context.Context, types.UID, string) (devicemanager.Options, error) {
	return devicemanager.Options{}, nil
}

// unclaimed are the claims of pods that have none.
type unclaimed struct{ Claims }

func (unclaimed) Unprepare(context.Context, types.UID) error                    { return nil }
func (unclaimed) Prepare(context.Context, *corev1.Pod) error                    { return nil }
func (unclaimed) Health(*corev1.Pod, *corev1.Container) []corev1.ResourceStatus { return nil }

// syncer returns a Syncer of a fake engine. Pods are to have the network of the node, for there is no other.
func syncer(ctx context.Context, t *testing.T, engine *fake.Runtime, st *status.Manager, notStarted func(container.ContainerType, string)) *Syncer {
	t.Helper()
	clk, recorder, changed := clock.RealClock{}, record.NewFakeRecorder(1000), func(types.UID) {}
	seen := pleg.New(pleg.Config{Runtime: engine, Clock: clk, Changed: changed})
	resources := func(*corev1.Pod, *corev1.Container) container.Resources { return container.Resources{} }
	return New(ctx, Config{
		Runtime: seen.Runtime(), RuntimeName: "fake", Images: images{engine}, Volumes: nothing{}, Cgroups: nothing{}, Status: st, Failures: nothing{},
		Devices: nothing{}, Claims: unclaimed{}, Resizes: &allocation.Waiting{}, Observe: seen.Pod, Recorder: recorder, Clock: clk,
		HostIPs: []string{"192.0.2.1"}, Logs: podlog.Links{Pods: t.TempDir(), Containers: t.TempDir()}, Starts: gate.New(4, time.Minute),
		Probes:            prober.New(ctx, prober.Config{Exec: engine, Recorder: recorder, Clock: clk, Changed: changed}),
		RecursiveReadOnly: func(string) bool { return false }, Resources: resources, Terminated: func(container.ContainerType, *corev1.ContainerStateTerminated) {},
		NotStarted: notStarted,
		Builder: launch.New(launch.Config{
			RootDir: t.TempDir(), Volumes: nothing{}, Devices: nothing{}, Claims: nothing{}, Recorder: recorder, Resources: resources,
			Services:    func(string) ([]*corev1.Service, bool) { return nil, true },
			OOMScoreAdj: func(*corev1.Pod, *corev1.Container) int { return 0 },
		}),
	})
}

// A container of a new pod runs while an image is still on its way that only another one wants.
func TestSyncer_SlowImage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
	}{
		{"of a container", func(p *corev1.Pod) { p.Spec.Containers[1].Image = "slow" }},
		{"of a volume", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "slow"}}}}
			p.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pod("a", "b")
				p.Spec.HostNetwork = true
				tt.change(p)
				engine, st := fake.New(fake.Config{PullAll: true}), status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
				defer engine.Close()
				release := engine.Hang("PullImage", "slow")
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 2)
				go func() { done <- st.Start(ctx) }()
				go func() {
					_, err := syncer(ctx, t, engine, st, nil).Sync(ctx, p)
					done <- err
				}()
				started := func() (names []string) {
					synctest.Wait()
					for _, c := range engine.Calls("StartContainer") {
						names = append(names, c.Container)
					}
					return names
				}
				if diff := cmp.Diff([]string{"a"}, started()); diff != "" {
					t.Errorf("while the image is on its way (-want +got):\n%s", diff)
				}
				release()
				if diff := cmp.Diff([]string{"a", "b"}, started()); diff != "" {
					t.Errorf("when it is there (-want +got):\n%s", diff)
				}
				cancel()
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A container that the engine does not make is told of as what its status says, and the others start.
func TestSyncer_NotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a", "b")
		p.Spec.HostNetwork = true
		engine, st := fake.New(fake.Config{PullAll: true}), status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
		defer engine.Close()
		engine.FailOnce("CreateContainer", errors.New("no such device"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- st.Start(ctx) }()
		var told []string
		s := syncer(ctx, t, engine, st, func(_ container.ContainerType, reason string) { told = append(told, reason) })
		if _, err := s.Sync(ctx, p); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{reasonCreate}, told); diff != "" || len(engine.Calls("StartContainer")) != 1 {
			t.Errorf("%d were started, told (-want +got):\n%s", len(engine.Calls("StartContainer")), diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A kubelet that starts again says of what runs what the one before has said, until a probe of its own says otherwise.
func TestSyncer_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a", "b")
		p.Spec.HostNetwork = true
		far := &corev1.Probe{InitialDelaySeconds: 3600, PeriodSeconds: 3600}
		far.Exec = &corev1.ExecAction{Command: []string{"true"}}
		p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].StartupProbe, p.Spec.Containers[1].ReadinessProbe = far, far, far
		engine := fake.New(fake.Config{PullAll: true})
		defer engine.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var reporting sync.WaitGroup
		defer reporting.Wait()
		defer cancel()
		kubelet := func(p *corev1.Pod, looks int) corev1.PodStatus {
			st := status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
			reporting.Go(func() { _ = st.Start(ctx) })
			s := syncer(ctx, t, engine, st, nil)
			for range looks {
				if _, err := s.Sync(ctx, p); err != nil {
					t.Fatal(err)
				}
			}
			told, _ := st.Get(p.UID)
			return told
		}
		before := kubelet(p, 2) // the second look sees what the first has started
		if c := before.ContainerStatuses[0]; len(before.ContainerStatuses) != 2 || *c.Started || c.Ready || c.State.Running == nil {
			t.Fatalf("new containers are %+v", before.ContainerStatuses)
		}
		again := p.DeepCopy()
		again.Status = *before.DeepCopy()
		for i := range again.Status.ContainerStatuses {
			again.Status.ContainerStatuses[i].Ready, again.Status.ContainerStatuses[i].Started = true, new(true)
		}
		for _, c := range kubelet(again, 1).ContainerStatuses {
			if !*c.Started || !c.Ready || c.RestartCount != 0 {
				t.Errorf("after the start of another kubelet %s is %+v", c.Name, c)
			}
		}
	})
}

// A container is asked to end before it is killed, however short its time is.
func TestSyncer_LeastGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a")
		engine := fake.New(fake.Config{PullAll: true})
		defer engine.Close()
		st := status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- st.Start(ctx) }()
		s, look := syncer(ctx, t, engine, st, nil), snapshot.New(snapshot.Parts{Pod: p})
		var got []any
		for _, grace := range []time.Duration{0, time.Second, 5 * time.Second} {
			if err := s.killOne(ctx, s.notes(p.UID), look, Kill{Container: &container.Container{ID: "id", Name: "a"}}, grace, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range engine.Calls("StopContainer") {
			got = append(got, c.Arg)
		}
		if diff := cmp.Diff([]any{2 * time.Second, 2 * time.Second, 5 * time.Second}, got); diff != "" {
			t.Errorf("time to end (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// unread is a note of why a pod was ended that cannot be read at first.
type unread struct {
	nothing
	left int
}

func (u *unread) Failure(types.UID) (*status.Failure, error) {
	if u.left--; u.left >= 0 {
		return nil, errors.New("too many open files")
	}
	return &status.Failure{Reason: "Evicted"}, nil
}

// A pod that may have been ended is not started, and it is ended once that can be read.
func TestSyncer_UnreadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a")
		p.Spec.HostNetwork = true
		engine, st := fake.New(fake.Config{PullAll: true}), status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
		defer engine.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- st.Start(ctx) }()
		s := syncer(ctx, t, engine, st, nil)
		s.cfg.Failures = &unread{left: 1}
		if result, err := s.Sync(ctx, p); err == nil || result.Terminate {
			t.Errorf("it cannot be read: %+v, %v", result, err)
		}
		if result, err := s.Sync(ctx, p); err != nil || !result.Terminate {
			t.Errorf("it says that the pod was ended: %+v, %v", result, err)
		}
		if made := engine.Calls("CreateSandbox"); len(made) > 0 {
			t.Errorf("made were %v", made)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A pod with the node's network has the node's addresses, whether it has a sandbox or not.
func TestSyncer_PodIPs(t *testing.T) {
	t.Parallel()
	s, p := &Syncer{cfg: Config{HostIPs: []string{"192.0.2.1", "2001:db8::1"}}}, pod("a")
	if got := s.podIPs(p, nil); got != nil {
		t.Errorf("of its own: %v", got)
	}
	p.Spec.HostNetwork = true
	if diff := cmp.Diff(s.cfg.HostIPs, s.podIPs(p, nil)); diff != "" {
		t.Errorf("of the node (-want +got):\n%s", diff)
	}
}

// Of the addresses that a network gives one of each family is told, that of the node's first.
func TestSyncer_Texts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		node  []string
		addrs []string
		want  []string
	}{
		{"one", []string{"192.0.2.1"}, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		{"the other family first", []string{"192.0.2.1", "2001:db8::1"}, []string{"fd00::1", "10.0.0.1"}, []string{"10.0.0.1", "fd00::1"}},
		{"of a node with IPv6 first", []string{"2001:db8::1"}, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::1", "10.0.0.1"}},
		{"several of a family", []string{"192.0.2.1"}, []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}, []string{"10.0.0.1", "fd00::1"}},
		{"only the other family", []string{"192.0.2.1"}, []string{"fd00::1"}, []string{"fd00::1"}},
		{"of a node without addresses", nil, []string{"fd00::1", "10.0.0.1"}, []string{"10.0.0.1", "fd00::1"}},
		{"none", []string{"192.0.2.1"}, nil, nil},
	} {
		var addrs []netip.Addr
		for _, a := range tt.addrs {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		s := &Syncer{cfg: Config{HostIPs: tt.node}}
		if diff := cmp.Diff(tt.want, s.texts(addrs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What is left of a sandbox that could not be started wakes the pod's worker, which does not make one after the other for that.
func TestSyncer_SandboxFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a")
		p.Spec.HostNetwork = true
		engine, st := fake.New(fake.Config{PullAll: true}), status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
		defer engine.Close()
		engine.Fail("StartSandbox", errors.New("no such runtime"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- st.Start(ctx) }()
		s := syncer(ctx, t, engine, st, nil)
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
			if _, err := s.Sync(ctx, p); err == nil {
				t.Fatalf("attempt %d: no error", i)
			}
			result, err := s.Sync(ctx, p)
			if made := len(engine.Calls("CreateSandbox")); err != nil || result.Requeue != wait || made != i+1 {
				t.Errorf("after attempt %d: %d sandboxes, next look after %v, want %v; %v", i, made, result.Requeue, wait, err)
			}
			<-time.After(wait)
		}
		engine.Fail("StartSandbox", nil)
		if _, err := s.Sync(ctx, p); err != nil || len(engine.Calls("StartContainer")) != 1 {
			t.Errorf("%d containers were started; %v", len(engine.Calls("StartContainer")), err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// running starts a pod, has something done with its syncer, and returns what pods were told.
func running(t *testing.T, p *corev1.Pod, do func(ctx context.Context, s *Syncer, engine *fake.Runtime)) (told []string) {
	t.Helper()
	engine, st := fake.New(fake.Config{PullAll: true}), status.NewManager(clientfake.NewClientset(p), func(*corev1.Pod) *corev1.Pod { return nil }, func(types.UID) {})
	defer engine.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.Start(ctx) }()
	s := syncer(ctx, t, engine, st, func(container.ContainerType, string) {})
	do(ctx, s, engine)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	recorder, ok := s.cfg.Recorder.(*record.FakeRecorder)
	if !ok {
		t.Fatalf("events go to %T", s.cfg.Recorder)
	}
	close(recorder.Events)
	for e := range recorder.Events {
		told = append(told, e)
	}
	return told
}

// missing is a network that is not there.
type missing struct{ network.Plugin }

func (missing) Ready() error { return errors.New("no configuration") }

// While there is no network a pod that needs one gets no sandbox, and an event says why.
func TestSyncer_NetworkNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for host, want := range map[bool][]string{
			false: {"Warning NetworkNotReady network is not ready: container runtime network not ready: no configuration"}, true: nil,
		} {
			p := pod("a")
			p.Spec.HostNetwork = host
			told := running(t, p, func(ctx context.Context, s *Syncer, engine *fake.Runtime) {
				s.cfg.Network = missing{}
				if _, err := s.Sync(ctx, p); (err != nil) == host || len(engine.Calls("CreateSandbox")) > 0 != host {
					t.Errorf("with the node's network %t: %v", host, err)
				}
			})
			if got := warnings(told); !slices.Equal(got, want) {
				t.Errorf("with the node's network %t: told %q", host, got)
			}
		}
	})
}

// groupless are cgroups that cannot be made.
type groupless struct{ nothing }

func (groupless) EnsurePod(*corev1.Pod) (string, error) {
	return "", errors.New("no space left on device")
}

// A pod whose cgroup cannot be made is told why it does not start.
func TestSyncer_NoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a")
		p.Spec.HostNetwork = true
		told := running(t, p, func(ctx context.Context, s *Syncer, engine *fake.Runtime) {
			s.cfg.Cgroups = groupless{}
			if _, err := s.Sync(ctx, p); err == nil || len(engine.Calls("CreateSandbox")) > 0 {
				t.Errorf("it has started: %v", err)
			}
		})
		want := []string{"Warning FailedCreatePodContainer unable to ensure pod container exists: no space left on device"}
		if got := warnings(told); !slices.Equal(got, want) {
			t.Errorf("told %q", got)
		}
	})
}

func warnings(told []string) []string {
	return slices.DeleteFunc(told, func(e string) bool { return !strings.HasPrefix(e, corev1.EventTypeWarning) })
}

// What the engine has of a pod and cannot be found out is told of the pod, unless the engine does not answer at all.
func TestSyncer_FailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for err, want := range map[error][]string{
			errors.New("broken"):     {"Warning FailedSync error determining status: broken", "Warning FailedSync error determining status: broken"},
			container.ErrUnavailable: nil,
		} {
			p := pod("a")
			told := running(t, p, func(ctx context.Context, s *Syncer, _ *fake.Runtime) {
				s.cfg.Observe = func(context.Context, types.UID) (*observed.Pod, error) { return nil, err }
				_, serr := s.Sync(ctx, p)
				if terr := s.Terminate(ctx, p, time.Second); !errors.Is(serr, err) || !errors.Is(terr, err) {
					t.Errorf("%v: %v, %v", err, serr, terr)
				}
			})
			if got := warnings(told); !slices.Equal(got, want) {
				t.Errorf("%v: told %q", err, got)
			}
		}
	})
}

// Nothing is probed of a container that has stopped, however long its sandbox takes to go.
func TestSyncer_ProbesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("a")
		p.Spec.HostNetwork = true
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1}
		told := running(t, p, func(ctx context.Context, s *Syncer, engine *fake.Runtime) {
			for range 2 { // the second sees the container that runs
				if _, err := s.Sync(ctx, p); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(5 * time.Second)
			if len(engine.Calls("Exec")) == 0 {
				t.Error("the container that runs is not probed")
			}
			release := engine.Hang("StopSandbox", "")
			ended := make(chan error, 1)
			go func() { ended <- s.Terminate(ctx, p, time.Second) }()
			<-time.After(time.Minute)
			release()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		if got := warnings(told); len(got) > 0 {
			t.Errorf("told %q", got)
		}
	})
}

// A pod that the kubelet ends by its own decision and that does not end in time is told of, once; one that its user ends is not.
func TestSyncer_ExceededGracePeriod(t *testing.T) {
	const late = "Warning ExceededGracePeriod Container runtime did not kill the pod within specified grace period."
	for _, tc := range []struct {
		name    string
		failure *status.Failure
		grace   time.Duration
		took    time.Duration
		want    []string
	}{
		{"evicted", &status.Failure{Reason: "Evicted", Clear: true, Transient: true}, 20 * time.Second, 31 * time.Second, []string{late}},
		{"in time", &status.Failure{Reason: "Evicted", Clear: true, Transient: true}, 20 * time.Second, 29 * time.Second, nil},
		{"at once", &status.Failure{Reason: "Preempting", Disrupted: true, Transient: true}, time.Second, 9 * time.Second, nil},
		{"too long", &status.Failure{Reason: "Preempting", Disrupted: true, Transient: true}, time.Second, 11 * time.Second, []string{late}},
		{"by its deadline", &status.Failure{Reason: "DeadlineExceeded"}, 20 * time.Second, time.Hour, nil},
		{"by its user", nil, 20 * time.Second, time.Hour, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pod("a")
				p.Spec.HostNetwork = true
				told := running(t, p, func(ctx context.Context, s *Syncer, engine *fake.Runtime) {
					if _, err := s.Sync(ctx, p); err != nil {
						t.Fatal(err)
					}
					s.notes(p.UID).failure = tc.failure
					release := engine.Hang("StopContainer", "")
					ended := make(chan error, 1)
					go func() { ended <- s.Terminate(ctx, p, tc.grace) }()
					<-time.After(tc.took)
					release()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
				if got := warnings(told); !slices.Equal(got, tc.want) {
					t.Errorf("told %q, want %q", got, tc.want)
				}
			})
		})
	}
}
