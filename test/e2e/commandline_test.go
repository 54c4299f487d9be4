// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// must runs a verb, which must succeed.
func must(t *testing.T, c cluster.Cluster, verb string, args ...string) cluster.Result {
	t.Helper()
	r, err := c.Run(t.Context(), verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 0 {
		t.Fatalf("%s %v: %s", verb, args, r)
	}
	return r
}

// fails runs a verb, which must fail with exit code 1 and tell one line that has the wanted texts.
func fails(t *testing.T, c cluster.Cluster, verb string, args []string, want ...string) {
	t.Helper()
	r, err := c.Run(t.Context(), verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 1 {
		t.Errorf("%s %v: want exit code 1: %s", verb, args, r)
	}
	oneError(t, r.Stderr, want...)
}

// oneError checks that the last line is an error, that there is no other, and that it has the wanted texts.
func oneError(t *testing.T, stderr string, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := lines[len(lines)-1]
	errs := 0
	for _, line := range lines { // a quoted log is indented
		if strings.HasPrefix(line, "error: ") {
			errs++
		}
	}
	if !strings.HasPrefix(last, "error: ") || errs != 1 {
		t.Errorf("want one line that begins with \"error: \", at the end:\n%s", stderr)
	}
	contains(t, last, want...)
}

// The life of a control plane without nodes, told by every verb.
func TestVerbs(t *testing.T) {
	c := newCluster(t, "verbs")
	c.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG="}
	fails(t, c, "status", nil, "no such cluster", "minik8s up --name e2e-verbs")
	fails(t, c, "logs", nil, "no such cluster")
	fails(t, c, "kubeconfig", nil, "no such cluster")

	copied := filepath.Join(t.TempDir(), "kubeconfig")
	first, err := c.Up(t.Context(), "--nodes", "0", "--kubeconfig", copied)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Started || first.Kubeconfig != copied || first.Name != c.Name || first.Seconds <= 0 {
		t.Errorf("up -o json: %+v", first)
	}
	again, err := c.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.Started || again.Server != first.Server {
		t.Errorf("up of a running cluster: %+v", again)
	}
	text := must(t, c, "up").Stdout
	contains(t, text, "is running", "export KUBECONFIG=", "minik8s kubeconfig --merge --name e2e-verbs", "minik8s down --name e2e-verbs")

	status, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !status.Running || !status.Ready || status.Pid == 0 || status.Nodes != 0 || status.DataDir != c.DataDir {
		t.Errorf("status -o json: %+v", status)
	}
	contains(t, must(t, c, "status").Stdout, "Ready", first.Server)
	contains(t, must(t, c, "logs").Stdout, "Running minik8s", "name: e2e-verbs", "nodes: 0")

	// A control plane without nodes has controllers and a scheduler: a deployment makes a pod that finds no node.
	_, client, err := cluster.Client(copied)
	if err != nil {
		t.Fatal(err)
	}
	k := &kube{Cluster: c, kubeconfig: copied, client: client}
	k.kubectl(t, "create", "deployment", "web", "--image="+frontendImage)
	eventually(t, 20*time.Second, "the scheduler's word on the pod", func(ctx context.Context) error {
		r, err := k.run(ctx, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].message}")
		if err == nil && r.Stdout != "no nodes available to schedule pods" {
			err = fmt.Errorf("got %s", r)
		}
		return err
	})

	// Stopped, the data stays.
	contains(t, must(t, c, "down").Stdout, "is stopped", c.DataDir)
	if r, err := c.Run(t.Context(), "status"); err != nil || r.Code != 3 {
		t.Errorf("status of a stopped cluster: %v %s", err, r)
	}
	must(t, c, "down")
	second, err := c.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !second.Started || second.Server != first.Server {
		t.Errorf("up after down: %+v, was %+v", second, first)
	}
	k.kubectl(t, "get", "deployment", "web") // the old kubeconfig is still good

	contains(t, must(t, c, "down", "--purge").Stdout, "is gone")
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory after --purge: %v", err)
	}
	contains(t, must(t, c, "down", "--purge").Stdout, "There is no cluster")
}

