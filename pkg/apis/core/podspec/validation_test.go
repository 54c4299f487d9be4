// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidate(t *testing.T) {
	aPod := &metav1.ObjectMeta{Name: "p"}
	const ok = "containers: [{name: c, image: i}]\n"
	tests := []struct {
		name, spec string
		pod        *metav1.ObjectMeta
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
`, pod: aPod},
		{name: "names", spec: "hostname: A\nsubdomain: a.b\nserviceAccountName: A\nnodeName: A\npriorityClassName: A\ncontainers: [{name: C, image: i}, {name: c, image: i}, {name: c, image: i}]\n", want: []string{
			"spec.containers[0].name: Invalid value", "spec.containers[2].name: Duplicate value", "spec.serviceAccountName: Invalid value",
			"spec.nodeName: Invalid value", "spec.hostname: Invalid value", "spec.subdomain: Invalid value", "spec.priorityClassName: Invalid value"}},
		{name: "group", spec: "schedulingGroup: {podGroupName: a.b}\n" + ok},
		{name: "group by nothing", spec: "schedulingGroup: {}\n" + ok, want: []string{
			"spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"}},
		{name: "group of an impossible name", spec: "schedulingGroup: {podGroupName: A}\n" + ok, want: []string{
			`spec.schedulingGroup.podGroupName: Invalid value: "A": a lowercase RFC 1123 subdomain`}},
		{name: "enumerations", spec: "restartPolicy: x\ndnsPolicy: x\npreemptionPolicy: x\ncontainers: [{name: c, image: i, imagePullPolicy: x, terminationMessagePolicy: x}]\n", want: []string{
			"spec.containers[0].terminationMessagePolicy: Unsupported value", "spec.containers[0].imagePullPolicy: Unsupported value",
			"spec.restartPolicy: Unsupported value", "spec.dnsPolicy: Unsupported value", "spec.preemptionPolicy: Unsupported value"}},
		{name: "ports", spec: "containers: [{name: c, image: i, ports: [{containerPort: 0}, {containerPort: 70000}, {containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 80}, {containerPort: 1, name: a}, {containerPort: 2, name: a}]}]\n", want: []string{
			"spec.containers[0].ports[0].containerPort: Required value", "spec.containers[0].ports[1].containerPort: Invalid value",
			"spec.containers[0].ports[5].name: Duplicate value", "spec.containers[0].ports[3].hostPort: Duplicate value"}},
		{name: "host network, pod", pod: aPod, spec: "hostNetwork: true\ncontainers: [{name: c, image: i, ports: [{containerPort: 80}]}]\n", want: []string{
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
			"spec.volumes[1].name: Duplicate value", "spec.volumes[2].hostPath: Forbidden: may not specify more than 1 volume type",
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
			"spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled", "spec.securityContext.runAsUser: Invalid value: -1",
			"spec.securityContext.sysctls[0].name: Invalid value: \"net.x\": may not be specified when 'hostNetwork' is true", "spec.securityContext.sysctls[1].name: Invalid value",
			"spec.securityContext.seccompProfile.localhostProfile: Required value", "spec.securityContext.appArmorProfile.type: Required value"}},
		{name: "scheduling", spec: ok + "schedulingGates: [{name: a}, {name: a}]\nreadinessGates: [{conditionType: ''}]\ntolerations: [{key: a, operator: Exists, value: b}, {effect: x}]\ntopologySpreadConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: x}]\nactiveDeadlineSeconds: 0\n", want: []string{
			"spec.readinessGates[0].conditionType: Invalid value", "spec.readinessGates[0].conditionType: Invalid value", "spec.schedulingGates[1]: Duplicate value",
			"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero", "spec.topologySpreadConstraints[0].topologyKey: Required value", "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value",
			"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
			"spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'", "spec.tolerations[1].operator: Invalid value", "spec.tolerations[1].effect: Unsupported value"}},
		{name: "claims", spec: "resourceClaims: [{name: a, resourceClaimName: x}, {name: a, resourceClaimName: x, resourceClaimTemplateName: y}, {name: B}]\ncontainers: [{name: c, image: i, resources: {claims: [{name: a, request: r}, {name: a, request: r}, {name: a}, {name: a}, {name: z}, {name: ''}]}}]\n", want: []string{
			"spec.resourceClaims[1].name: Duplicate value", "spec.resourceClaims[1]: Invalid value", "spec.resourceClaims[2].name: Invalid value", "spec.resourceClaims[2]: Invalid value",
			"spec.containers[0].resources.claims[1]: Duplicate value: \"a/r\"", "spec.containers[0].resources.claims[2]: Duplicate value: \"a\"", "spec.containers[0].resources.claims[3]: Duplicate value: \"a\"",
			"spec.containers[0].resources.claims[4]: Not found: \"z\": must be one of the names in pod.spec.resourceClaims: B, a", "spec.containers[0].resources.claims[5]: Required value"}},
		{name: "devices", spec: "hostUsers: false\nvolumes: [{name: v, emptyDir: {}}, {name: p, persistentVolumeClaim: {claimName: p}}]\ncontainers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /m}], volumeDevices: [{name: v, devicePath: /m}, {name: p, devicePath: /a/../b}, {name: x, devicePath: ''}]}]\n", want: []string{
			"spec.containers[0].volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices", "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/m\": must not already exist as a path in volumeDevices",
			"spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type", "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": must not already exist in volumeMounts",
			"spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/m\": must not already exist as a path in volumeMounts", "spec.containers[0].volumeDevices[1].devicePath: Invalid value: \"/a/../b\": can not contain backsteps",
			"spec.containers[0].volumeDevices[2].name: Not found", "spec.containers[0].volumeDevices[2].devicePath: Required value", "spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"}},
		{name: "user namespace", spec: ok + "hostUsers: false\nhostNetwork: true\nhostPID: true\nhostIPC: true\n", want: []string{
			"spec.hostNetwork: Forbidden: when `hostUsers` is false", "spec.HostPID: Forbidden", "spec.HostIPC: Forbidden"}},
		{name: "windows", spec: "os: {name: windows}\nhostPID: true\nresources: {limits: {cpu: 1}}\nsecurityContext: {runAsUser: 1, windowsOptions: {hostProcess: true, runAsUserName: 'a\\b\\c'}}\ncontainers: [{name: c, image: i, securityContext: {privileged: true, windowsOptions: {hostProcess: false, runAsUserName: '<\\..'}}}]\n", want: []string{
			"spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"<\\\\..\": runAsUserName's Domain doesn't match", "spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: \"<\\\\..\": runAsUserName's User cannot contain only periods",
			"spec.resources: Forbidden: may not be set for a windows pod", "spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash",
			"spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical",
			"spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod", "spec.hostPID: Forbidden", "spec.containers[0].securityContext.privileged: Forbidden"}},
		{name: "host process", spec: "securityContext: {windowsOptions: {hostProcess: true}}\ncontainers: [{name: c, image: i}]\n", want: []string{
			"spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"}},
		{name: "linux", spec: "os: {name: linux}\nsecurityContext: {windowsOptions: {}}\ncontainers: [{name: c, image: i, securityContext: {windowsOptions: {}}}]\n", want: []string{
			"spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod", "spec.containers[0].securityContext.windowsOptions: Forbidden"}},
		{name: "system", spec: ok + "os: {name: plan9}\n", want: []string{"spec.os: Unsupported value"}},
		{name: "variables from files", spec: "volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /h}}]\ncontainers: [{name: c, image: i, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: f, key: K}}}, {name: B, valueFrom: {fileKeyRef: {volumeName: h, path: ../f, key: K}}}, {name: C, valueFrom: {fileKeyRef: {volumeName: x, path: f, key: K}}}]}]\n", want: []string{
			"spec.containers[0].env[1].valueFrom.fileKeyRef.path: Invalid value", "spec.containers[0].env[1].valueFrom.fileKeyRef.volumeName: Invalid value: \"h\": referenced volume must be of type emptyDir",
			"spec.containers[0].env[2].valueFrom.fileKeyRef.volumeName: Not found"}},
		{name: "pod-level resources", spec: "resources: {requests: {cpu: 1}, limits: {memory: 1Gi, foo: 1}, claims: [{name: a}]}\ncontainers: [{name: c, image: i, resources: {requests: {cpu: 2}, limits: {memory: 2Gi}}}]\n", want: []string{
			"spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level", "spec.resources.limits[foo]: Invalid value", "spec.resources.claims[0]: Not found",
			"spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2", "spec.resources.containers[0][memory].limits: Invalid value: \"2Gi\""}},
		{name: "resize of init containers", spec: ok + "initContainers: [{name: i, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]\n", want: []string{
			"spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value"}},
		{name: "label keys", spec: ok + "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a], labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}]\n", want: []string{
			"spec.topologySpreadConstraints[0][0]: Invalid value: \"a\": exists in both matchLabelKeys and labelSelector"}},
		{name: "claim of an ephemeral volume", pod: aPod, spec: ok + "volumes: [{name: e, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: v, persistentVolumeClaim: {claimName: p-e}}]\n", want: []string{
			"spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"p-e\": must not reference a PVC"}},
		{name: "sources", spec: ok + "volumes: [{name: a, rbd: {}}, {name: b, cephfs: {}, downwardAPI: {}}, {name: c, gcePersistentDisk: {partition: 300}}, {name: d, csi: {driver: d, nodePublishSecretRef: {name: A}}}, {name: e, image: {}}]\n", want: []string{
			"spec.volumes[0].rbd.monitors: Required value", "spec.volumes[0].rbd.image: Required value", "spec.volumes[1].cephfs.monitors: Required value", "spec.volumes[1].downwarAPI: Forbidden",
			"spec.volumes[2].persistentDisk.pdName: Required value", "spec.volumes[2].persistentDisk.partition: Invalid value", "spec.volumes[3].csi.name: Invalid value", "spec.volumes[4].image.reference: Required value"}},
		{name: "certificates", spec: ok + "volumes: [{name: a, projected: {sources: [{podCertificate: {signerName: example.com/s, keyType: x, maxExpirationSeconds: 1}}, {clusterTrustBundle: {}}, {clusterTrustBundle: {name: 'a:b', path: ca}}]}}]\n", want: []string{
			"spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value", "spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value", "spec.volumes[0].projected.sources[0].podCertificate: Required value",
			"spec.volumes[0].projected.sources[1].clusterTrustBundle: Required value", "spec.volumes[0].projected.sources[1].clusterTrustBundle.path: Required value"}},
		{name: "DNS", spec: ok + "dnsPolicy: None\n", want: []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := parse(t, tc.spec)
			SetDefaults(s)
			errs := Validate(s, nil, tc.pod, field.NewPath("spec"))
			for i := range max(len(errs), len(tc.want)) {
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

// TestRatchet keeps what the old spec violates already, and only that.
func TestRatchet(t *testing.T) {
	const ok = "containers: [{name: c, image: i}]\n"
	tests := []struct{ name, old, spec, want string }{
		{name: "sysctl", old: ok + "hostIPC: true\nsecurityContext: {sysctls: [{name: kernel.sem, value: a}]}\n", spec: ok + "hostIPC: true\nsecurityContext: {sysctls: [{name: kernel.msgmax, value: a}]}\n"},
		{name: "new sysctl", old: ok, spec: ok + "hostIPC: true\nsecurityContext: {sysctls: [{name: kernel.msgmax, value: a}]}\n", want: "spec.securityContext.sysctls[0].name"},
		{name: "image volume", old: ok + "volumes: [{name: v, image: {}}]\n", spec: ok + "volumes: [{name: w, image: {}}]\n"},
		{name: "other rule", old: ok + "volumes: [{name: v, image: {}}]\n", spec: ok + "volumes: [{name: w, secret: {}}]\n", want: "spec.volumes[0].secret.secretName"},
		{name: "capability without escalation", old: "containers: [{name: c, image: i, securityContext: {capabilities: {add: [CAP_SYS_ADMIN]}}}]\n",
			spec: "containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}}]\n"},
		{name: "new capability", old: ok,
			spec: "containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}}]\n", want: "spec.containers[0].securityContext"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			old, s := parse(t, tc.old), parse(t, tc.spec)
			SetDefaults(old)
			SetDefaults(s)
			var got []string
			for _, err := range Validate(s, old, nil, field.NewPath("spec")) {
				got = append(got, err.Field)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("errors of %q, want of %q", got, tc.want)
			}
		})
	}
}
