// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// functions is a cluster with the add-on.
type functions struct {
	*kube
}

// TestFunctions goes through the life of functions in steps that build on one another; the last are docs/functions.md and the course's
// script.
func TestFunctions(t *testing.T) {
	c := newCluster(t, "functions")
	if out, err := exec.Command("docker", "image", "inspect", "minik8s.io/function-python:1").CombinedOutput(); err != nil {
		t.Fatalf("the image of the runtime is not there (%s): run this with make e2e-functions", strings.TrimSpace(string(out)))
	}
	f := &functions{kube: up(t, c)}
	if out := f.minik8s(t, "enable", "functions", "--name", c.Name); !strings.Contains(out, `Add-on "functions" is enabled`) {
		t.Errorf("enable: %s", out)
	}
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"example", f.example},
		{"execute", f.execute},
		{"invalid", f.invalid},
		{"folder", f.folder},
		{"zero and back", f.zero},
		{"roll out", f.rollOut},
		{"traffic", f.traffic},
		{"broken handler", f.broken},
		{"faults", f.faults},
		{"asynchronous", f.asynchronous},
		{"image", f.image},
		{"cron", f.cron},
		{"triggers", f.triggers},
		{"killed", f.killed},
		{"delete", f.remove},
		{"page", func(t *testing.T) { t.Helper(); f.runPage(t, filepath.Join(suite.root, "docs", "functions.md")) }},
		{"course", func(t *testing.T) { t.Helper(); f.runCourse(t, "09-serverless", 9) }},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			t.Log(f.show())
			t.Fatalf("%s failed: what follows builds on it", s.name)
		}
	}
}

// minik8s runs the program, which must succeed.
func (f *functions) minik8s(t *testing.T, args ...string) string {
	t.Helper()
	r := f.tryMinik8s(t, args...)
	if r.Code != 0 {
		t.Fatalf("minik8s %s: %s", strings.Join(args, " "), r)
	}
	return r.Stdout
}

func (f *functions) tryMinik8s(t *testing.T, args ...string) cluster.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary("minik8s"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.kubeconfig, "HOME="+suite.dir)
	r, err := cluster.Run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (f *functions) show() string {
	r, err := f.run(context.Background(), "get", "functions,pods,configmaps,services,events", "-A", "-o", "wide")
	if err != nil {
		return err.Error()
	}
	return tail(r.Stdout, 100) + r.Stderr
}

// apply makes a function of a text in YAML.
func (f *functions) apply(t *testing.T, name, spec string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "function.yaml")
	text := "apiVersion: functions.minik8s.io/v1alpha1\nkind: Function\nmetadata:\n  name: " + name + "\nspec:\n"
	for line := range strings.Lines(strings.TrimPrefix(spec, "\n")) {
		text += "  " + line
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.kubectl(t, "apply", "-f", file)
}

// reason waits for the condition Ready of the newest generation, with a reason.
func (f *functions) reason(t *testing.T, name, reason string) (message string) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("function %s %s", name, reason), func(ctx context.Context) error {
		r, err := f.run(ctx, "get", "function", name, "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].reason} {.status.conditions[?(@.type=="Ready")].message}`)
		if err != nil {
			return err
		}
		parts := strings.SplitN(r.Stdout, " ", 4)
		if len(parts) < 4 || parts[0] != parts[1] || parts[2] != reason {
			return fmt.Errorf("it is %s %s", r.Stdout, r.Stderr)
		}
		message = parts[3]
		return nil
	})
	return message
}

// url is where this machine reaches a function, which it does a moment after the function is ready:
// the node's proxy has to hear of the Service, and refuses until then.
func (f *functions) url(t *testing.T, name string) string {
	t.Helper()
	s, err := f.client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	eventually(t, 10*time.Second, "the way to function "+name, func(ctx context.Context) error {
		c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.Spec.ClusterIP, "80"))
		if err != nil {
			return err
		}
		return c.Close()
	})
	return "http://" + s.Spec.ClusterIP
}

// pods returns the names of a function's pods.
func (f *functions) pods(ctx context.Context, name string) ([]string, error) {
	list, err := f.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "functions.minik8s.io/function=" + name})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