func TestUpDoesNotWait(t *testing.T) {
	c := newCluster(t, "nowait")
	must(t, c, "up", "--nodes", "0", "--wait=false")
	eventually(t, 30*time.Second, "the cluster Ready", func(ctx context.Context) error {
		s, err := c.Status(ctx)
		if err == nil && !s.Ready {
			err = fmt.Errorf("got %+v", s)
		}
		return err
	})
}

func TestUpTellsProgressAndTimesOut(t *testing.T) {
	c := newCluster(t, "timeout")
	r := must(t, c, "up", "--nodes", "0")
	contains(t, r.Stderr, "Starting cluster", "etcd", "API server", "default namespace and service account")
	must(t, c, "down", "--purge")
	fails(t, c, "up", []string{"--nodes", "0", "--timeout", "50ms"}, "--timeout 50ms is over")
	fails(t, c, "status", nil, "no such cluster")
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory of what never came up: %v", err)
	}
}

// The log of a start that fails is deleted with the rest: its end is told.
func TestTimeOutTellsTheEndOfTheLog(t *testing.T) {
	c := newCluster(t, "toldlog")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // an etcd that takes connections and says nothing
	args := []string{"--nodes", "0", "--timeout", "5s", "--etcd-servers", "http://" + l.Addr().String()}
	r, err := c.Run(t.Context(), "up", args...)
	if err != nil || r.Code != 1 {
		t.Fatalf("%v %s", err, r)
	}
	told, failure, _ := strings.Cut(r.Stderr, "\nerror: ")
	contains(t, failure, "--timeout 5s is over")
	contains(t, told, "The end of its log:\n  ", "name: "+c.Name, "etcd at [http://"+l.Addr().String()+"] does not answer")
	fails(t, c, "status", nil, "no such cluster")
}

