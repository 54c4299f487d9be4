// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/test/integration/framework"
)

// Environment variables of these tests.
const (
	// killsVariable is how often TestFaults_Killed kills the controllers; 30 if it is not set. Set it to 100 for a long run.
	killsVariable = "MINIK8S_TEST_KILLS"
	// seedVariable is the seed of the faults. If it is not set each run has its own, which a failing test tells.
	seedVariable = "MINIK8S_TEST_SEED"
)

// number returns the environment variable as a number.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text, ok := os.LookupEnv(variable)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// chance is a source of random numbers that several goroutines use.
type chance struct {
	mu sync.Mutex
	// source is guarded by mu.
	source *rand.Rand
}

// newChance returns a source whose seed is told if the test fails.
func newChance(t *testing.T) *chance {
	t.Helper()
	seed := number(t, seedVariable, int(time.Now().UnixNano()%1_000_000))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed was %s=%d", seedVariable, seed)
		}
	})
	return &chance{source: rand.New(rand.NewPCG(uint64(seed), 0))}
}

// below returns a number from 0 to n-1.
func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.source.IntN(n)
}

// The faults.
const (
	conflict  = "conflict"         // 409, nothing is written
	lost      = "answer lost"      // it is written, but the connection breaks before the answer
	timeout   = "timeout"          // it is written, but the server answers that it took too long
	busy      = "too many"         // 429 with Retry-After
	cut       = "watch cut"        // a watch ends in the middle of an event
	delay     = "watch delayed"    // events come late
	unwritten = "connection reset" // nothing is written, the connection breaks
)

// faults are what befalls the requests of one client: a fault per five writes or so, until there have been enough of them.
type faults struct {
	*chance
	mu sync.Mutex
	// left and count are guarded by mu.
	left  int
	count map[string]int
}

func newFaults(t *testing.T, limit int) *faults {
	t.Helper()
	return &faults{chance: newChance(t), left: limit, count: map[string]int{}}
}

// wrap is a rest.Config.Wrap.
func (f *faults) wrap(next http.RoundTripper) http.RoundTripper { return faulty{f, next} }

// take reports whether a fault that has been drawn is to happen.
func (f *faults) take(kind string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return false
	}
	f.left--
	f.count[kind]++
	return true
}

// check fails the test if a kind of fault has not occurred: then nothing was tested.
func (f *faults) check(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kind := range []string{conflict, lost, timeout, busy, cut, delay, unwritten} {
		if f.count[kind] == 0 {
			t.Errorf("the fault %q did not occur: %v", kind, f.count)
		}
	}
}

type faulty struct {
	*faults
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		resp, err := f.next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") == "true" {
			resp.Body = &brokenBody{ReadCloser: resp.Body, faults: f.faults, left: 2_000 + f.below(60_000), closed: make(chan struct{})}
		}
		return resp, err
	}
	kind := []string{conflict, lost, timeout, busy, unwritten}[f.below(5)]
	if f.below(5) > 0 || kind == conflict && r.Method == http.MethodPost || !f.take(kind) {
		return f.next.RoundTrip(r)
	}
	switch kind {
	case conflict:
		return answer(r, http.StatusConflict, metav1.StatusReasonConflict), nil
	case busy:
		return answer(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
	case unwritten:
		return nil, io.ErrUnexpectedEOF
	}
	resp, err := f.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	if kind == timeout {
		return answer(r, http.StatusGatewayTimeout, metav1.StatusReasonTimeout), nil
	}
	return nil, io.ErrUnexpectedEOF
}

// answer is what the API server says instead of doing as it is told.
func answer(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected",
	})
	if err != nil {
		panic(err) // a Status can always be rendered
	}
	resp := &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if code == http.StatusTooManyRequests {
		resp.Header.Set("Retry-After", "1")
	}
	return resp
}

