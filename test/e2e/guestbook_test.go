// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guestbook is the example, applied to a namespace.
type guestbook struct {
	*kube
	namespace string
	manifests string
	url       string // of the front end, by NodePort
}

// The whole life of examples/guestbook, by kubectl alone wherever a user would take it. The steps build on one another.
func TestGuestbook(t *testing.T) {
	k := shared(t)
	g := &guestbook{kube: k, namespace: k.namespace(t, "guestbook"), manifests: filepath.Join(suite.root, "examples", "guestbook")}
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"apply", g.apply},
		{"get", g.get},
		{"NodePort", g.byNodePort},
		{"ClusterIP", g.byClusterIP},
		{"logs", g.logs},
		{"exec", g.exec},
		{"exec at a terminal", g.execTerminal},
		{"describe", g.describe},
		{"scale and get -w", g.scale},
		{"rollout", g.rollout},
		{"server-side apply", g.serverSideApply},
		{"explain", g.explain},
		{"crash", g.crash},
		{"delete", g.remove},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			t.Fatalf("%s failed: what follows builds on it", s.name)
		}
	}
}

// in runs kubectl in the namespace.
func (g *guestbook) in(t *testing.T, args ...string) string {
	t.Helper()
	return g.kubectl(t, append([]string{"-n", g.namespace}, args...)...)
}

func (g *guestbook) apply(t *testing.T) {
	t.Helper()
	out := g.in(t, "apply", "-f", g.manifests)
	contains(t, out, "configmap/guestbook created", "secret/store created", "service/frontend created", "deployment.apps/frontend created",
		"deployment.apps/store-leader created", "deployment.apps/store-follower created")
	out = g.in(t, "wait", "--for=condition=Available", "deployment", "--all", "--timeout=90s")
	contains(t, out, "deployment.apps/frontend condition met")
	contains(t, g.in(t, "rollout", "status", "deployment/frontend", "--timeout=60s"), `deployment "frontend" successfully rolled out`)
	contains(t, g.in(t, "apply", "-f", g.manifests), "deployment.apps/frontend unchanged", "service/frontend unchanged", "configmap/guestbook unchanged")
	g.in(t, "diff", "-f", g.manifests) // fails if there is a difference
	g.url = g.nodePort(t, g.namespace, "frontend")
}

func (g *guestbook) get(t *testing.T) {
	t.Helper()
	pods := g.in(t, "get", "pods", "-l", "tier=frontend")
	if !regexp.MustCompile(`(?m)^NAME +READY +STATUS +RESTARTS +AGE$`).MatchString(pods) {
		t.Errorf("the columns are not upstream's:\n%s", pods)
	}
	if n := len(regexp.MustCompile(`(?m)^frontend-[a-z0-9]+-[a-z0-9]{5} +2/2 +Running +0 +\d+s`).FindAllString(pods, -1)); n != 3 {
		t.Errorf("%d front ends run, want 3:\n%s", n, pods)
	}
	if out := g.in(t, "get", "deployment", "frontend", "-o", "wide"); !regexp.MustCompile(`(?m)^frontend +3/3 +3 +3 +\S+ +web,log-counter +minik8s.io/guestbook-frontend:1,`).MatchString(out) {
		t.Errorf("get deployment -o wide:\n%s", out)
	}
	if out := g.in(t, "get", "service", "frontend"); !regexp.MustCompile(`(?m)^frontend +NodePort +\d+\.\d+\.\d+\.\d+ +<none> +80:3\d{4}/TCP`).MatchString(out) {
		t.Errorf("get service:\n%s", out)
	}
	contains(t, g.in(t, "get", "endpointslices", "-l", "kubernetes.io/service-name=frontend"), "8080")
	contains(t, g.in(t, "get", "all"), "pod/frontend-", "service/store-leader", "deployment.apps/store-follower", "replicaset.apps/frontend-")
	if node := g.kubectl(t, "get", "nodes"); !regexp.MustCompile(`(?m)^\S+ +Ready +\S+ +\d+\S+ +v1\.37\.`).MatchString(node) {
		t.Errorf("get nodes:\n%s", node)
	}
}

// about is what /api/about answers.
type about struct {
	Pod      string `json:"pod"`
	Version  string `json:"version"`
	Title    string `json:"title"`
	Requests int    `json:"requests"`
}

func (g *guestbook) about(ctx context.Context) (about, error) {
	var a about
	text, err := fetch(ctx, http.MethodGet, g.url+"/api/about", "")
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	return a, err
}