func (f *functions) example(t *testing.T) {
	t.Helper()
	f.kubectl(t, "apply", "-f", filepath.Join(suite.root, "examples/functions/functions.yaml"))
	f.kubectl(t, "wait", "--for=condition=Ready", "function/sum", "function/greeter", "--timeout=90s")
	contains(t, f.kubectl(t, "get", "functions"), "NAME", "RUNTIME", "READY", "PODS", "REVISION", "URL", "http://sum.default.svc")
	contains(t, f.kubectl(t, "explain", "function.spec.idleSeconds"), "how long nobody has called when the last pod goes")
	contains(t, f.kubectl(t, "get", "minik8s"), "sum")
}

func (f *functions) execute(t *testing.T) {
	t.Helper()
	contains(t, f.minik8s(t, "execute", "default/sum", `{"x": 1, "y": 2}`), `{"sum": 3}`)
	contains(t, f.minik8s(t, "execute", "greeter", `{"name": "Ada"}`), `"Good day, Ada"`)
	plugin := filepath.Join(t.TempDir(), "kubectl-execute")
	if err := os.Symlink(binary("minik8s"), plugin); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(plugin)+":"+os.Getenv("PATH"))
	contains(t, f.kubectl(t, "execute", "default/sum", `{"x": 20, "y": 22}`), `{"sum": 42}`)
	r := f.tryMinik8s(t, "execute", "default/sum", `{"x": 1}`)
	if r.Code == 0 || !strings.Contains(r.Stderr, "KeyError: 'y'") {
		t.Errorf("a handler that fails: %s", r)
	}
	if r := f.tryMinik8s(t, "execute", "default/nothing"); r.Code == 0 || !strings.Contains(r.Stderr, `"nothing" not found`) {
		t.Errorf("a function that is not there: %s", r)
	}
}

func (f *functions) invalid(t *testing.T) {
	t.Helper()
	for name, spec := range map[string]string{
		"exactly one of inline, configMap and image": "runtime: python\nsource: {inline: x, image: img}\n",
		"runtime is needed":                          "source: {inline: x}\n",
		"must not be above maxScale":                 "runtime: python\nminScale: 3\nmaxScale: 2\nsource: {inline: x}\n",
		"add up to 100":                              "runtime: python\ntraffic: [{revision: latest, percent: 50}]\nsource: {inline: x}\n",
		"exactly one of cron, objects and webhook":   "runtime: python\ntriggers: [{name: t}]\nsource: {inline: x}\n",
		`changes[0]: Unsupported value: "Renamed"`:   "runtime: python\ntriggers: [{name: t, objects: {apiVersion: v1, kind: Pod, changes: [Renamed]}}]\nsource: {inline: x}\n",
	} {
		file := filepath.Join(t.TempDir(), "function.yaml")
		text := "apiVersion: functions.minik8s.io/v1alpha1\nkind: Function\nmetadata: {name: invalid}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		contains(t, f.kubectlFails(t, "apply", "-f", file), name)
	}
}

func (f *functions) folder(t *testing.T) {
	t.Helper()
	folder := filepath.Join(suite.root, "examples/functions/hello")
	contains(t, f.minik8s(t, "function", "create", "hello", "--runtime", "python", "--from", folder), `Function "default/hello" has the files`)
	f.reason(t, "hello", "Ready")
	contains(t, f.minik8s(t, "execute", "default/hello", `{"name": "you"}`), `{"message": "Hello, you!"}`)
	large := t.TempDir()
	if err := os.WriteFile(filepath.Join(large, "func.py"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := f.tryMinik8s(t, "function", "create", "large", "--from", large); r.Code == 0 || !strings.Contains(r.Stderr, "build an image") {
		t.Errorf("a folder that is too large: %s", r)
	}
}

// A function without pods holds requests until it has one.
func (f *functions) zero(t *testing.T) {
	t.Helper()
	f.kubectl(t, "patch", "function", "sum", "--type=merge", "-p", `{"spec":{"idleSeconds":1,"concurrency":1}}`)
	eventually(t, 30*time.Second, "no pods", func(ctx context.Context) error {
		names, err := f.pods(ctx, "sum")
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("there are %v", names)
		}
		return err
	})
	url := f.url(t, "sum")
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			begin := time.Now()
			text, err := fetchFor(t.Context(), 30*time.Second, url, fmt.Sprintf(`{"x": %d, "y": 1}`, i))
			if want := fmt.Sprintf(`{"sum": %d}`, i+1); err != nil || text != want {
				t.Errorf("got %q, %v, want %q", text, err, want)
			}
			t.Logf("held for %s", time.Since(begin))
		})
	}
	group.Wait()
}

