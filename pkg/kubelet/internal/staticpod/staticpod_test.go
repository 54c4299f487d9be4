// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const plain = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\nspec:\n  containers: [{name: c, image: i}]\n"

var (
	fromFile = Origin{Source: File, Location: "/m/web.yaml", Node: "node1"}
	seen     = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
)

func parse(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p, err := Parse([]byte(text), fromFile, seen)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	p := parse(t, plain)
	if p.Name != "web-node1" || p.Namespace != "default" || p.Spec.NodeName != "node1" || p.Status.Phase != corev1.PodPending {
		t.Errorf("%s/%s on %s, %s", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase)
	}
	if len(p.UID) != 32 {
		t.Errorf("uid %q", p.UID)
	}
	if diff := cmp.Diff(map[string]string{sourceKey: "file", hashKey: string(p.UID), seenKey: "2026-01-02T03:04:05.000000006Z"}, p.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, p.Spec.Tolerations); diff != "" {
		t.Error(diff)
	}
	if c := p.Spec.Containers[0]; c.ImagePullPolicy != corev1.PullAlways || p.Spec.RestartPolicy != corev1.RestartPolicyAlways || p.Spec.DNSPolicy != corev1.DNSClusterFirst {
		t.Errorf("defaults are not filled in: %+v", p.Spec)
	}
	if !Is(p) || IsMirror(p) {
		t.Error("it is not known as a static pod")
	}
}

func TestParse_Refused(t *testing.T) {
	with := func(old, now string) string {
		if !strings.Contains(plain, old) {
			t.Fatalf("%q is not there", old)
		}
		return strings.Replace(plain, old, now, 1)
	}
	spec := func(more string) string { return plain + "  " + more + "\n" }
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "it is empty"},
		{"comments", "# none\n---\n", "it is empty"},
		{"no YAML", "a: [", "yaml"},
		{"no JSON", "{[", "json"},
		{"binary", "\x00\x01", "yaml"},
		{"two documents", plain + "---\n" + plain, "more than one document"},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "it is a v1 ConfigMap, want a v1 Pod"},
		{"a list", "apiVersion: v1\nkind: PodList\nitems: []\n", "it is a v1 PodList"},
		{"another version", with("apiVersion: v1", "apiVersion: v2"), `no kind "Pod" is registered for version "v2"`},
		{"no kind", with("kind: Pod\n", ""), "Kind"},
		{"an unknown field", spec("hostnetwork: true"), `unknown field "spec.hostnetwork"`},
		{"a field twice", spec("hostPID: true\n  hostPID: false"), `key "hostPID" already set in map`},
		{"no name", with("name: web, ", ""), "name is needed for the pod"},
		{"a name that is a path", with("name: web", "name: ../x"), "metadata.name: Invalid value"},
		{"a namespace that is a path", with("name: web", "name: web, namespace: ../x"), "metadata.namespace: Invalid value"},
		{"a uid that is a path", with("name: web", "name: web, uid: ../x"), "metadata.uid"},
		{"finalizers", with("name: web", "name: web, finalizers: [a/b]"), "finalizers"},
		{"owners", with("name: web", "name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: u}]"), "owners"},
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {}\n", "spec.containers: Required value"},
		{"ephemeral containers", spec("ephemeralContainers: [{name: e, image: i}]"), "spec.ephemeralContainers"},
		{"an account", spec("serviceAccountName: x"), "static pods may not reference serviceaccounts"},
		{"an account by its old name", spec("serviceAccount: x"), "static pods may not reference serviceaccounts"},
		{"a secret", spec("volumes: [{name: v, secret: {secretName: x}}]"), "static pods may not reference secrets"},
		{"a pull secret", spec("imagePullSecrets: [{name: x}]"), "static pods may not reference secrets"},
		{"a config map", with("image: i", "image: i, envFrom: [{configMapRef: {name: x}}]"), "static pods may not reference configmaps"},
		{"a claim", spec("volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]"), "static pods may not reference persistentvolumeclaims"},
		{"a device", spec("resourceClaims: [{name: x, resourceClaimName: z}]"), "static pods may not reference resourceclaims"},
		{"a driver", spec("volumes: [{name: v, csi: {driver: d.e}}]"), "static pods may not reference csidrivers"},
		{"a feature that is off", spec("volumes: [{name: v, emptyDir: {mode: 448}}]"), "fields of features that are off by default"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.text), fromFile, seen); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	if _, err := Parse(bytes.Repeat([]byte("#"), MaxManifest+1), fromFile, seen); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge manifest: %v", err)
	}
}