func (g *guestbook) byNodePort(t *testing.T) {
	t.Helper()
	page, err := fetch(t.Context(), http.MethodGet, g.url, "")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, page, "<title>Guestbook</title>") // the title comes from the ConfigMap
	if _, err := fetch(t.Context(), http.MethodPost, g.url+"/api/messages", `{"text":"from the host"}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the message copied to the followers", func(ctx context.Context) error {
		text, err := fetch(ctx, http.MethodGet, g.url+"/api/messages", "")
		if err == nil && !strings.Contains(text, "from the host") {
			err = fmt.Errorf("got %s", text)
		}
		return err
	})
	seen := map[string]bool{}
	eventually(t, 20*time.Second, "answers of all three front ends", func(ctx context.Context) error {
		a, err := g.about(ctx)
		if err != nil {
			return err
		}
		if a.Version != "1" || a.Requests < 1 {
			t.Errorf("got %+v", a)
		}
		if seen[a.Pod] = true; len(seen) < 3 {
			return fmt.Errorf("so far %d", len(seen))
		}
		return nil
	})
}

func (g *guestbook) byClusterIP(t *testing.T) {
	t.Helper()
	tool := func(args ...string) string {
		t.Helper()
		return g.in(t, append([]string{"exec", "deployment/frontend", "-c", "web", "--", "/guestbook"}, args...)...)
	}
	contains(t, tool("get", "http://store-follower/v1/messages"), "from the host")
	contains(t, tool("get", "http://store-leader."+g.namespace+".svc.cluster.local/readyz"), "ok")
	leader, err := g.client.CoreV1().Services(g.namespace).Get(t.Context(), "store-leader", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(tool("lookup", "store-leader")); got != leader.Spec.ClusterIP {
		t.Errorf("store-leader resolves to %q, want %q", got, leader.Spec.ClusterIP)
	}
	if _, err := fetch(t.Context(), http.MethodGet, "http://"+leader.Spec.ClusterIP+"/livez", ""); err != nil {
		t.Errorf("the ClusterIP from the host: %v", err)
	}

	// A pod that reaches its own Service may be its own endpoint.
	pod := g.frontends(t)[0].Name
	eventually(t, 30*time.Second, "a pod answered by itself", func(ctx context.Context) error {
		r, err := g.run(ctx, "-n", g.namespace, "exec", pod, "-c", "web", "--", "/guestbook", "get", "http://frontend/api/about")
		if err == nil && !strings.Contains(r.Stdout, pod) {
			err = fmt.Errorf("got %s", r)
		}
		return err
	})
}

func (g *guestbook) frontends(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := g.client.CoreV1().Pods(g.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "tier=frontend"})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("listing front ends: %d, %v", len(list.Items), err)
	}
	return list.Items
}

func (g *guestbook) logs(t *testing.T) {
	t.Helper()
	contains(t, g.in(t, "logs", "deployment/frontend", "-c", "web"), "listening on :8080")
	contains(t, g.in(t, "logs", "deployment/frontend", "--all-containers", "--prefix"), "log-counter] ", "listening on localhost:9090")
	if out := g.in(t, "logs", "-l", "tier=frontend", "-c", "web", "--tail=1"); strings.Count(out, "\n") != 3 {
		t.Errorf("the last line of each of three pods:\n%s", out)
	}
	pod := g.frontends(t)[0]
	stamped := g.in(t, "logs", pod.Name, "-c", "log-counter", "--timestamps")
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z `).MatchString(stamped) {
		t.Errorf("--timestamps: %s", stamped)
	}
	follow := background(t, g.command(t.Context(), "-n", g.namespace, "logs", "-f", pod.Name, "-c", "web"))
	follow.await(t, 10*time.Second, "listening on")
	if _, err := fetch(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":8080/?follow", ""); err != nil {
		t.Fatalf("reaching the pod's own address: %v", err)
	}
	if _, err := fetch(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":8080/followed", ""); err == nil {
		t.Error("a page that is not there was answered")
	}
	follow.await(t, 10*time.Second, "GET /followed")
}

func (g *guestbook) exec(t *testing.T) {
	t.Helper()
	pod := g.frontends(t)[0].Name
	stderr := g.kubectlFails(t, "-n", g.namespace, "exec", pod, "-c", "web", "--", "/guestbook", "get", "http://localhost:1/")
	contains(t, stderr, "error: Get", "command terminated with exit code 1")
	contains(t, g.kubectlFails(t, "-n", g.namespace, "exec", pod, "-c", "none", "--", "/guestbook"), "container none")
	cmd := g.command(t.Context(), "-n", g.namespace, "exec", "-i", pod, "-c", "web", "--", "/guestbook", "toolbox")
	cmd.Stdin = strings.NewReader("id\ntty\nenv\nls /var/log/guestbook\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("exec -i: %v", err)
	}
	contains(t, string(out), "uid=65532 gid=65532", "terminal: false", "POD_NAME="+pod, "STORE_LEADER_SERVICE_HOST=", "access.log")
}