func fetchFor(ctx context.Context, limit time.Duration, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	return answer(request)
}

func answer(request *http.Request) (string, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return string(data), err
}

// A change of the code under load: every request is answered, first by the old, then by the new.
func (f *functions) rollOut(t *testing.T) {
	t.Helper()
	version := func(n int) string {
		return fmt.Sprintf("runtime: python\nidleSeconds: 20\nsource:\n  inline: |\n    import time\n    def main(params):\n        time.sleep(0.02)\n        return %d\n", n)
	}
	f.apply(t, "rolled", version(1))
	f.reason(t, "rolled", "Ready")
	url := f.url(t, "rolled")
	var stop atomic.Bool
	var answers [4]atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for !stop.Load() {
				text, err := fetchFor(t.Context(), 30*time.Second, url, "{}")
				if err != nil {
					t.Errorf("a request during the roll-out: %q, %v", text, err)
					return
				}
				answers[text[0]-'0'].Add(1)
			}
		})
	}
	for n := 2; n <= 3; n++ {
		f.apply(t, "rolled", version(n))
		f.reason(t, "rolled", "Ready")
		before := answers[n].Load()
		eventually(t, 20*time.Second, "answers of the new code", func(context.Context) error {
			if got := answers[n].Load() - before; got < 10 {
				return fmt.Errorf("%d of version %d", got, n)
			}
			return nil
		})
	}
	stop.Store(true)
	group.Wait()
	t.Logf("answers: %d, %d, %d", answers[1].Load(), answers[2].Load(), answers[3].Load())
}

// Requests are split between two revisions of rolled, which answer 2 and 3.
func (f *functions) traffic(t *testing.T) {
	t.Helper()
	before := f.kubectl(t, "get", "function", "rolled", "-o", "jsonpath={.status.revisions[1].name}")
	f.kubectl(t, "patch", "function", "rolled", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"traffic":[{"revision":"latest","percent":70},{"revision":%q,"percent":30}]}}`, before))
	contains(t, f.kubectl(t, "wait", "function/rolled", "--for=jsonpath={.status.revisions[1].percent}=30", "--timeout=30s"), "condition met")
	url := f.url(t, "rolled")
	answers := map[string]int{}
	const requests = 100
	eventually(t, 30*time.Second, "an answer of the revision before", func(ctx context.Context) error {
		text, err := fetchFor(ctx, 20*time.Second, url, "{}")
		if err == nil && text != "2" {
			err = fmt.Errorf("the answer is %s", text)
		}
		return err
	})
	for range requests {
		text, err := fetchFor(t.Context(), 30*time.Second, url, "{}")
		if err != nil {
			t.Fatal(err)
		}
		answers[text]++
	}
	t.Logf("answers: %v", answers)
	if answers["2"]+answers["3"] != requests || answers["2"] < requests/10 || answers["2"] > requests/2 {
		t.Errorf("got %v, want 30 of 2 and 70 of 3, or nearly so", answers)
	}
	f.kubectl(t, "patch", "function", "rolled", "--type=merge", "-p", `{"spec":{"traffic":[{"revision":"gone","percent":100}]}}`)
	contains(t, f.reason(t, "rolled", "RevisionUnknown"), `"gone"`)
	f.kubectl(t, "patch", "function", "rolled", "--type=merge", "-p", `{"spec":{"traffic":null}}`)
	f.reason(t, "rolled", "Ready")
}

// An image of docker build is a function at once, whatever answers in it.
func (f *functions) image(t *testing.T) {
	t.Helper()
	const name = "minik8s.io/e2e-function:1"
	program := "import http.server as h, os, signal\n" +
		"signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n" + // process 1 would ignore it
		"class Answer(h.BaseHTTPRequestHandler):\n" +
		" def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(('%s for %s' % (self.path, os.environ['WHO'])).encode())\n" +
		"h.ThreadingHTTPServer(('', int(os.environ['PORT'])), Answer).serve_forever()\n"
	folder := t.TempDir()
	for file, text := range map[string]string{"answer.py": program, "Dockerfile": "FROM minik8s.io/function-python:1\nCOPY answer.py /\nCMD [\"/usr/bin/python3\", \"/answer.py\"]\n"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil { //nolint:gosec // the image's user reads it
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "build", "--quiet", "--tag", name, folder).CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", name).Run() })
	f.apply(t, "imaged", "source: {image: \""+name+"\"}\nport: 9000\nenv: [{name: WHO, value: me}]\n")
	f.reason(t, "imaged", "Ready")
	if text, err := fetch(t.Context(), http.MethodGet, f.url(t, "imaged")+"/some/path?x=1", ""); err != nil || text != "/some/path?x=1 for me" {
		t.Errorf("got %q, %v", text, err)
	}
	f.kubectl(t, "delete", "function", "imaged", "--wait")
}

// Time calls a function.
func (f *functions) cron(t *testing.T) {
	t.Helper()
	f.apply(t, "clock", `