// TestIdentity: another pod, file or node is another uid; how the same is written is not.
func TestIdentity(t *testing.T) {
	uid := parse(t, plain).UID
	for _, same := range []string{
		plain, "---\n# a comment\n" + plain, strings.Replace(plain, "image: i", `"image": "i"`, 1),
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"image":"i","name":"c"}]},"metadata":{"name":"web","labels":{"app":"web"}}}`,
		strings.Replace(plain, "name: web", "name: web, creationTimestamp: 2020-01-01T00:00:00Z, resourceVersion: \"7\", annotations: {kubernetes.io/config.mirror: x, kubernetes.io/config.source: api}", 1),
	} {
		if p := parse(t, same); p.UID != uid || IsMirror(p) || !Is(p) {
			t.Errorf("uid %s and annotations %v for\n%s", p.UID, p.Annotations, same)
		}
	}
	different := map[types.UID]string{uid: "plain"}
	add := func(name string, p *corev1.Pod, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if other, is := different[p.UID]; is {
			t.Errorf("%s has the uid of %s", name, other)
		}
		different[p.UID] = name
	}
	add("another image", parse(t, strings.Replace(plain, "image: i", "image: j", 1)), nil)
	add("another label", parse(t, strings.Replace(plain, "app: web", "app: wib", 1)), nil)
	for name, from := range map[string]Origin{
		"another node": {File, fromFile.Location, "n2"}, "another file": {File, "/m/b", "node1"}, "a URL": {HTTP, fromFile.Location, "node1"},
	} {
		p, err := Parse([]byte(plain), from, seen)
		add(name, p, err)
	}
	own := parse(t, strings.Replace(plain, "name: web", "name: web, uid: My-1", 1))
	if own.UID != "My-1" || own.Annotations[hashKey] != "My-1" {
		t.Errorf("its own uid is not kept: %s, %v", own.UID, own.Annotations)
	}
}

func TestParse_Priority(t *testing.T) {
	for class, want := range map[string]*int32{"system-node-critical": new(int32(2000001000)), "system-cluster-critical": new(int32(2000000000)), "mine": nil} {
		if got := parse(t, plain+"  priorityClassName: "+class+"\n").Spec.Priority; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: priority %v", class, got)
		}
	}
}

func TestParseAll(t *testing.T) {
	from := Origin{Source: HTTP, Location: "http://h/", Node: "n"}
	item := `{"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	list := func(names ...string) string {
		var items []string
		for _, n := range names {
			items = append(items, strings.Replace(item, "NAME", n, 1))
		}
		return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
	}
	for _, tc := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"one", plain, []string{"web-n"}, ""},
		{"none", list(), nil, ""},
		{"two", list("a", "b"), []string{"a-n", "b-n"}, ""},
		{"one is bad", list("a", "B_"), nil, `pod 1, "B_"`},
		{"another kind", "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", nil, "want a v1 Pod or PodList"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods, err := ParseAll([]byte(tc.text), from, seen)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			var names []string
			for _, p := range pods {
				names = append(names, p.Name)
				if len(p.Spec.Tolerations) > 0 || Source(p) != HTTP {
					t.Errorf("%s: %v, tolerations %v", p.Name, p.Annotations, p.Spec.Tolerations)
				}
			}
			if diff := cmp.Diff(tc.want, names); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestSame(t *testing.T) {
	a := parse(t, plain)
	later, err := Parse([]byte(plain), fromFile, seen.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	other := later.DeepCopy()
	other.Labels["app"] = "other"
	if !Same(a, later) || Same(a, other) {
		t.Error("only the time at which it was seen does not count")
	}
	if got := SeenAs(later, a).Annotations[seenKey]; got != a.Annotations[seenKey] || later.Annotations[seenKey] == got {
		t.Errorf("seen %s", got)
	}
}

func TestFromAPI(t *testing.T) {
	honest := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}
	if FromAPI(honest) != honest || Is(honest) {
		t.Error("a pod like others is changed")
	}
	liar := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{sourceKey: "file"}}}
	if Is(FromAPI(liar)) || !Is(liar) {
		t.Error("a pod of the API passes for a static one, or was changed in place")
	}
}

func TestMirror(t *testing.T) {
	p := parse(t, plain)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "nu"}}
	m := Mirror(p, node)
	if m.UID != "" || m.Status.Phase != "" || m.Labels["app"] != "web" || IsMirror(p) || !IsMirrorOf(m, p) {
		t.Errorf("%+v of %+v", m.ObjectMeta, p.ObjectMeta)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node1", UID: "nu", Controller: new(true)}}, m.OwnerReferences); diff != "" {
		t.Error(diff)
	}
	m.Spec.Containers[0].Image = "changed"
	if p.Spec.Containers[0].Image != "i" {
		t.Error("the mirror shares its spec with the pod")
	}
}

func TestDecide(t *testing.T) {
	p := parse(t, plain)
	mirror := func(change func(*corev1.Pod)) *corev1.Pod {
		m := Mirror(p, &corev1.Node{})
		if change != nil {
			change(m)
		}
		return m
	}
	failed := func(m *corev1.Pod) { m.Status.Phase = corev1.PodFailed }
	for _, tc := range []struct {
		name        string
		pod, mirror *corev1.Pod
		status      *corev1.PodStatus
		want        Action
	}{
		{"neither", nil, nil, nil, Keep},
		{"no mirror", p, nil, nil, Create},
		{"no pod", nil, mirror(nil), nil, Delete},
		{"both", p, mirror(nil), nil, Keep},
		{"of another form", p, mirror(func(m *corev1.Pod) { m.Annotations[corev1.MirrorPodAnnotationKey] = "x" }), nil, Delete},
		{"being deleted", p, mirror(func(m *corev1.Pod) { m.DeletionTimestamp = &metav1.Time{} }), nil, Delete},
		{"ended, the pod not", p, mirror(failed), &corev1.PodStatus{Phase: corev1.PodRunning}, Delete},
		{"ended, as the pod", p, mirror(failed), &corev1.PodStatus{Phase: corev1.PodFailed}, Keep},
		{"ended, of the pod nothing is known yet", p, mirror(failed), nil, Keep},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Decide(tc.pod, tc.mirror, tc.status); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