// brokenBody is the body of a watch that stutters and breaks off after some bytes.
type brokenBody struct {
	io.ReadCloser
	*faults
	left   int
	once   sync.Once
	closed chan struct{}
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 && b.take(cut) {
		return 0, io.ErrUnexpectedEOF
	}
	if b.below(4) == 0 && b.take(delay) {
		timer := time.NewTimer(time.Duration(b.below(300)) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.closed:
		}
	}
	return n, err
}

func (b *brokenBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// workloads are the controllers under test.
var workloads = []string{"deployment", "replicaset", "daemonset", "statefulset", "job"}

// newManager returns a set of the workload controllers all of whose requests go through wrap.
func newManager(c *framework.Cluster, wrap func(http.RoundTripper) http.RoundTripper, change func(*controllers.Config)) (*controllers.Controllers, error) {
	wrapped := func(config *rest.Config) *rest.Config {
		if wrap != nil {
			config.Wrap(wrap)
		}
		return config
	}
	config := controllers.Config{
		RESTConfig: wrapped(c.User("system:kube-controller-manager")),
		ClientFor: func(account string) (*rest.Config, error) {
			return wrapped(c.User("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system")), nil
		},
		Enabled: workloads,
	}
	if change != nil {
		change(&config)
	}
	return controllers.New(config)
}

// running is a manager that runs.
type running struct {
	end   context.CancelFunc
	ended chan struct{}
	// err is why it ended, when ended is closed.
	err error
}

// startManager runs a manager until the test ends at the latest.
func startManager(t *testing.T, c *framework.Cluster, wrap func(http.RoundTripper) http.RoundTripper, change func(*controllers.Config)) *running {
	t.Helper()
	manager, err := newManager(c, wrap, change)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{end: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = manager.Start(ctx)
	}()
	t.Cleanup(func() {
		r.end()
		<-r.ended
	})
	return r
}

// stop ends the manager and waits until nothing of it runs any more.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.end()
	<-r.ended
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		t.Errorf("the controllers ended: %v", r.err)
	}
}

// observed is all pods of a namespace, and the sizes of ReplicaSets, at one moment.
type observed struct {
	pods map[types.UID]*corev1.Pod
	sets map[types.UID]*appsv1.ReplicaSet
	// most is the largest size that each ReplicaSet has had.
	most map[types.UID]int
}

// active are the pods that have not ended and are not deleted.
func (o *observed) active() (all, ready int) {
	for _, p := range o.pods {
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			all++
			if isReady(p) {
				ready++
			}
		}
	}
	return all, ready
}

// guard calls check with every state that the namespace goes through. check returns what is wrong with it.
func guard(t *testing.T, c kubernetes.Interface, ns string, check func(*observed) string) (stop func()) {
	t.Helper()
	o := &observed{pods: map[types.UID]*corev1.Pod{}, sets: map[types.UID]*appsv1.ReplicaSet{}, most: map[types.UID]int{}}
	var mu sync.Mutex
	found := map[string]int{}
	pods, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		o.pods[pods.Items[i].UID] = &pods.Items[i]
	}
	sets, err := c.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	see := func(e watch.EventType, rs *appsv1.ReplicaSet) {
		o.sets[rs.UID] = rs
		o.most[rs.UID] = max(o.most[rs.UID], int(*rs.Spec.Replicas))
		if e == watch.Deleted {
			delete(o.sets, rs.UID)
		}
	}
	for i := range sets.Items {
		see(watch.Added, &sets.Items[i])
	}
	judge := func(version string, update func()) {
		mu.Lock()
		defer mu.Unlock()
		update()
		wrong := check(o)
		if wrong != "" && version != "" {
			// The two watches are not in step: the sets are looked at as they were when the pod changed.
			then := metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
			sets, err := c.AppsV1().ReplicaSets(ns).List(context.Background(), then)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range sets.Items {
				see(watch.Modified, &sets.Items[i])
			}
			wrong = check(o)
		}
		if wrong != "" {
			found[wrong]++
		}
	}
	stopSets := framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return c.AppsV1().ReplicaSets(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: sets.ResourceVersion})
	}, func(e watch.EventType, rs *appsv1.ReplicaSet) { judge("", func() { see(e, rs) }) })
	changes := 0
	stopPods := framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return c.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	}, func(e watch.EventType, p *corev1.Pod) {
		judge(p.ResourceVersion, func() {
			changes++
			o.pods[p.UID] = p
			if e == watch.Deleted {
				delete(o.pods, p.UID)
			}
		})
	})
	return sync.OnceFunc(func() {
		stopSets()
		stopPods()
		mu.Lock()
		defer mu.Unlock()
		for _, wrong := range slices.Sorted(maps.Keys(found)) {
			t.Errorf("%s (%d times)", wrong, found[wrong])
		}
		if changes == 0 {
			t.Error("no pod changed: nothing was checked")
		}
	})
}