runtime: python
minScale: 1
triggers: [{name: second, cron: {schedule: "@every 1s", payload: '{"by": 2}'}}]
source:
  inline: |
    total = 0
    def main(params):
        global total
        total += params.get("by", 0)
        return total
`)
	f.reason(t, "clock", "Ready")
	eventually(t, 20*time.Second, "two calls", func(context.Context) error {
		if n, err := strconv.Atoi(strings.TrimSpace(f.minik8s(t, "execute", "default/clock"))); err != nil || n < 4 || n%2 != 0 {
			return fmt.Errorf("it has counted %d, %w", n, err)
		}
		return nil
	})
	f.kubectl(t, "patch", "function", "clock", "--type=merge", "-p", `{"spec":{"triggers":[{"name":"second","cron":{"schedule":"61 * * * *"}}]}}`)
	contains(t, f.reason(t, "clock", "TriggerInvalid"), "trigger second", "61")
	f.kubectl(t, "delete", "function", "clock")
}

func (f *functions) broken(t *testing.T) {
	t.Helper()
	broken := func(code string) string {
		return "runtime: python\nsource:\n  inline: |\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\n"
	}
	f.apply(t, "rolled", broken("def main(params)\n    return 4"))
	contains(t, f.reason(t, "rolled", "HandlerFailed"), "SyntaxError", "line 1", "goes on serving")
	if text, err := fetchFor(t.Context(), 10*time.Second, f.url(t, "rolled"), "{}"); err != nil || text != "3" {
		t.Errorf("got %q, %v, want the code before", text, err)
	}
	f.apply(t, "broken", broken("def other(params):\n    return 4"))
	contains(t, f.reason(t, "broken", "HandlerFailed"), "AttributeError: module func has no function main")
	r := f.tryMinik8s(t, "execute", "default/broken")
	if r.Code == 0 || !strings.Contains(r.Stderr, "has no function main") {
		t.Errorf("calling it: %s", r)
	}
	f.apply(t, "broken", broken("def main(params):\n    return 4"))
	f.reason(t, "broken", "Ready")
	contains(t, f.minik8s(t, "execute", "default/broken"), "4")
	f.apply(t, "imageless", "source: {image: \"minik8s.io/there-is-no-such-image:1\"}\n")
	contains(t, f.reason(t, "imageless", "PodFailed"), "has no image")
	f.kubectl(t, "delete", "function", "imageless", "broken")
}

func (f *functions) faults(t *testing.T) {
	t.Helper()
	f.apply(t, "faulty", `
runtime: python
timeoutSeconds: 2
concurrency: 5
source:
  inline: |
    import os, time
    def main(params):
        do = params.get("do")
        if do == "die":
            os._exit(3)
        if do == "hang":
            time.sleep(3600)
        if do == "print":
            print("x" * (4 << 20))
        if do == "exit":
            raise SystemExit(1)
        return len(params.get("data", ""))
