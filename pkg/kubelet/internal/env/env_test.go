// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type fakeSource struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
	files      map[string]string
}

func (f fakeSource) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if data, ok := f.configMaps[name]; ok {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
}

func (f fakeSource) Secret(_, name string) (*corev1.Secret, error) {
	if data, ok := f.secrets[name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
}

func (f fakeSource) EnvFile(_ *corev1.Pod, volume, path string) ([]byte, string, error) {
	if volume == "absent" {
		return nil, "", &NoVolumeError{volume}
	}
	if text, ok := f.files[volume+"/"+path]; ok {
		return []byte(text), "/node/" + path, nil
	}
	return nil, "", fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
}

func (f fakeSource) NodeAllocatable() corev1.ResourceList {
	return corev1.ResourceList{"memory": resource.MustParse("2Gi")}
}

func service(ns, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func configMapKey(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func secretKey(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}
}

func fileKey(volume, path, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: volume, Path: path, Key: key, Optional: &optional}}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestMake(t *testing.T) {
	src := fakeSource{
		configMaps: map[string]map[string]string{"cm": {"A": "cm-a", "B": "cm-b"}, "odd": {"1-x.y": "v"}},
		secrets:    map[string]map[string][]byte{"s": {"A": []byte("s-a")}},
		files:      map[string]string{"v/env": "# comment\nK='one\ntwo' # tail\nEMPTY=''\n", "v/bad": "K"},
	}
	tests := []struct {
		name     string
		noLinks  bool
		env      []corev1.EnvVar
		from     []corev1.EnvFromSource
		services []*corev1.Service
		want     []string
		err      string
	}{
		{name: "nothing", want: []string{}},
		{name: "literal and empty", env: []corev1.EnvVar{{Name: "B", Value: "2"}, {Name: "A"}}, want: []string{"A=", "B=2"}},
		{
			name: "references to earlier variables, escapes, unknown ones",
			env: []corev1.EnvVar{
				{Name: "A", Value: "$(B)"}, {Name: "B", Value: "b"}, {Name: "C", Value: "$(B)-$(B)"},
				{Name: "D", Value: "$$(B) $$$(B) $(NONE) $( $x $"},
			},
			want: []string{"A=$(B)", "B=b", "C=b-b", "D=$(B) $b $(NONE) $( $x $"},
		},
		{
			name: "later envFrom wins, env wins over all",
			from: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			},
			env:  []corev1.EnvVar{{Name: "B", Value: "own"}, {Name: "C", Value: "$(A)"}},
			want: []string{"A=s-a", "B=own", "C=s-a"},
		},
		{
			name: "prefix",
			from: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
			want: []string{"P_A=cm-a", "P_B=cm-b"},
		},
		{
			name: "keys that are no C identifiers",
			from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "odd"}}}},
			want: []string{"1-x.y=v"},
		},
		{
			name: "missing config map",
			from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "no"}}}},
			err:  `configmap "no" not found`,
		},
		{
			name: "optional missing objects",
			from: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{Optional: new(true), LocalObjectReference: corev1.LocalObjectReference{Name: "no"}}},
				{SecretRef: &corev1.SecretEnvSource{Optional: new(true), LocalObjectReference: corev1.LocalObjectReference{Name: "no"}}},
			},
			env:  []corev1.EnvVar{{Name: "X", ValueFrom: configMapKey("no", "k", true)}, {Name: "Y", ValueFrom: secretKey("s", "no", true)}},
			want: []string{},
		},
		{name: "keys", env: []corev1.EnvVar{{Name: "X", ValueFrom: configMapKey("cm", "A", false)}, {Name: "Y", ValueFrom: secretKey("s", "A", false)}}, want: []string{"X=cm-a", "Y=s-a"}},
		{name: "missing secret", env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("no", "A", false)}}, err: `secret "no" not found`},
		{name: "missing key of config map", env: []corev1.EnvVar{{Name: "X", ValueFrom: configMapKey("cm", "no", false)}}, err: "couldn't find key no in ConfigMap ns/cm"},
		{name: "missing key of secret", env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("s", "no", false)}}, err: "couldn't find key no in Secret ns/s"},
		{
			name: "fields",
			env: []corev1.EnvVar{
				{Name: "ANN", ValueFrom: field("metadata.annotations['x']")}, {Name: "IP", ValueFrom: field("status.podIP")},
				{Name: "IPS", ValueFrom: field("status.podIPs")}, {Name: "HOST", ValueFrom: field("status.hostIP")},
			},
			want: []string{"ANN=y", "HOST=192.0.2.1", "IP=10.0.0.1", "IPS=10.0.0.1,fd00::1"},
		},
		{
			name: "resource with divisor falls back to the node",
			env:  []corev1.EnvVar{{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}}},
			want: []string{"M=2048"},
		},
		{
			name: "file",
			env:  []corev1.EnvVar{{Name: "F", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "env", Key: "K"}}}},
			want: []string{"F=one\ntwo"},
		},
		{
			name: "missing key of file",
			env:  []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("v", "env", "X", false)}},
			err:  `environment variable key "X" not found in file "/node/env"`,
		},
		{name: "missing key of file that is optional", env: []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("v", "env", "X", true)}}, want: []string{}},
		{
			name: "empty key of file", env: []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("v", "env", "EMPTY", false)}},
			err: `environment variable key "EMPTY" not found in file "/node/env"`,
		},
		{name: "missing file", env: []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("v", "none", "K", true)}}, err: "couldn't parse env file"},
		{name: "no env file", env: []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("v", "bad", "K", true)}}, err: "couldn't parse env file"},
		{
			name: "missing volume of file", env: []corev1.EnvVar{{Name: "F", ValueFrom: fileKey("absent", "env", "K", true)}},
			err: `cannot find the volume "absent" referenced by FileKeyRef`,
		},
		{
			name: "services",
			services: []*corev1.Service{
				service("ns", "my-db", "10.1.0.1", corev1.ServicePort{Name: "pg-main", Port: 5432}, corev1.ServicePort{Port: 53, Protocol: "UDP"}),
				service("ns", "headless", "None", corev1.ServicePort{Port: 1}),
				service("other", "x", "10.1.0.2", corev1.ServicePort{Port: 1}),
			},
			env: []corev1.EnvVar{{Name: "URL", Value: "pg://$(MY_DB_SERVICE_HOST):$(MY_DB_SERVICE_PORT)"}},
			want: []string{
				"MY_DB_PORT=tcp://10.1.0.1:5432",
				"MY_DB_PORT_53_UDP=udp://10.1.0.1:53", "MY_DB_PORT_53_UDP_ADDR=10.1.0.1", "MY_DB_PORT_53_UDP_PORT=53", "MY_DB_PORT_53_UDP_PROTO=udp",
				"MY_DB_PORT_5432_TCP=tcp://10.1.0.1:5432", "MY_DB_PORT_5432_TCP_ADDR=10.1.0.1", "MY_DB_PORT_5432_TCP_PORT=5432", "MY_DB_PORT_5432_TCP_PROTO=tcp",
				"MY_DB_SERVICE_HOST=10.1.0.1", "MY_DB_SERVICE_PORT=5432", "MY_DB_SERVICE_PORT_PG_MAIN=5432",
				"URL=pg://10.1.0.1:5432",
			},
		},
		{
			name: "without service links only the API server remains", noLinks: true,
			services: []*corev1.Service{
				service("ns", "db", "10.1.0.1", corev1.ServicePort{Port: 5432}),
				service("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443}),
			},
			want: []string{
				"KUBERNETES_PORT=tcp://10.0.0.1:443",
				"KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1", "KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
				"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := corev1.Container{Name: "c", Env: tc.env, EnvFrom: tc.from}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Annotations: map[string]string{"x": "y"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, EnableServiceLinks: new(!tc.noLinks)},
			}
			got, err := Make(pod, &c, "10.0.0.1", []string{"10.0.0.1", "fd00::1"}, []string{"192.0.2.1"}, tc.services, src)
			if err != nil || tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	env := []string{"A=1", "B=x=y"}
	got := Expand([]string{"$(A)", "$$(A)", "$(B)$(C)", "plain", "$", "$$", "$(A", "$()"}, env)
	want := []string{"1", "$(A)", "x=y$(C)", "plain", "$", "$", "$(A", "$()"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
	if Expand(nil, env) != nil {
		t.Error("nil became a list: the image's command would be lost")
	}
}

func TestExpandPath(t *testing.T) {
	env := []string{"A=1", "EMPTY="}
	for _, test := range []struct{ name, expr, want, err string }{
		{name: "known", expr: "$(A)/$$(A)/x", want: "1/$(A)/x"},
		{name: "unknown ones, each once and in order", expr: "$(D)/$(A)/$(C)/$(D)", err: "missing value for C, D"},
		{name: "an empty one", expr: "x/$(EMPTY)", err: "missing value for EMPTY"},
	} {
		got, err := ExpandPath(test.expr, env)
		if message := fmt.Sprint(err); got != test.want || test.err == "" && err != nil || test.err != "" && message != test.err {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

func TestLookUp(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		err              bool
	}{
		{name: "nothing"},
		{name: "not there", text: "B='1'\n"},
		{name: "among others", text: "B='1'\n\n # c\n\tA='2' # d\n", want: "2"},
		{name: "the first of a name", text: "A='1'\nA='2'", want: "1"},
		{name: "what comes after it", text: "A='1'\nunread", want: "1"},
		{name: "lines of other systems", text: "B='1'\r\n\r\nA='1\r\n\r\n2'\r\n", want: "1\n\n2"},
		{name: "no shell inside", text: "A='$(x) \\n \"'", want: "$(x) \\n \""},
		{name: "empty", text: "A=''"},
		{name: "apart from its name", text: "A= '1'"},
		{name: "another apart from its name", text: "B= '1'\nA='2'", want: "2"},
		{name: "another name that is none", text: "export B='1'\nA='2'", want: "2"},
		{name: "unquoted", text: "A=1", err: true},
		{name: "another unquoted", text: "B=1\nA='2'", err: true},
		{name: "not closed", text: "A='1", err: true},
		{name: "spaces around", text: "A = '1'", err: true},
		{name: "no name", text: "='1'", err: true},
		{name: "trailing text", text: "A='1'2", err: true},
		{name: "trailing text on another line", text: "A='1\n2'3", err: true},
		{name: "no assignment", text: "B\nA='1'", err: true},
		{name: "too long a line", text: "B='" + strings.Repeat("1", 64<<10) + "'\nA='1'", err: true},
		{name: "many lines", text: strings.Repeat("B='1'\n", 64<<10) + "A='1'", want: "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := lookUp([]byte(tc.text), "A"); got != tc.want || (err != nil) != tc.err {
				t.Errorf("%q, %v, want %q and an error: %v", got, err, tc.want, tc.err)
			}
		})
	}
}