// within is a check that there are neither more pods than most nor fewer ready ones than least.
func within(most, least int) func(*observed) string {
	return func(o *observed) string {
		switch all, ready := o.active(); {
		case all > most:
			return fmt.Sprintf("there are %d pods, more than %d", all, most)
		case ready < least:
			return fmt.Sprintf("%d pods are ready, fewer than %d", ready, least)
		}
		return ""
	}
}

// rolling is a check of a Deployment in the midst of a rollout: its ReplicaSets want no more than most together, none has more
// pods than it ever wanted, and no fewer than least are ready.
func rolling(most, least int) func(*observed) string {
	return func(o *observed) string {
		size := 0
		for _, rs := range o.sets {
			size += int(*rs.Spec.Replicas)
		}
		if size > most {
			return fmt.Sprintf("the replica sets want %d pods, more than %d", size, most)
		}
		have := map[types.UID]int{}
		for _, p := range o.pods {
			if ref := metav1.GetControllerOf(p); ref != nil && p.DeletionTimestamp == nil {
				have[ref.UID]++
			}
		}
		for uid, n := range have {
			if n > o.most[uid] {
				return fmt.Sprintf("a replica set has %d pods and never wanted more than %d", n, o.most[uid])
			}
		}
		if _, ready := o.active(); ready < least {
			return fmt.Sprintf("%d pods are ready, fewer than %d", ready, least)
		}
		return ""
	}
}

func rollingDeployment(name string, replicas, surge, unavailable int) *appsv1.Deployment {
	d := framework.Deployment(name, int32(replicas))
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
		MaxSurge: new(intstr.FromInt(surge)), MaxUnavailable: new(intstr.FromInt(unavailable)),
	}}
	return d
}

// nodesFor adds nodes with room for many pods.
func nodesFor(t *testing.T, c *framework.Cluster, count int) {
	t.Helper()
	for i := range count {
		spec := node(fmt.Sprintf("node-%d", i))
		spec.Capacity = framework.Resources("64", "64Gi")
		c.AddNode(t, spec)
	}
}