`)
	f.reason(t, "faulty", "Ready")
	url := f.url(t, "faulty")
	for _, test := range []struct{ do, want string }{{"die", "502"}, {"exit", "500"}, {"hang", "504"}, {"print", ""}} {
		_, err := fetchFor(t.Context(), 30*time.Second, url, fmt.Sprintf(`{"do": %q}`, test.do))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.do, err, test.want)
		}
		if text, err := fetchFor(t.Context(), 60*time.Second, url, `{"data": "abc"}`); err != nil || text != "3" {
			t.Errorf("after %s: got %q, %v, want 3", test.do, text, err)
		}
	}
	data := strings.Repeat("x", 10<<20-20)
	if text, err := fetchFor(t.Context(), 30*time.Second, url, `{"data":"`+data+`"}`); err != nil || text != fmt.Sprint(len(data)) {
		t.Errorf("10 MiB: got %.100q, %v", text, err)
	}
	if _, err := fetchFor(t.Context(), 30*time.Second, url, `{"data":"`+data+data+`"}`); err == nil || !strings.Contains(err.Error(), "413") {
		t.Errorf("20 MiB: got %v, want 413", err)
	}
	f.kubectl(t, "delete", "function", "faulty")
}

func (f *functions) asynchronous(t *testing.T) {
	t.Helper()
	id := f.later(t, "default/sum", `{"x": 4, "y": 5}`)
	f.result(t, "default/sum", id, `{"sum": 9}`)
	contains(t, f.kubectl(t, "get", "invocation", id), "FUNCTION", "sum", "200")
	f.kubectl(t, "delete", "invocation", id)
	r := f.tryMinik8s(t, "execute", "default/sum", "--result", id)
	if r.Code == 0 || !strings.Contains(r.Stderr, "there is no such result") {
		t.Errorf("the answer is deleted, and yet: %s", r)
	}
}

// later calls a function without waiting, and returns the id of the answer.
func (f *functions) later(t *testing.T, name, payload string) (id string) {
	t.Helper()
	out := f.minik8s(t, "execute", name, payload, "--async")
	parts := strings.Split(out, `"`)
	if len(parts) < 5 {
		t.Fatalf("execute --async: %s", out)
	}
	return parts[3]
}

