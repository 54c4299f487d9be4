// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

const ns = "default"

// budgets is the part of disruption budgets that evictions use.
var budgets = &registry.Resource[*policyv1.PodDisruptionBudget]{
	Kind:    policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	Name:    "poddisruptionbudgets",
	New:     func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
	NewList: func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
	Spec:    func(b *policyv1.PodDisruptionBudget) any { return &b.Spec },
	Status:  &registry.Status[*policyv1.PodDisruptionBudget]{},
}

func policy() registry.Group {
	return registry.Group{
		Name:        policyv1.GroupName,
		AddToScheme: policyv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{budgets}}},
	}
}

type server struct {
	*kubernetes.Clientset
	config *rest.Config
	ctx    context.Context
}

func serve(t *testing.T, deps registry.Config, groups ...registry.Group) server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	config := registrytest.Serve(t, deps, append([]registry.Group{core()}, groups...)...)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return server{client, config, ctx}
}

func (s server) create(t *testing.T, mutate func(p *corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := valid()
	if mutate != nil {
		mutate(p)
	}
	made, err := s.CoreV1().Pods(ns).Create(s.ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s server) get(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := s.CoreV1().Pods(ns).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run makes a pod that runs on a node; ready as told.
func (s server) run(t *testing.T, ready corev1.ConditionStatus, mutate func(p *corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := s.create(t, func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		if mutate != nil {
			mutate(p)
		}
	})
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	p, err := s.CoreV1().Pods(ns).UpdateStatus(s.ctx, p, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBinding(t *testing.T) {
	s := serve(t, registry.Config{})
	p := s.create(t, func(p *corev1.Pod) { p.Labels = map[string]string{"mine": "1", "zone": "y"} })
	if p.Status.Phase != corev1.PodPending || p.Status.QOSClass != corev1.PodQOSBestEffort || p.Generation != 1 {
		t.Errorf("new pod has phase %q, class %q, generation %d", p.Status.Phase, p.Status.QOSClass, p.Generation)
	}
	bind := func(target corev1.ObjectReference, mutate func(*corev1.Binding)) error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: ns}, Target: target}
		if mutate != nil {
			mutate(b)
		}
		return s.CoreV1().Pods(ns).Bind(s.ctx, b, metav1.CreateOptions{})
	}
	if err := bind(corev1.ObjectReference{Kind: "Pod", Name: "n"}, nil); !apierrors.IsInvalid(err) {
		t.Errorf("binding to a pod = %v, want Invalid", err)
	}
	if err := bind(corev1.ObjectReference{Name: "n"}, func(b *corev1.Binding) { b.UID = "other" }); !apierrors.IsConflict(err) {
		t.Errorf("binding of another pod of this name = %v, want Conflict", err)
	}
	err := bind(corev1.ObjectReference{Kind: "Node", Name: "n"}, func(b *corev1.Binding) {
		b.Annotations = map[string]string{"a": "1", "pod.beta.kubernetes.io/init-containers": "[]"}
		b.Labels = map[string]string{"zone": "z"}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := s.get(t, p.Name)
	if got.Spec.NodeName != "n" || got.Annotations["a"] != "1" || got.Labels["mine"] != "1" || got.Labels["zone"] != "z" || len(got.Annotations) != 1 {
		t.Errorf("bound pod is %v on %q", got.ObjectMeta, got.Spec.NodeName)
	}
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions are %v", c)
	}
	err = bind(corev1.ObjectReference{Name: "m"}, nil)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `pod p is already assigned to node "n"`) {
		t.Errorf("second binding = %v", err)
	}

	s.create(t, func(p *corev1.Pod) {
		p.Name, p.Spec.SchedulingGates = "gated", []corev1.PodSchedulingGate{{Name: "g"}}
	})
	if c := s.get(t, "gated").Status.Conditions; len(c) != 1 || c[0].Reason != corev1.PodReasonSchedulingGated {
		t.Errorf("conditions of a gated pod are %v", c)
	}
	// The old way: posting to bindings.
	post := func(name string) error {
		return s.CoreV1().RESTClient().Post().Namespace(ns).Resource("bindings").Body(&corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Name: "n"},
		}).Do(s.ctx).Error()
	}
	if err := post("gated"); !apierrors.IsConflict(err) {
		t.Errorf("binding of a gated pod = %v, want Conflict", err)
	}
	s.create(t, func(p *corev1.Pod) { p.Name = "old" })
	if err := post("old"); err != nil {
		t.Errorf("post to bindings: %v", err)
	}
}