// TestFaults_Bounds runs the workload controllers through all faults at once.
func TestFaults_Bounds(t *testing.T) {
	c := framework.Start(t, framework.Options{Scheduler: true, Controllers: []string{"nodelifecycle"}})
	const nodes = 4
	nodesFor(t, c, nodes)
	f := newFaults(t, 600)
	startManager(t, c, f.wrap, nil)
	t.Cleanup(func() { f.check(t) })
	versions := []string{"v2", "v3", "v4"}

	t.Run("deployment", func(t *testing.T) {
		t.Parallel()
		ns := c.Namespace(t)
		if _, err := c.Client.AppsV1().Deployments(ns).Create(t.Context(), rollingDeployment("web", 8, 2, 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		rolledOut(t, c.Client, ns, "web")
		stop := guard(t, c.Client, ns, rolling(10, 7))
		for _, version := range versions {
			apply(t, c.Client, ns, "web", image(version))
			rolledOut(t, c.Client, ns, "web")
		}
		stop()
		framework.Eventually(t, "only the new pods are left", func() error {
			return allAre(c.Client, ns, 8, versions[len(versions)-1])
		})
	})
	t.Run("replicaset", func(t *testing.T) {
		t.Parallel()
		ns := c.Namespace(t)
		rs := framework.ReplicaSet("web", 0)
		if _, err := c.Client.AppsV1().ReplicaSets(ns).Create(t.Context(), rs, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		stop := guard(t, c.Client, ns, within(12, 0))
		for _, n := range []int{12, 3, 12, 1, 9} {
			patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
			if _, err := c.Client.AppsV1().ReplicaSets(ns).Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			framework.Eventually(t, fmt.Sprintf("there are %d pods", n), func() error {
				got, err := c.Client.AppsV1().ReplicaSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if got.Status.ObservedGeneration != got.Generation || int(got.Status.AvailableReplicas) != n || int(got.Status.Replicas) != n {
					return fmt.Errorf("status %+v", got.Status)
				}
				return allAre(c.Client, ns, n, "v1")
			})
		}
		stop()
	})
	t.Run("daemonset", func(t *testing.T) {
		t.Parallel()
		ns := c.Namespace(t)
		labels := map[string]string{"app": "agent"}
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: framework.PodSpec("v1")},
		}}
		if _, err := c.Client.AppsV1().DaemonSets(ns).Create(t.Context(), ds, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		daemonsAre(t, c, ns, nodes, "v1")
		stop := guard(t, c.Client, ns, within(nodes, nodes-1))
		for _, version := range versions {
			if _, err := c.Client.AppsV1().DaemonSets(ns).Patch(t.Context(), "agent", types.MergePatchType, []byte(image(version)), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			daemonsAre(t, c, ns, nodes, version)
		}
		stop()
	})
	t.Run("job", func(t *testing.T) {
		t.Parallel()
		oneJob(t, c)
	})
	for name, change := range map[string]func(*appsv1.StatefulSet){"ordered": func(*appsv1.StatefulSet) {}, "parallel": parallelPods} {
		t.Run(name+" statefulset", func(t *testing.T) {
			t.Parallel()
			ns := c.Namespace(t)
			createSet(t, c.Client, ns, statefulSet("web", 5, change))
			setRolledOut(t, c.Client, ns, "web")
			stop := guard(t, c.Client, ns, within(5, 4))
			for _, version := range versions {
				applySet(t, c.Client, ns, "web", image(version))
				setRolledOut(t, c.Client, ns, "web")
				if err := allAre(c.Client, ns, 5, version); err != nil {
					t.Error(err)
				}
			}
			stop()
		})
	}
}

// oneJob runs a job whose pods are let end well by the test, and checks that none runs in vain.
func oneJob(t *testing.T, c *framework.Cluster) {
	t.Helper()
	const completions, parallelism = 12, 3
	ns := c.Namespace(t)
	spec := framework.PodSpec("v1")
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, Spec: batchv1.JobSpec{
		Completions: ptr.To[int32](completions), Parallelism: ptr.To[int32](parallelism), Template: corev1.PodTemplateSpec{Spec: spec},
	}}
	stop := guard(t, c.Client, ns, within(parallelism, 0))
	ended := map[types.UID]bool{}
	stopPods := framework.Observe(t, func(ctx context.Context) (watch.Interface, error) {
		return c.Client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	}, func(_ watch.EventType, p *corev1.Pod) {
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || ended[p.UID] {
			return
		}
		patch := `{"status":{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False"}]}}`
		_, err := c.Client.CoreV1().Pods(ns).Patch(context.Background(), p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Error(err)
		}
		ended[p.UID] = true
	})
	if _, err := c.Client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the job is complete", func() error {
		got, err := c.Client.BatchV1().Jobs(ns).Get(t.Context(), "sum", metav1.GetOptions{})
		if err == nil && (got.Status.CompletionTime == nil || got.Status.Succeeded != completions || got.Status.Failed != 0) {
			return fmt.Errorf("status %+v", got.Status)
		}
		return err
	})
	stop()
	stopPods()
	if len(ended) != completions {
		t.Errorf("%d pods have ended, want %d", len(ended), completions)
	}
}

