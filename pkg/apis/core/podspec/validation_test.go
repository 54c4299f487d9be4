// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidate(t *testing.T) {
	const ok = "containers: [{name: c, image: i}]\n"
	tests := []struct {
		name, spec string
		owner      Owner
		want       []string // "field: beginning of the message"
	}{
		{name: "least", spec: ok},
		{name: "much", spec: `
hostNetwork: true
dnsPolicy: None
dnsConfig: {nameservers: [10.0.0.1], searches: [".", "a_b.c."], options: [{name: ndots, value: "2"}]}
nodeSelector: {a: b}
tolerations: [{operator: Exists}, {key: k, value: v, effect: NoExecute, tolerationSeconds: 5}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 2, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [c]}]
affinity:
  nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [v]}], matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}
  podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {}}}]}
securityContext: {runAsUser: 0, fsGroup: 1, sysctls: [{name: kernel.shm_rmid_forced, value: "1"}], seccompProfile: {type: RuntimeDefault}}
volumes:
- {name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
- {name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: "metadata.labels['a']"}}, {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}
initContainers:
- {name: sidecar, image: i, restartPolicy: Always, readinessProbe: {tcpSocket: {port: 80}}}
containers:
- name: c
  image: i
  ports: [{name: http, containerPort: 80, hostPort: 80}]
  env: [{name: a.b, value: x}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
  envFrom: [{prefix: P_, configMapRef: {name: m}}]
  resources: {requests: {cpu: 1, example.com/gpu: 1}, limits: {cpu: 2, example.com/gpu: 1}}
  volumeMounts: [{name: v, mountPath: /v, subPath: a/b}]
  livenessProbe: {exec: {command: [x]}}
  lifecycle: {preStop: {sleep: {seconds: 5}}}
`, owner: Pod},
		{name: "names", spec: "hostname: A\nsubdomain: a.b\nserviceAccountName: A\nnodeName: A\npriorityClassName: A\ncontainers: [{name: C, image: i}, {name: c, image: i}, {name: c, image: i}]\n", want: []string{
			"spec.containers[0].name: Invalid value", "spec.containers[2].name: Duplicate value", "spec.serviceAccountName: Invalid value",
			"spec.nodeName: Invalid value", "spec.hostname: Invalid value", "spec.subdomain: Invalid value", "spec.priorityClassName: Invalid value"}},
		{name: "enumerations", spec: "restartPolicy: x\ndnsPolicy: x\npreemptionPolicy: x\ncontainers: [{name: c, image: i, imagePullPolicy: x, terminationMessagePolicy: x}]\n", want: []string{
			"spec.containers[0].terminationMessagePolicy: Unsupported value", "spec.containers[0].imagePullPolicy: Unsupported value",
			"spec.restartPolicy: Unsupported value", "spec.dnsPolicy: Unsupported value", "spec.preemptionPolicy: Unsupported value"}},
		{name: "ports", spec: "containers: [{name: c, image: i, ports: [{containerPort: 0}, {containerPort: 70000}, {containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80}, {containerPort: 1, name: a}, {containerPort: 2, name: a}]}]\n", want: []string{
			"spec.containers[0].ports[0].containerPort: Required value", "spec.containers[0].ports[1].containerPort: Invalid value",
			"spec.containers[0].ports[5].name: Duplicate value", "spec.containers[0].ports[3].hostPort: Duplicate value"}},
		{name: "host network, pod", owner: Pod, spec: "hostNetwork: true\ncontainers: [{name: c, image: i, ports: [{containerPort: 80}]}]\n", want: []string{
			"spec.containers[0].ports[0].hostPort: Invalid value: 0: must match `containerPort` when `hostNetwork` is true"}},
		{name: "host network, template", spec: "hostNetwork: true\ncontainers: [{name: c, image: i, ports: [{containerPort: 80}]}]\n"},
		{name: "resources", spec: "containers: [{name: c, image: i, resources: {limits: {cpu: 1, foo: 1, example.com/a: 1500m}, requests: {cpu: 2, memory: -1, example.com/b: 1}}}]\n", want: []string{
			"spec.containers[0].resources.limits[example.com/a]: Invalid value", "spec.containers[0].resources.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
			"spec.containers[0].resources.limits[foo]: Invalid value: \"foo\": must be a standard resource for containers",
			"spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
			"spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
			"spec.containers[0].resources.requests[memory]: Invalid value"}},
		{name: "huge pages", spec: "containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 3Mi}, requests: {hugepages-2Mi: 3Mi}}}]\n", want: []string{
			"spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
			"spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value", "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"}},
		{name: "probes", spec: "containers: [{name: c, image: i, livenessProbe: {successThreshold: 2, exec: {command: [x]}, httpGet: {port: 80}}, readinessProbe: {terminationGracePeriodSeconds: 1, tcpSocket: {port: bad_name}}, startupProbe: {timeoutSeconds: -1}}]\n", want: []string{
			"spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type", "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
			"spec.containers[0].readinessProbe.tcpSocket.port: Invalid value", "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value",
			"spec.containers[0].startupProbe: Required value: must specify a handler type", "spec.containers[0].startupProbe.timeoutSeconds: Invalid value"}},
		{name: "hooks", spec: "terminationGracePeriodSeconds: 5\ncontainers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 6}}, stopSignal: SIGTERM}}]\n", want: []string{
			"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 6: must be non-negative and less than terminationGracePeriodSeconds (5)",
			"spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"}},
		{name: "stop signals", spec: "os: {name: linux}\ncontainers: [{name: c, image: i, lifecycle: {stopSignal: SIGRTMIN+3}}, {name: d, image: i, lifecycle: {stopSignal: SIGNOT}}]\n", want: []string{
			"spec.containers[1].lifecycle.stopSignal: Invalid value"}},
		{name: "init containers", spec: ok + "initContainers: [{name: c, image: i}, {name: i, image: i, livenessProbe: {exec: {command: [x]}}}]\n", want: []string{
			"spec.initContainers[0].name: Duplicate value", "spec.initContainers[1].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"}},
		{name: "restart rules", spec: "containers: [{name: c, image: i, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]}, {name: d, image: i, restartPolicy: Never, restartPolicyRules: [{action: x}]}]\n", want: []string{
			"spec.containers[0].restartPolicy: Required value", "spec.containers[1].restartPolicyRules[0].action: Unsupported value", "spec.containers[1].restartPolicyRules[0].exitCodes: Required value"}},
		{name: "volumes", spec: ok + "volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}, {name: w, emptyDir: {}, hostPath: {path: /a/../b}}, {name: x, secret: {secretName: s, defaultMode: 512, items: [{key: k, path: ../k}]}}]\n", want: []string{
			"spec.volumes[1].name: Duplicate value", "spec.volumes[2].emptyDir: Forbidden: may not specify more than 1 volume type", "spec.volumes[2].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
			"spec.volumes[3].secret.defaultMode: Invalid value: 512", "spec.volumes[3].secret.items[0].path: Invalid value: \"../k\": must not contain '..'"}},
		{name: "projected", spec: ok + "volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 60}}, {configMap: {name: m, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}]}}]}}]\n", want: []string{
			"spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
			"spec.volumes[0].projected: Invalid value: \"s\": conflicting duplicate paths"}},
		{name: "mounts", spec: "volumes: [{name: v, emptyDir: {}}]\ncontainers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a, mountPropagation: Bidirectional}, {name: w, mountPath: \"\", subPath: /x}]}]\n", want: []string{
			"spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique", "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
			"spec.containers[0].volumeMounts[2].name: Not found: \"w\"", "spec.containers[0].volumeMounts[2].mountPath: Required value", "spec.containers[0].volumeMounts.subPath: Invalid value: \"/x\": must be a relative path"}},
		{name: "env", spec: "containers: [{name: c, image: i, env: [{name: ''}, {name: a=b}, {name: a, value: x, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: f, valueFrom: {fieldRef: {fieldPath: spec.nope}}}, {name: l, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}], envFrom: [{}]}]\n", want: []string{
			"spec.containers[0].env[0].name: Required value", "spec.containers[0].env[1].name: Invalid value", "spec.containers[0].env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
			"spec.containers[0].env[3].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting fieldPath: field label not supported: spec.nope", "spec.containers[0].env[4].valueFrom.fieldRef.fieldPath: Unsupported value",
			"spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
		{name: "security", spec: "hostPID: true\nshareProcessNamespace: true\nhostNetwork: true\nsecurityContext: {runAsUser: -1, sysctls: [{name: net.x, value: a}, {name: A}], seccompProfile: {type: Localhost}, appArmorProfile: {}}\ncontainers: [{name: c, image: i, securityContext: {privileged: true, allowPrivilegeEscalation: false, procMount: Unmasked}}]\n", want: []string{
			"spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`", "spec.containers[0].securityContext: Invalid value",
			"spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled", "spec.securityContext.runAsUser: Invalid value: -1",
			"spec.securityContext.sysctls[0].name: Invalid value: \"net.x\": may not be specified when 'hostNetwork' is true", "spec.securityContext.sysctls[1].name: Invalid value",
			"spec.securityContext.seccompProfile.localhostProfile: Required value", "spec.securityContext.appArmorProfile.type: Required value"}},
		{name: "scheduling", spec: ok + "schedulingGates: [{name: a}, {name: a}]\nreadinessGates: [{conditionType: ''}]\ntolerations: [{key: a, operator: Exists, value: b}, {effect: x}]\ntopologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: x}]\nactiveDeadlineSeconds: 0\n", want: []string{
			"spec.readinessGates[0].conditionType: Invalid value", "spec.readinessGates[0].conditionType: Invalid value", "spec.schedulingGates[1]: Duplicate value",
			"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero", "spec.topologySpreadConstraints[0].topologyKey: Required value", "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value",
			"spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'", "spec.tolerations[1].operator: Invalid value", "spec.tolerations[1].effect: Unsupported value",
			"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"}},
		{name: "DNS", spec: ok + "dnsPolicy: None\n", want: []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := parse(t, tc.spec)
			SetDefaults(s)
			errs := Validate(s, tc.owner, field.NewPath("spec"))
			for i := 0; i < max(len(errs), len(tc.want)); i++ {
				got, want := "nothing", "nothing"
				if i < len(errs) {
					got = errs[i].Error()
				}
				if i < len(tc.want) {
					want = tc.want[i]
				}
				if !strings.HasPrefix(got, want) {
					t.Errorf("error %d is %s\nwant %s", i, got, want)
				}
			}
		})
	}
}