func TestGracefulDeletion(t *testing.T) {
	s := serve(t, registry.Config{})
	tests := []struct {
		name    string
		mutate  func(*corev1.Pod)
		options metav1.DeleteOptions
		want    int64 // seconds of grace, -1 if gone
	}{
		{name: "not scheduled", mutate: func(*corev1.Pod) {}, want: -1},
		{name: "default", mutate: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, want: 30},
		{name: "own period", mutate: func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "n", new(int64(7))
		}, want: 7},
		{name: "asked for", mutate: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(5))}, want: 5},
		{name: "negative", mutate: func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "n", new(int64(-3))
		}, want: 1},
		{name: "by force", mutate: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, want: -1},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := s.create(t, func(p *corev1.Pod) { tc.mutate(p); p.Name += string(rune('a' + i)) })
			if err := s.CoreV1().Pods(ns).Delete(s.ctx, p.Name, tc.options); err != nil {
				t.Fatal(err)
			}
			got, err := s.CoreV1().Pods(ns).Get(s.ctx, p.Name, metav1.GetOptions{})
			if tc.want < 0 {
				if !apierrors.IsNotFound(err) {
					t.Errorf("get = %v, want NotFound", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.DeletionGracePeriodSeconds == nil || *got.DeletionGracePeriodSeconds != tc.want {
				t.Errorf("grace is %v, want %d", got.DeletionGracePeriodSeconds, tc.want)
			}
		})
	}
}

func TestEviction(t *testing.T) {
	s := serve(t, registry.Config{}, policy())
	guarded := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Name, p.Labels = name, map[string]string{"app": "a"} }
	}
	evict := func(name string, mutate func(*policyv1.Eviction)) error {
		e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
		if mutate != nil {
			mutate(e)
		}
		// Clients would wait and try again on 429.
		return s.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(ns).Resource("pods").Name(name).SubResource("eviction").Body(e).Do(s.ctx).Error()
	}
	b, err := s.PolicyV1().PodDisruptionBudgets(ns).Create(s.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, corev1.ConditionTrue, guarded("one"))
	s.run(t, corev1.ConditionTrue, guarded("two"))
	s.run(t, corev1.ConditionFalse, guarded("sick"))
	s.run(t, corev1.ConditionTrue, func(p *corev1.Pod) { p.Name = "free" })

	if err := evict("one", nil); !apierrors.IsTooManyRequests(err) || !hasCause(err, "still being processed") {
		t.Errorf("eviction before the budget is known = %v", err)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 3}
	if _, err := s.PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(s.ctx, b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evict("one", func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if p := s.get(t, "one"); p.DeletionTimestamp != nil {
		t.Error("a dry run deleted the pod")
	}
	if err := evict("one", nil); err != nil {
		t.Fatalf("eviction within the budget: %v", err)
	}
	p := s.get(t, "one")
	if p.DeletionTimestamp == nil {
		t.Error("the evicted pod is not being deleted")
	}
	if c := p.Status.Conditions[len(p.Status.Conditions)-1]; c.Type != corev1.DisruptionTarget || c.Reason != "EvictionByEvictionAPI" {
		t.Errorf("last condition is %v", c)
	}
	b, err = s.PolicyV1().PodDisruptionBudgets(ns).Get(s.ctx, "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Status.DisruptedPods["one"]; !ok || b.Status.DisruptionsAllowed != 0 {
		t.Errorf("budget after eviction: %+v", b.Status)
	}
	if err := evict("two", nil); !apierrors.IsTooManyRequests(err) || !hasCause(err, "The disruption budget b does not allow evicting pods currently") {
		t.Errorf("eviction over the budget = %v", err)
	}
	if err := evict("sick", nil); err != nil {
		t.Errorf("eviction of a pod that is not ready: %v", err)
	}
	if err := evict("free", nil); err != nil {
		t.Errorf("eviction without budget: %v", err)
	}
	if err := evict("none", nil); !apierrors.IsNotFound(err) {
		t.Errorf("eviction of no pod = %v, want NotFound", err)
	}
	s.create(t, guarded("pending"))
	if err := evict("pending", nil); err != nil {
		t.Errorf("eviction of a pending pod: %v", err)
	}
	if err := evict("two", func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("x"))}}
	}); err == nil {
		t.Error("eviction of another pod of this name was accepted")
	}
	if p := s.get(t, "two"); p.DeletionTimestamp != nil {
		t.Error("another pod of this name is being deleted")
	}
}

func hasCause(err error, text string) bool {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if strings.Contains(c.Message, text) {
			return true
		}
	}
	return false
}