// allAre returns an error unless the namespace has count pods, all of that image.
func allAre(c kubernetes.Interface, ns string, count int, image string) error {
	got, err := images(c, ns)
	if err != nil {
		return err
	}
	if len(got) != count || slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " "+image) }) {
		return fmt.Errorf("the pods are %v", got)
	}
	return nil
}

func daemonsAre(t *testing.T, c *framework.Cluster, ns string, count int, image string) {
	t.Helper()
	framework.Eventually(t, "the daemons run "+image, func() error {
		ds, err := c.Client.AppsV1().DaemonSets(ns).Get(t.Context(), "agent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := ds.Status; s.ObservedGeneration != ds.Generation || int(s.NumberAvailable) != count || int(s.UpdatedNumberScheduled) != count {
			return fmt.Errorf("status %+v", s)
		}
		return allAre(c.Client, ns, count, image)
	})
}

// TestFaults_Killed kills the process of the controllers many times while fifty pods are updated, each time at another write, and
// checks every state in between.
func TestFaults_Killed(t *testing.T) {
	kills := number(t, killsVariable, 30)
	c := framework.Start(t, framework.Options{Scheduler: true, Controllers: []string{"nodelifecycle"}})
	nodesFor(t, c, 2)
	random := newChance(t)
	deployments, sets := c.Namespace(t), c.Namespace(t)
	d := newDoor(t, c)
	d.start(t, 0, false)
	if _, err := c.Client.AppsV1().Deployments(deployments).Create(t.Context(), rollingDeployment("web", 50, 5, 5), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createSet(t, c.Client, sets, statefulSet("web", 10, parallelPods))
	rolledOut(t, c.Client, deployments, "web")
	setRolledOut(t, c.Client, sets, "web")
	stopDeployments := guard(t, c.Client, deployments, rolling(55, 45))
	stopSets := guard(t, c.Client, sets, within(10, 9))
	version := 1
	change := func() {
		version++
		apply(t, c.Client, deployments, "web", image(fmt.Sprintf("v%d", version)))
		applySet(t, c.Client, sets, "web", image(fmt.Sprintf("v%d", version)))
	}
	for range kills {
		// Some rollouts are overtaken by another one.
		if random.below(5) == 0 {
			change()
		}
		victim := d.start(t, 1+random.below(25), random.below(2) == 0)
		framework.Eventually(t, "the process is killed", func() error {
			select {
			case <-victim.ended:
				return nil
			default:
			}
			web, err := c.Client.AppsV1().Deployments(deployments).Get(t.Context(), "web", metav1.GetOptions{})
			if err == nil && web.Status.UpdatedReplicas == 50 && web.Status.Replicas == 50 {
				change() // or it would have nothing to write
			}
			return cmp.Or(err, errors.New("it lives"))
		})
	}
	d.start(t, 0, false)
	rolledOut(t, c.Client, deployments, "web")
	setRolledOut(t, c.Client, sets, "web")
	stopDeployments()
	stopSets()
	if version < 3 {
		t.Errorf("there were only %d rollouts", version-1)
	}
	last := fmt.Sprintf("v%d", version)
	framework.Eventually(t, "only the new pods are left", func() error {
		return errors.Join(allAre(c.Client, deployments, 50, last), allAre(c.Client, sets, 10, last))
	})
}

// leases notes which of several managers holds the lease, and which of them write.
type leases struct {
	mu sync.Mutex
	// all is guarded by mu.
	holder     string
	writing    map[string]int
	writes     map[string]int
	cutOff     map[string]bool
	violations []string
}

// of is a rest.Config.Wrap for the manager of that name.
func (l *leases) of(name string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &candidate{l, name, next} }
}

