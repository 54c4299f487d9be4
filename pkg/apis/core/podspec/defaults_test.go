// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	s := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSetDefaults(t *testing.T) {
	got := parse(t, `
serviceAccount: a
volumes:
- {name: none}
- {name: host, hostPath: {path: /x}}
- {name: secret, secret: {secretName: s}}
- {name: config, configMap: {name: c, defaultMode: 0}}
- name: all
  projected:
    sources:
    - serviceAccountToken: {path: token}
    - downwardAPI: {items: [{path: ns, fieldRef: {fieldPath: metadata.namespace}}]}
initContainers:
- {name: i, image: "repo:5000/x:latest"}
containers:
- name: c
  image: x
  env: [{name: E, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  ports: [{containerPort: 80}]
  resources: {limits: {memory: 100500u}}
  livenessProbe: {httpGet: {port: 80}}
  readinessProbe: {grpc: {port: 80}}
  lifecycle: {preStop: {httpGet: {port: 80}}}
- {name: d, image: "x:1", imagePullPolicy: Always}
ephemeralContainers:
- {name: e, image: "x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
`)
	want := parse(t, `
restartPolicy: Always
dnsPolicy: ClusterFirst
securityContext: {}
terminationGracePeriodSeconds: 30
schedulerName: default-scheduler
serviceAccount: a
serviceAccountName: a
volumes:
- {name: none, emptyDir: {}}
- {name: host, hostPath: {path: /x, type: ""}}
- {name: secret, secret: {secretName: s, defaultMode: 420}}
- {name: config, configMap: {name: c, defaultMode: 0}}
- name: all
  projected:
    defaultMode: 420
    sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3600}
    - downwardAPI: {items: [{path: ns, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
initContainers:
- {name: i, image: "repo:5000/x:latest", imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
containers:
- name: c
  image: x
  imagePullPolicy: Always
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
  env: [{name: E, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
  ports: [{containerPort: 80, protocol: TCP}]
  resources: {limits: {memory: 101m}}
  livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
  readinessProbe: {grpc: {port: 80, service: ""}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
  lifecycle: {preStop: {httpGet: {port: 80, path: /, scheme: HTTP}}}
- {name: d, image: "x:1", imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
ephemeralContainers:
- {name: e, image: "x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}
`)
	SetDefaults(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	again := got.DeepCopy()
	SetDefaults(again)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("defaults twice (-once +twice):\n%s", diff)
	}
}

func TestSetPodLevelDefaults(t *testing.T) {
	quantities := func(cpu, memory string) corev1.ResourceList {
		list := corev1.ResourceList{}
		if cpu != "" {
			list[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			list[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return list
	}
	tests := []struct {
		name           string
		pod, container corev1.ResourceRequirements
		want           corev1.ResourceList // requests of the pod
	}{
		{name: "nothing at the pod", container: corev1.ResourceRequirements{Requests: quantities("1", "")}},
		{name: "limits only", pod: corev1.ResourceRequirements{Limits: quantities("2", "1Gi")}, want: quantities("2", "1Gi")},
		{name: "containers' requests first", pod: corev1.ResourceRequirements{Limits: quantities("2", "1Gi")},
			container: corev1.ResourceRequirements{Requests: quantities("1", "")}, want: quantities("1", "1Gi")},
		{name: "requests stay", pod: corev1.ResourceRequirements{Limits: quantities("2", ""), Requests: quantities("500m", "")}, want: quantities("500m", "")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Resources: &tc.pod, Containers: []corev1.Container{{Resources: tc.container}}}}
			SetPodLevelDefaults(&p.Spec)
			if diff := cmp.Diff(tc.want, p.Spec.Resources.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