func TestEphemeralContainers(t *testing.T) {
	s := serve(t, registry.Config{})
	p := s.create(t, nil)
	add := func(name, image string) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: image}, TargetContainerName: "c",
		})
	}
	add("debug", "busybox:1")
	p.Labels = map[string]string{"x": "y"} // ignored
	got, err := s.CoreV1().Pods(ns).UpdateEphemeralContainers(s.ctx, p.Name, p, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.EphemeralContainers) != 1 || got.Generation != 2 || len(got.Labels) != 0 {
		t.Errorf("pod has %d ephemeral containers, generation %d, labels %v", len(got.Spec.EphemeralContainers), got.Generation, got.Labels)
	}
	if policy := got.Spec.EphemeralContainers[0].ImagePullPolicy; policy != corev1.PullIfNotPresent {
		t.Errorf("pull policy is %q", policy)
	}
	for name, change := range map[string]func(){
		"removed": func() { p.Spec.EphemeralContainers = nil },
		"changed": func() { p.Spec.EphemeralContainers[0].Image = "other" },
		"with port": func() {
			add("e", "i")
			p.Spec.EphemeralContainers[1].Ports = []corev1.ContainerPort{{ContainerPort: 1}}
		},
		"same name": func() { add("c", "i") },
		"no target": func() { add("e", "i"); p.Spec.EphemeralContainers[1].TargetContainerName = "none" },
	} {
		t.Run(name, func(t *testing.T) {
			p = got.DeepCopy()
			change()
			if _, err := s.CoreV1().Pods(ns).UpdateEphemeralContainers(s.ctx, p.Name, p, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("got %v, want Invalid", err)
			}
		})
	}
}

func TestPatchParts(t *testing.T) {
	s := serve(t, registry.Config{})
	p := s.create(t, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	})
	// As kubectl debug does it.
	body := `{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox","stdin":true,"tty":true}]}}`
	got, err := s.CoreV1().Pods(ns).Patch(s.ctx, p.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "ephemeralcontainers")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.EphemeralContainers) != 1 {
		t.Errorf("%d ephemeral containers, want 1", len(got.Spec.EphemeralContainers))
	}
	// What the subresource does not write is left as it is.
	body = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"ignored","resources":{"requests":{"cpu":"2"}}}]}}`
	got, err = s.CoreV1().Pods(ns).Patch(s.ctx, p.Name, types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "m", Force: new(true)}, "resize")
	if err != nil {
		t.Fatal(err)
	}
	if cpu := got.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "2" || got.Spec.Containers[0].Image != "i" {
		t.Errorf("cpu %s, image %s", cpu, got.Spec.Containers[0].Image)
	}
	if got.Generation != 3 {
		t.Errorf("generation is %d, want 3", got.Generation)
	}
}

// Whoever marks a pod that it saw a while ago says which one it means.
func TestPatchStatus_OtherUID(t *testing.T) {
	s := serve(t, registry.Config{})
	p := s.create(t, func(*corev1.Pod) {})
	patch := func(uid types.UID) error {
		body := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"message":"marked"}}`, uid)
		_, err := s.CoreV1().Pods(ns).Patch(s.ctx, p.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch(p.UID); err != nil {
		t.Error(err)
	}
	if err := patch("another"); !apierrors.IsInvalid(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) || !strings.Contains(err.Error(), "metadata.uid") {
		t.Errorf("got %v, want that metadata.uid is invalid", err)
	}
}

func TestResize(t *testing.T) {
	s := serve(t, registry.Config{})
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	p := s.create(t, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")}
	})
	resized := p.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = list("500m", "1Gi")
	resized.Spec.Containers[0].Image = "other" // ignored
	got, err := s.CoreV1().Pods(ns).UpdateResize(s.ctx, p.Name, resized, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Generation != 2 || got.Spec.Containers[0].Image != "i" {
		t.Errorf("generation %d, image %q", got.Generation, got.Spec.Containers[0].Image)
	}
	if diff := cmp.Diff(resized.Spec.Containers[0].Resources.Requests.Cpu().String(), got.Spec.Containers[0].Resources.Requests.Cpu().String()); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(c *corev1.Container){
		"class":          func(c *corev1.Container) { c.Resources.Requests = c.Resources.Limits },
		"request gone":   func(c *corev1.Container) { delete(c.Resources.Limits, "cpu"); delete(c.Resources.Requests, "cpu") },
		"other resource": func(c *corev1.Container) { c.Resources.Limits["ephemeral-storage"] = resource.MustParse("1Gi") },
		"renamed":        func(c *corev1.Container) { c.Name = "d" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := got.DeepCopy()
			change(&bad.Spec.Containers[0])
			if _, err := s.CoreV1().Pods(ns).UpdateResize(s.ctx, p.Name, bad, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("got %v, want Invalid", err)
			}
		})
	}
}