type candidate struct {
	*leases
	name string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *candidate) RoundTrip(r *http.Request) (*http.Response, error) {
	isLease := strings.Contains(r.URL.Path, "/leases")
	// Events tell what was done before; nobody minds if they come late.
	isEvent := strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/")
	switch {
	case isEvent || r.Method == http.MethodGet && !isLease:
		return c.next.RoundTrip(r)
	case isLease:
		return c.elect(r)
	}
	c.begin(r)
	defer c.end()
	return c.next.RoundTrip(r)
}

// elect lets a request for the lease through, unless this manager is cut off from it.
func (c *candidate) elect(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	cutOff := c.cutOff[c.name]
	c.mu.Unlock()
	if cutOff {
		return nil, io.ErrUnexpectedEOF
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet || resp.StatusCode >= 300 {
		return resp, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder != c.name {
		for other, n := range c.writing {
			if other != c.name && n > 0 {
				c.violations = append(c.violations, fmt.Sprintf("%s takes the lease while %s still writes", c.name, other))
			}
		}
		c.holder = c.name
	}
	return resp, nil
}

func (c *candidate) begin(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing[c.name]++
	c.writes[c.name]++
	if c.holder != c.name {
		c.violations = append(c.violations, fmt.Sprintf("%s writes while %s holds the lease: %s %s", c.name, c.holder, r.Method, r.URL.Path))
	}
}

func (c *candidate) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing[c.name]--
}

// TestFaults_TwoManagers lets two sets of controllers compete: the leader is stopped, or cut off from its lease, again and again.
func TestFaults_TwoManagers(t *testing.T) {
	c := framework.Start(t, framework.Options{Scheduler: true, Controllers: []string{"nodelifecycle"}})
	nodesFor(t, c, 2)
	ns := c.Namespace(t)
	l := &leases{writing: map[string]int{}, writes: map[string]int{}, cutOff: map[string]bool{}}
	managers := map[string]*running{}
	start := func(name string) {
		managers[name] = startManager(t, c, l.of(name), func(config *controllers.Config) {
			config.LeaderElection = true // with the lease's own duration: who is cut off from it has a fifth of that to end its writes
		})
	}
	leader := func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.holder
	}
	start("a")
	start("b")
	if _, err := c.Client.AppsV1().Deployments(ns).Create(t.Context(), rollingDeployment("web", 20, 2, 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, c.Client, ns, "web")
	stop := guard(t, c.Client, ns, rolling(22, 18))
	for i := range 6 {
		version := fmt.Sprintf("v%d", i+2)
		apply(t, c.Client, ns, "web", image(version))
		framework.Eventually(t, "the rollout has begun", func() error {
			got, err := images(c.Client, ns)
			if err == nil && !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, " "+version) }) {
				return errors.New("it has not")
			}
			return err
		})
		old := leader()
		if i%2 == 0 {
			managers[old].stop(t)
		} else {
			l.mu.Lock()
			l.cutOff[old] = true
			l.mu.Unlock()
			<-managers[old].ended
			if err := managers[old].err; err == nil || !strings.Contains(err.Error(), "leader election lost") {
				t.Errorf("the manager which lost its lease ended with %v", err)
			}
			l.mu.Lock()
			l.cutOff[old] = false
			l.mu.Unlock()
		}
		framework.Eventually(t, "the other one leads", func() error {
			if leader() == old {
				return errors.New("nobody took over")
			}
			return nil
		})
		rolledOut(t, c.Client, ns, "web")
		start(old)
	}
	stop()
	for _, name := range []string{"a", "b"} {
		managers[name].stop(t)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.violations {
		t.Error(v)
	}
	if l.writes["a"] == 0 || l.writes["b"] == 0 {
		t.Errorf("only one has ever led: %v", l.writes)
	}
}