func (g *guestbook) execTerminal(t *testing.T) {
	t.Helper()
	term := atTerminal(t, g.command(t.Context(), "-n", g.namespace, "exec", "-it", "deployment/frontend", "-c", "web", "--", "/guestbook", "toolbox"))
	term.await(t, 20*time.Second, "guestbook> ")
	term.typeLine(t, "tty")
	term.await(t, 10*time.Second, "terminal: true")
	term.typeLine(t, "get http://store-leader/readyz")
	term.await(t, 10*time.Second, "\nok")
	term.typeLine(t, "exit")
	select {
	case err := <-term.done:
		if err != nil {
			t.Errorf("kubectl exec -it ended with %v:\n%s", err, term)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("kubectl exec -it does not end:\n%s", term)
	}
}

func (g *guestbook) describe(t *testing.T) {
	t.Helper()
	contains(t, g.in(t, "describe", "pod", g.frontends(t)[0].Name), "Controlled By:  ReplicaSet/frontend-", "Ready:          True", "Liveness:",
		"http-get http://:http/livez", "QoS Class:", "Burstable", "Scheduled", "Successfully assigned "+g.namespace+"/frontend-", "Created", "Started")
	contains(t, g.in(t, "describe", "deployment", "frontend"), "3 desired | 3 updated | 3 total | 3 available | 0 unavailable", "NewReplicaSetAvailable", "ScalingReplicaSet")
	contains(t, g.in(t, "describe", "service", "frontend"), "Type:                     NodePort", ":8080")
	node := g.kubectl(t, "describe", "nodes")
	contains(t, node, "KubeletReady", "Allocated resources:", g.namespace, "frontend-", "docker://")
	contains(t, g.in(t, "describe", "secret", "store"), "token:  39 bytes")
}

func (g *guestbook) scale(t *testing.T) {
	t.Helper()
	watch := background(t, g.command(t.Context(), "-n", g.namespace, "get", "pods", "-l", "tier=frontend", "-w", "--output-watch-events"))
	for _, p := range g.frontends(t) {
		watch.await(t, 10*time.Second, p.Name)
	}
	contains(t, g.in(t, "scale", "deployment/frontend", "--replicas=5"), "deployment.apps/frontend scaled")
	g.in(t, "rollout", "status", "deployment/frontend", "--timeout=60s")
	eventually(t, 30*time.Second, "five front ends", g.ready(g.namespace, "tier=frontend", 5))
	for _, p := range g.frontends(t) {
		seen := regexp.MustCompile(`(?m)^(ADDED|MODIFIED) +` + p.Name + ` +2/2 +Running `)
		eventually(t, 10*time.Second, "get -w shows "+p.Name+" running", func(context.Context) error {
			if text := watch.String(); !seen.MatchString(text) {
				return fmt.Errorf("so far:\n%s", text)
			}
			return nil
		})
	}
	g.in(t, "scale", "deployment/frontend", "--replicas=3")
	eventually(t, 60*time.Second, "three front ends", g.ready(g.namespace, "tier=frontend", 3))
	watch.await(t, 10*time.Second, "DELETED")
}

func (g *guestbook) version(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := g.about(ctx)
		if err == nil && a.Version != want {
			err = fmt.Errorf("version %s answers", a.Version)
		}
		return err
	}
}

func (g *guestbook) rollout(t *testing.T) {
	t.Helper()
	status := func() { t.Helper(); g.in(t, "rollout", "status", "deployment/frontend", "--timeout=90s") }
	contains(t, g.in(t, "set", "image", "deployment/frontend", "web=minik8s.io/guestbook-frontend:2"), "deployment.apps/frontend image updated")
	status()
	eventually(t, 30*time.Second, "version 2", g.version("2"))
	contains(t, g.in(t, "rollout", "history", "deployment/frontend"), "REVISION", "1 ", "2 ")
	contains(t, g.in(t, "rollout", "undo", "deployment/frontend"), "rolled back")
	status()
	eventually(t, 30*time.Second, "only front ends of version 1", func(ctx context.Context) error {
		list, err := g.client.CoreV1().Pods(g.namespace).List(ctx, metav1.ListOptions{LabelSelector: "tier=frontend"})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Spec.Containers[0].Image != frontendImage {
				return fmt.Errorf("%s has %s", p.Name, p.Spec.Containers[0].Image)
			}
		}
		return g.version("1")(ctx)
	})
	before := map[string]bool{}
	for _, p := range g.frontends(t) {
		before[p.Name] = true
	}
	contains(t, g.in(t, "rollout", "restart", "deployment/frontend"), "restarted")
	status()
	eventually(t, 60*time.Second, "three front ends", g.ready(g.namespace, "tier=frontend", 3))
	for _, p := range g.frontends(t) {
		if before[p.Name] {
			t.Errorf("%s is from before the restart", p.Name)
		}
	}
}