// A setting that a running cluster cannot take up is an error that says so, and one that fails a start does not stick.
func TestSettingsOfAKnownCluster(t *testing.T) {
	c := newCluster(t, "settings")
	first, err := c.Up(t.Context(), "--nodes", "0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(first.Server, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	fails(t, c, "up", []string{"--api-port", "1"}, "running with --api-port "+port+", not 1", "minik8s down --name "+c.Name)
	must(t, c, "up", "--api-port", port) // what it has it may be asked for
	must(t, c, "down")

	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	fails(t, c, "up", []string{"--api-port", taken}, "port "+taken+" is in use by another program")
	again, err := c.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.Server != first.Server {
		t.Errorf("after a start that failed it is at %s, was at %s", again.Server, first.Server)
	}
}

// One bad entry does not hide the others.
func TestList(t *testing.T) {
	c := newCluster(t, "list")
	up(t, c, "--nodes", "0")
	list := func(args ...string) string {
		t.Helper()
		r, err := cluster.Run(exec.CommandContext(t.Context(), c.Binary, append([]string{"list"}, args...)...))
		if err != nil || r.Code != 0 {
			t.Fatalf("list: %v %s", err, r)
		}
		return r.Stdout
	}
	contains(t, list(), "NAME", c.Name, "running", c.DataDir)
	must(t, c, "down")
	var all []struct{ Name, State string }
	if err := json.Unmarshal([]byte(list("-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, l := range all {
		if l.Name == c.Name {
			found = l.State
		}
	}
	if found != "stopped" {
		t.Errorf("got %+v", all)
	}
}

// The built-in kubectl goes to minik8s' own cluster, whatever else the user's kubeconfig names, unless told otherwise.
func TestBuiltInKubectlGoesToItsOwn(t *testing.T) {
	c := newCluster(t, "own")
	up(t, c, "--nodes", "0")
	home := t.TempDir()
	file := filepath.Join(home, ".kube", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	other := "apiVersion: v1\nkind: Config\nclusters:\n- {name: prod, cluster: {server: \"https://prod.invalid:6443\"}}\n" +
		"contexts:\n- {name: prod, context: {cluster: prod, user: me}}\nusers:\n- {name: me, user: {token: t}}\ncurrent-context: prod\n"
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) cluster.Result {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), c.Binary, append([]string{"kubectl"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG=")
		r, err := cluster.Run(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run("--context", "minik8s-e2e-own", "get", "namespaces"); r.Code != 0 || !strings.Contains(r.Stdout, "kube-system") {
		t.Errorf("its own cluster: %s", r)
	}
	if r := run("--context", "prod", "get", "namespaces", "--request-timeout=5s"); r.Code == 0 || !strings.Contains(r.Stderr, "prod.invalid") {
		t.Errorf("the user's context: %s", r)
	}
	if r := run("get", "namespaces", "--request-timeout=5s"); strings.Contains(r.Stderr, "prod.invalid") {
		t.Errorf("without a word: %s", r)
	}
}

func TestLogsFollow(t *testing.T) {
	c := newCluster(t, "logs")
	up(t, c, "--nodes", "0")
	cmd := c.Command(t.Context(), "logs", "-f")
	out := background(t, cmd)
	out.await(t, 10*time.Second, "Running minik8s")
	if n := strings.Count(out.String(), "Running minik8s"); n != 1 {
		t.Errorf("the log has %d starts", n)
	}
	must(t, c, "down")
	up(t, c)
	eventually(t, 10*time.Second, "the second start in the log", func(context.Context) error {
		if n := strings.Count(out.String(), "Running minik8s"); n != 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// The user's own kubeconfig keeps what it had.
func TestKubeconfigMerge(t *testing.T) {
	c := newCluster(t, "merge")
	home := t.TempDir()
	c.Env = []string{"HOME=" + home, "KUBECONFIG="}
	up(t, c, "--nodes", "0")
	file := filepath.Join(home, ".kube", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	own := "apiVersion: v1\nkind: Config\nclusters:\n- {name: mine, cluster: {server: \"https://mine.example:6443\"}}\n" +
		"contexts:\n- {name: mine, context: {cluster: mine, user: me}}\nusers:\n- {name: me, user: {token: t}}\ncurrent-context: mine\n"
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary("kubectl"), args...)
		cmd.Env = append(os.Environ(), c.Env...)
		r, err := cluster.Run(cmd)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %v: %v %s", args, err, r)
		}
		return r.Stdout
	}
	for range 2 { // twice is like once
		contains(t, must(t, c, "kubeconfig", "--merge").Stdout, file)
	}
	contains(t, kubectl("config", "get-contexts", "-o", "name"), "mine\n", "minik8s-e2e-merge\n")
	contains(t, kubectl("get", "namespaces"), "kube-system")
	contains(t, must(t, c, "kubeconfig", "--unmerge").Stdout, file)
	if got := kubectl("config", "get-contexts", "-o", "name"); got != "mine\n" {
		t.Errorf("contexts after --unmerge: %q", got)
	}
	contains(t, kubectl("config", "view"), "https://mine.example:6443")
	fails(t, c, "kubeconfig", []string{"--merge", "--unmerge"}, "merge", "unmerge")
	contains(t, must(t, c, "kubeconfig").Stdout, "certificate-authority-data", "current-context: minik8s-e2e-merge")
}

// Two clusters on one machine do not meet.
func TestTwoClusters(t *testing.T) {
	a := shared(t)
	b := up(t, newCluster(t, "second"))
	urls := map[*kube]string{}
	for k, ns := range map[*kube]string{a: a.namespace(t, "both"), b: "default"} {
		k.kubectl(t, "-n", ns, "create", "deployment", "web", "--image="+frontendImage, "--replicas=2", "--", "/guestbook", "static", "/")
		k.kubectl(t, "-n", ns, "expose", "deployment", "web", "--port=80", "--target-port=8080", "--type=NodePort")
		k.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=60s")
		urls[k] = k.nodePort(t, ns, "web")
		answers := func(ctx context.Context) error { _, err := fetch(ctx, http.MethodGet, urls[k], ""); return err }
		eventually(t, 20*time.Second, "an answer by NodePort", answers)
		pod := k.kubectl(t, "-n", ns, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
		contains(t, k.kubectl(t, "-n", ns, "exec", pod, "--", "/guestbook", "get", "http://web."+ns+".svc/guestbook")[:4], "\x7fELF")
	}
	if a.config.Host == b.config.Host || urls[a] == urls[b] {
		t.Errorf("both are at %s, %s", a.config.Host, urls[a])
	}
	list, err := b.client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("the second cluster has %d pods (%v), want its own 2", len(list.Items), err)
	}
	if err := b.Down(t.Context(), "--purge"); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t.Context(), http.MethodGet, urls[a], ""); err != nil {
		t.Errorf("the first cluster after the purge of the second: %v", err)
	}
	if err := a.ready("both", "app=web", 2)(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	c := newCluster(t, "mistakes")
	config := func(text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const header = "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\n"
	tests := []struct {
		name, verb string
		args       []string
		want       string
	}{
		{"unknown flag", "up", []string{"--nods", "1"}, "unknown flag: --nods"},
		{"unknown flag of down", "down", []string{"--all"}, "unknown flag: --all"},
		{"argument", "up", []string{"now"}, `unknown command "now"`},
		{"output format", "up", []string{"-o", "xml"}, `unknown output format "xml": use json`},
		{"unknown field", "up", []string{"--config", config(header + "colour: blue\n")}, `unknown field "colour"`},
		{"unknown field below", "up", []string{"--config", config(header + "kubelet: {prot: 1}\n")}, `unknown field "prot"`},
		{"other kind", "up", []string{"--config", config("apiVersion: v1\nkind: Pod\n")}, "want apiVersion: minik8s.io/v1alpha1, kind: Cluster"},
		{"no such file", "up", []string{"--config", "/does/not/exist"}, "no such file"},
		{"bad subnet", "up", []string{"--config", config(header + "networking: {podSubnet: 10.0.0.0}\n")}, "networking.podSubnet"},
		{"too many nodes", "up", []string{"--nodes", "101"}, "at most 100"},
		{"negative nodes", "up", []string{"--nodes", "-1"}, "must not be negative"},
		{"port", "up", []string{"--api-port", "70000"}, "70000 is not a port"},
		{"duration", "up", []string{"--timeout", "soon"}, "invalid argument"},
		{"agent that has not joined", "agent", nil, `run what "minik8s token create" prints`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), c.Binary, append([]string{test.verb}, test.args...)...)
			if test.verb != "agent" {
				run.Args = append(run.Args, "--name", c.Name)
			}
			r, err := cluster.Run(run)
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != 1 {
				t.Errorf("want exit code 1: %s", r)
			}
			oneError(t, r.Stderr, test.want)
		})
	}
	t.Run("name", func(t *testing.T) {
		c := c
		c.Name = "Not_A_Name"
		fails(t, c, "up", nil, "must be lower-case letters, digits and dashes")
	})
	fails(t, c, "status", nil, "no such cluster") // nothing of all this made one
}

func TestVersionAndCompletion(t *testing.T) {
	enabled(t)
	run := func(args ...string) string {
		t.Helper()
		r, err := cluster.Run(exec.CommandContext(t.Context(), binary("minik8s"), args...))
		if err != nil || r.Code != 0 {
			t.Fatalf("%v: %v %s", args, err, r)
		}
		return r.Stdout
	}
	contains(t, run("version"), "Kubernetes v1.37.")
	var version map[string]string
	if err := json.Unmarshal([]byte(run("version", "-o", "json")), &version); err != nil || !strings.HasPrefix(version["kubernetes"], "v1.37.") {
		t.Errorf("version -o json: %v %v", version, err)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		contains(t, run("completion", shell), "minik8s")
	}
	contains(t, run("__complete", "up", "--no"), "--nodes")
	contains(t, run("kubectl", "version", "--client"), "Client Version: v1.37.")
	contains(t, run("--help"), "up ", "down ", "status ", "list ", "logs ", "kubeconfig ", "server ", "agent ", "kubectl ", "version ", "completion ")
}

// The built-in kubectl is upstream's: it prints what the separate one prints.
func TestBuiltInKubectl(t *testing.T) {
	k := shared(t)
	for _, args := range [][]string{{"get", "namespaces", "-o", "name"}, {"explain", "pod.spec"}, {"get", "no-such-things"}, {"--help"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			want, err := k.run(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), k.Binary, append([]string{"kubectl"}, args...)...)
			cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
			got, err := cluster.Run(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if got.Code != want.Code || got.Stdout != want.Stdout || got.Stderr != want.Stderr {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// In the foreground the cluster is a program like others: it says that it is ready on the API and ends at SIGTERM.
func TestServer(t *testing.T) {
	c := newCluster(t, "server")
	port := freePort(t)
	cmd := c.Command(t.Context(), "server", "--nodes", "0", "--data-dir", c.DataDir, "--api-port", strconv.Itoa(port))
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	eventually(t, 30*time.Second, "the cluster Ready", func(ctx context.Context) error {
		s, err := c.Status(ctx)
		if err == nil && !s.Ready {
			err = fmt.Errorf("got %+v\n%s", s, out)
		}
		return err
	})
	fails(t, c, "server", []string{"--data-dir", c.DataDir}, "already running")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("ended with %v:\n%s", err, tail(out.String(), 20))
		}
	case <-time.After(20 * time.Second):
		t.Error("does not end")
	}
}

// Under other names the binary is other programs. Together they are a control plane as one would build it from upstream's.
func TestOtherNames(t *testing.T) {
	enabled(t)
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(binary("minik8s"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	client, peer, secure := freePort(t), freePort(t), freePort(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	etcd := background(t, exec.CommandContext(t.Context(), filepath.Join(dir, "etcd"), "--data-dir", filepath.Join(dir, "data"), "--listen-client-urls", url,
		"--advertise-client-urls", url, "--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL))
	eventually(t, 20*time.Second, "etcd's health", func(ctx context.Context) error {
		_, err := fetch(ctx, http.MethodGet, url+"/health", "")
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, tail(etcd.String(), 5))
		}
		return err
	})

	key := filepath.Join(dir, "sa.key")
	writeKey(t, key)
	server := background(t, exec.CommandContext(t.Context(), filepath.Join(dir, "kube-apiserver"), "--etcd-servers", url, "--secure-port", strconv.Itoa(secure),
		"--bind-address", "127.0.0.1", "--cert-dir", filepath.Join(dir, "certs"), "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-signing-key-file", key, "--service-account-key-file", key, "--service-cluster-ip-range", "10.199.0.0/24", "--authorization-mode", "Node,RBAC"))
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // self-signed
	eventually(t, 30*time.Second, "the API server's health", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/readyz", secure), nil)
		if err != nil {
			return err
		}
		response, err := insecure.Do(request)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, tail(server.String(), 5))
		}
		defer response.Body.Close()
		if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", response.Status, body)
		}
		return nil
	})
	r, err := cluster.Run(exec.CommandContext(t.Context(), filepath.Join(dir, "kubectl"), "version", "--client"))
	if err != nil || r.Code != 0 {
		t.Fatalf("kubectl: %v %s", err, r)
	}
	r, err = cluster.Run(exec.CommandContext(t.Context(), filepath.Join(dir, "kube-apiserver"), "--no-such-flag"))
	if err != nil || r.Code == 0 {
		t.Errorf("an unknown flag: %v %s", err, r)
	}
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