// result waits for an answer.
func (f *functions) result(t *testing.T, name, id, want string) {
	t.Helper()
	eventually(t, 60*time.Second, "the answer", func(context.Context) error {
		r := f.tryMinik8s(t, "execute", name, "--result", id)
		if r.Code != 0 || strings.TrimSpace(r.Stdout) != want {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
}

// Objects and webhooks call a function, by the rights of an account and for those who know a secret.
func (f *functions) triggers(t *testing.T) {
	t.Helper()
	f.kubectl(t, "apply", "-f", filepath.Join(suite.root, "examples/functions/triggers.yaml"))
	f.reason(t, "curator", "Ready")
	f.exhibit(t, "torso")
	f.apply(t, "blind", `
runtime: python
triggers:
- name: pods
  objects: {apiVersion: v1, kind: Pod}
source: {inline: "def main(params): pass"}
`)
	contains(t, f.reason(t, "blind", "TriggerInvalid"), `"system:serviceaccount:default:default" cannot`, `resource "pods"`)
	f.kubectl(t, "create", "rolebinding", "blind", "--clusterrole=view", "--serviceaccount=default:default")
	f.reason(t, "blind", "Ready")
	f.kubectl(t, "delete", "rolebinding", "blind")
	f.kubectl(t, "patch", "function", "blind", "--type=json", "-p", `[{"op":"replace","path":"/spec/triggers/0/objects/kind","value":"Pot"}]`)
	contains(t, f.reason(t, "blind", "TriggerInvalid"), "there is no kind Pot of v1")
	f.kubectl(t, "delete", "function", "blind")

	hook := f.url(t, "curator") + "/.minik8s/webhooks/orders"
	for _, test := range []struct{ token, answer string }{{"open sesame", `{"ordered": "bust"}`}, {"open barley", "status 401"}} {
		text, err := f.post(t, hook, `{"name": "bust"}`, "X-Gitlab-Token", test.token)
		if err != nil {
			text = err.Error()
		}
		if text != test.answer {
			t.Errorf("a webhook with the token %q answers %q, want %q", test.token, text, test.answer)
		}
	}
	f.numbered(t, "bust")
	refused := func(what string) {
		eventually(t, 30*time.Second, what, func(context.Context) error {
			if _, err := f.post(t, hook, `{"name": "bust"}`, "X-Gitlab-Token", "open sesame"); err == nil || err.Error() != "status 503" {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}
	f.kubectl(t, "delete", "rolebinding", "curator-webhook")
	refused("a webhook whose Secret may not be read refused")
	contains(t, f.reason(t, "curator", "SecretForbidden"), "--clusterrole=system:minik8s:addon:functions:secrets")
	f.kubectl(t, "create", "rolebinding", "functions", "--clusterrole=system:minik8s:addon:functions:secrets", "--user=system:minik8s:addon:functions")
	f.reason(t, "curator", "Ready")
	f.kubectl(t, "delete", "secret", "curator")
	refused("a webhook without its Secret refused")
	contains(t, f.kubectl(t, "events", "--for", "function/curator"), "TriggerFailed", `there is no Secret "curator"`)
}

// exhibit makes an object whose change calls the curator.
func (f *functions) exhibit(t *testing.T, name string) {
	t.Helper()
	f.kubectl(t, "create", "configmap", name)
	f.kubectl(t, "label", "configmap", name, "kind=exhibit")
	f.numbered(t, name)
}

func (f *functions) numbered(t *testing.T, name string) {
	t.Helper()
	f.kubectl(t, "wait", "--for=jsonpath={.metadata.annotations.number}", "configmap/"+name, "--timeout=60s")
}

func (f *functions) post(t *testing.T, url, body, header, value string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(header, value)
	return answer(request)
}

// The process of the cluster, with the controllers and all requests, is killed: pods stay, and answer when it is back, and what nobody has
// been told yet is told then.
func (f *functions) killed(t *testing.T) {
	t.Helper()
	before, err := f.kube.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "functions.minik8s.io/function=greeter"})
	if err != nil || len(before.Items) == 0 {
		t.Fatalf("%v, %v: greeter has minScale 1", before, err)
	}
	f.apply(t, "slow", "runtime: python\nsource:\n  inline: |\n    import time\n    def main(params):\n        time.sleep(3)\n        return params[\"x\"] + 1\n")
	f.reason(t, "slow", "Ready")
	id := f.later(t, "default/slow", `{"x": 41}`)
	f.kubectl(t, "create", "configmap", "relief")
	f.kubectl(t, "label", "configmap", "relief", "kind=exhibit")
	f.kill(t)
	f.kube = up(t, f.Cluster)
	eventually(t, 30*time.Second, "an answer", func(context.Context) error {
		if r := f.tryMinik8s(t, "execute", "default/greeter"); r.Code != 0 {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	after, err := f.pods(t.Context(), "greeter")
	if err != nil || len(after) != 1 || after[0] != before.Items[0].Name {
		t.Errorf("got pods %v, %v, want %s still", after, err, before.Items[0].Name)
	}
	contains(t, f.minik8s(t, "execute", "default/sum", `{"x": 1, "y": 2}`), `{"sum": 3}`)
	f.result(t, "default/slow", id, "42")
	f.kubectl(t, "delete", "function", "slow")
	f.kubectl(t, "wait", "--for=jsonpath={.metadata.annotations.number}", "--timeout=30s", "configmap/relief")
	f.kubectl(t, "delete", "configmap", "torso", "bust", "relief")
	f.kubectl(t, "delete", "-f", filepath.Join(suite.root, "examples/functions/triggers.yaml"), "--ignore-not-found")
}

// kill ends the process of the cluster as nothing else would.
func (f *functions) kill(t *testing.T) {
	t.Helper()
	s, err := f.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(s.Pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the process gone", func(ctx context.Context) error {
		if s, err := f.Status(ctx); err != nil || s.Running {
			return fmt.Errorf("running %v, %w", s.Running, err)
		}
		return nil
	})
}

func (f *functions) remove(t *testing.T) {
	t.Helper()
	f.kubectl(t, "delete", "function", "sum")
	eventually(t, 30*time.Second, "nothing of sum", func(ctx context.Context) error {
		return f.nothing(ctx, "functions.minik8s.io/function=sum")
	})
	contains(t, f.minik8s(t, "disable", "functions", "--name", f.Name), "is disabled")
	eventually(t, 60*time.Second, "nothing of functions", func(ctx context.Context) error {
		return f.nothing(ctx, "app.kubernetes.io/managed-by=functions.minik8s.io")
	})
}

func (f *functions) nothing(ctx context.Context, selector string) error {
	r, err := f.run(ctx, "get", "pods,services,endpointslices,configmaps", "-A", "-l", selector)
	if err == nil && r.Stdout != "" {
		err = fmt.Errorf("there is still\n%s", r.Stdout)
	}
	return err
}