func (g *guestbook) serverSideApply(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guestbook}\ndata: {GUESTBOOK_TITLE: Applied, MORE: \"1\"}\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := []string{"-n", g.namespace, "apply", "--server-side", "--field-manager=e2e", "-f", file}
	contains(t, g.kubectlFails(t, apply...), "Apply failed with 1 conflict", `conflict with "kubectl-client-side-apply"`, ".data.GUESTBOOK_TITLE")
	contains(t, g.kubectl(t, append(apply, "--force-conflicts")...), "configmap/guestbook serverside-applied")
	out := g.in(t, "get", "configmap", "guestbook", "-o", "yaml", "--show-managed-fields")
	contains(t, out, "GUESTBOOK_TITLE: Applied", "manager: e2e", "operation: Apply", "f:MORE: {}")

	// What is applied no more by its only owner goes.
	if err := os.WriteFile(file, []byte(strings.Replace(manifest, ", MORE: \"1\"", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	g.kubectl(t, apply...)
	if out := g.in(t, "get", "configmap", "guestbook", "-o", "yaml"); strings.Contains(out, "MORE") {
		t.Errorf("the field stays:\n%s", out)
	}
}

func (g *guestbook) explain(t *testing.T) {
	t.Helper()
	contains(t, g.kubectl(t, "explain", "deployment.spec.strategy.rollingUpdate"), "GROUP:      apps", "KIND:       Deployment", "VERSION:    v1", "maxSurge\t<IntOrString>")
	contains(t, g.kubectl(t, "explain", "pod", "--recursive"), "containers\t<[]Container> -required-", "readinessProbe")
	contains(t, g.kubectl(t, "api-resources"), "deployments", "apps/v1", "configmaps", "cm ")
}

// A container that dies is started again, and its pod stays.
func (g *guestbook) crash(t *testing.T) {
	t.Helper()
	pod := g.frontends(t)[0]
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != "log-counter" {
			continue
		}
		if out, err := exec.Command("docker", "kill", strings.TrimPrefix(s.ContainerID, "docker://")).CombinedOutput(); err != nil {
			t.Fatalf("docker kill: %v: %s", err, out)
		}
	}
	eventually(t, 30*time.Second, "the container's restart", func(ctx context.Context) error {
		p, err := g.client.CoreV1().Pods(g.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			switch {
			case s.Name == "web" && s.RestartCount != 0:
				t.Errorf("the other container was restarted")
			case s.Name == "log-counter" && (s.RestartCount != 1 || !s.Ready):
				return fmt.Errorf("restarts %d, ready %t", s.RestartCount, s.Ready)
			case s.Name == "log-counter":
				if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 137 || last.Reason != "Error" {
					t.Errorf("last state %+v", s.LastTerminationState)
				}
			}
		}
		return nil
	})
	contains(t, g.in(t, "logs", pod.Name, "-c", "log-counter", "--previous"), "listening on")
}

func (g *guestbook) remove(t *testing.T) {
	t.Helper()
	contains(t, g.in(t, "delete", "-f", g.manifests), `deployment.apps "frontend" deleted`, `service "store-leader" deleted`)
	eventually(t, 60*time.Second, "no pods", func(ctx context.Context) error {
		list, err := g.client.CoreV1().Pods(g.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	if out, err := exec.Command("docker", "ps", "-aq", "--filter", "label=io.kubernetes.pod.namespace="+g.namespace).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("containers of deleted pods are left: %s %v", out, err)
	}
	if _, err := fetch(t.Context(), http.MethodGet, g.url, ""); err == nil {
		t.Error("the NodePort of the deleted Service still answers")
	}
	if _, err := g.client.AppsV1().Deployments(g.namespace).Get(t.Context(), "frontend", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting the deleted deployment: %v", err)
	}
}
