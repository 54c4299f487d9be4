// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// files writes files into a new folder. Names may have folders in them.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	t.Parallel()
	changed := func(change func(*kubeletconfigv1beta1.KubeletConfiguration)) *kubeletconfigv1beta1.KubeletConfiguration {
		c := Default()
		change(c)
		return c
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  *kubeletconfigv1beta1.KubeletConfiguration
		err   string // part of it
	}{
		{name: "no file", want: Default()},
		{name: "nothing said", files: map[string]string{"main": head}, want: Default()},
		{
			name:  "fields",
			files: map[string]string{"main": head + "maxPods: 7\nclusterDNS: [10.0.0.10]\nallowedUnsafeSysctls: [kernel.msg*, net/core/somaxconn]\npodPidsLimit: 100\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MaxPods, c.ClusterDNS, c.PodPidsLimit = 7, []string{"10.0.0.10"}, new(int64(100))
				c.AllowedUnsafeSysctls = []string{"kernel.msg*", "net/core/somaxconn"}
			}),
		},
		{
			name: "drop-ins in their order, other files left alone",
			files: map[string]string{
				"main": head + "maxPods: 1\nclusterDNS: [10.0.0.1, 10.0.0.2]\n", "d/20.conf": head + "maxPods: 3\n",
				"d/10.conf": head + "maxPods: 2\nclusterDNS: [10.0.0.3]\n", "d/30.yaml": "no: settings\n", "d/sub/40.conf": head + "clusterDomain: x.y\n",
			},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MaxPods, c.ClusterDNS, c.ClusterDomain = 3, []string{"10.0.0.3"}, "x.y"
			}),
		},
		{name: "the only value", files: map[string]string{"main": head + "failSwapOn: false\nauthorization: {mode: Webhook}\nauthentication: {anonymous: {enabled: false}}\n"}, want: Default()},
		{name: "another value", files: map[string]string{"main": head + "failSwapOn: true\n"}, err: `failSwapOn: Unsupported value: "true": supported values: "false"`},
		{name: "anonymous", files: map[string]string{"main": head + "authentication: {anonymous: {enabled: true}}\n"}, err: "anonymous.enabled must be false"},
		{name: "no tokens", files: map[string]string{"main": head + "authentication: {webhook: {enabled: false}}\n"}, err: "webhook.enabled must be true"},
		{name: "another authority", files: map[string]string{"main": head + "authentication: {x509: {clientCAFile: /x}}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.Authentication.X509.ClientCAFile = "/x"
		})},
		{name: "an authority somewhere", files: map[string]string{"main": head + "authentication: {x509: {clientCAFile: x}}\n"}, err: "x509.clientCAFile must be an absolute path"},
		{
			name:  "TLS",
			files: map[string]string{"main": head + "tlsCertFile: /c\ntlsPrivateKeyFile: /k\ntlsMinVersion: VersionTLS13\ntlsCipherSuites: [TLS_AES_128_GCM_SHA256]\ntlsCurvePreferences: [29]\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.TLSCertFile, c.TLSPrivateKeyFile, c.TLSMinVersion = "/c", "/k", "VersionTLS13"
				c.TLSCipherSuites, c.TLSCurvePreferences = []string{"TLS_AES_128_GCM_SHA256"}, []int32{29}
			}),
		},
		{name: "a certificate of its own is not renewed", files: map[string]string{"main": head + "tlsCertFile: /c\ntlsPrivateKeyFile: /k\nfeatureGates: {RotateKubeletServerCertificate: false}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.TLSCertFile, c.TLSPrivateKeyFile, c.FeatureGates = "/c", "/k", map[string]bool{"RotateKubeletServerCertificate": false}
		})},
		{name: "the cluster's certificate is renewed", files: map[string]string{"main": head + "featureGates: {RotateKubeletServerCertificate: false}\n"}, err: "RotateKubeletServerCertificate=false is not supported"},
		{name: "the cluster's certificate rather than that of files", files: map[string]string{"main": head + "serverTLSBootstrap: true\ntlsCertFile: /c\ntlsPrivateKeyFile: /k\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.TLSCertFile, c.TLSPrivateKeyFile, c.ServerTLSBootstrap = "/c", "/k", true
		})},
		{name: "which is renewed", files: map[string]string{"main": head + "serverTLSBootstrap: true\ntlsCertFile: /c\ntlsPrivateKeyFile: /k\nfeatureGates: {RotateKubeletServerCertificate: false}\n"}, err: "RotateKubeletServerCertificate=false is not supported"},
		{name: "a certificate without a key", files: map[string]string{"main": head + "tlsCertFile: /c\n"}, err: "tlsCertFile and tlsPrivateKeyFile go together"},
		{name: "a key without a certificate", files: map[string]string{"main": head + "tlsPrivateKeyFile: /k\n"}, err: "tlsCertFile and tlsPrivateKeyFile go together"},
		{name: "TLS that nobody knows", files: map[string]string{"main": head + "tlsMinVersion: '4'\ntlsCipherSuites: [X]\ntlsCurvePreferences: [29, 29]\n"}, err: `[tlsCipherSuites: Invalid value: ["X"]: Cipher suite X not supported or doesn't exist, tlsMinVersion: Invalid value: "4": unknown tls version "4", tlsCurvePreferences: Invalid value: [29,29]: duplicate curve preference 29]`},
		{name: "everything allowed", files: map[string]string{"main": head + "authorization: {mode: AlwaysAllow}\n"}, err: "authorization: Invalid value"},
		{name: "believed below zero", files: map[string]string{"main": head + "authentication: {webhook: {cacheTTL: -1s}}\nauthorization: {webhook: {cacheUnauthorizedTTL: -1s}}\n"}, err: "authorization: Invalid value"},
		{name: "believed for a while", files: map[string]string{"main": head + "authentication: {webhook: {cacheTTL: 1s}}\nauthorization: {webhook: {cacheAuthorizedTTL: 5m, cacheUnauthorizedTTL: 3s}}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.Authentication.Webhook.CacheTTL.Duration, c.Authorization.Webhook.CacheUnauthorizedTTL.Duration = time.Second, 3*time.Second
		})},
		{name: "a field that is not honoured", files: map[string]string{"main": head + "cgroupRoot: /x\nimageServiceEndpoint: \"x\"\n"}, err: "[cgroupRoot: Forbidden: not supported by this kubelet, imageServiceEndpoint: Forbidden"},
		{
			name:  "managers",
			files: map[string]string{"main": head + "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}\ncpuManagerReconcilePeriod: 5s\nreservedSystemCPUs: 0,2\ntopologyManagerScope: pod\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.CPUManagerPolicy, c.CPUManagerPolicyOptions = "static", map[string]string{"full-pcpus-only": "true"}
				c.CPUManagerReconcilePeriod.Duration, c.ReservedSystemCPUs, c.TopologyManagerScope = 5*time.Second, "0,2", "pod"
				c.EnforceNodeAllocatable = []string{"pods"}
			}),
		},
		{name: "managers: kubeadm's default", files: map[string]string{"main": head + "cpuManagerReconcilePeriod: 0s\n"}, want: Default()},
		{name: "managers: no policy", files: map[string]string{"main": head + "cpuManagerPolicy: x\ntopologyManagerPolicy: x\ntopologyManagerScope: x\n"}, err: `[cpuManagerPolicy: Invalid value: "x": must be one of: ["none" "static"], topologyManagerPolicy: Invalid value: "x": must be one of: ["none" "best-effort" "restricted" "single-numa-node"], topologyManagerScope: Invalid value: "x": must be one of: ["container" "pod"]]`},
		{name: "managers: nothing reserved", files: map[string]string{"main": head + "cpuManagerPolicy: static\nsystemReserved: {cpu: '0'}\n"}, err: "cpuManagerPolicy: Invalid value: \"static\": the static policy requires"},
		{name: "managers: memory", files: map[string]string{"main": head + "memoryManagerPolicy: static\nreservedMemory: [{numaNode: 0, limits: {cpu: 1}}]\n"}, err: `[memoryManagerPolicy: Invalid value: "static": must be one of: ["None" "Static"], reservedMemory: Invalid value: [{"numaNode":0,"limits":{"cpu":"1"}}]: the limit type "cpu" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted]`},
		{name: "managers: memory twice", files: map[string]string{"main": head + "reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]\n"}, err: `the reserved memory has a duplicate value for NUMA node 0 and resource "memory"`},
		{name: "managers: no memory", files: map[string]string{"main": head + "reservedMemory: [{numaNode: 0, limits: {hugepages-2Mi: 0}}]\n"}, err: `reserved memory may not be zero for NUMA node 0 and resource "hugepages-2Mi"`},
		{name: "managers: no CPUs", files: map[string]string{"main": head + "reservedSystemCPUs: x\n"}, err: "reservedSystemCPUs: Invalid value"},
		{name: "managers: options", files: map[string]string{"main": head + "cpuManagerPolicyOptions: {x: 'true'}\ntopologyManagerPolicyOptions: {x: 'true'}\ncpuManagerReconcilePeriod: 1ms\n"}, err: `unknown CPU Manager Policy option: "x", cpuManagerReconcilePeriod: Invalid value: "1ms": must be at least a second, topologyManagerPolicyOptions: Invalid value: {"x":"true"}: unknown Topology Manager Policy option: "x"`},
		{name: "no field", files: map[string]string{"main": head + "maxpods: 1\n"}, err: `unknown field "maxpods"`},
		{name: "twice", files: map[string]string{"main": head + "maxPods: 1\nmaxPods: 2\n"}, err: `key "maxPods" already set in map`},
		{name: "another kind", files: map[string]string{"main": "apiVersion: v1\nkind: Pod\n"}, err: "it is v1 Pod, want apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration"},
		{name: "no object", files: map[string]string{"main": "[]"}, err: "cannot unmarshal array"},
		{name: "empty", files: map[string]string{"main": ""}, err: "want apiVersion"},
		{name: "invalid", files: map[string]string{"main": head + "maxPods: -1\npodPidsLimit: 0\nresolvConf: x\nallowedUnsafeSysctls: [vm.swappiness]\n"}, err: "maxPods: Invalid value: -1: must be at least 1"},
		{name: "a sysctl of the node", files: map[string]string{"main": head + "allowedUnsafeSysctls: [vm.swappiness]\n"}, err: `the sysctls "vm.swappiness" are not known to be namespaced`},
		{name: "all sysctls", files: map[string]string{"main": head + "allowedUnsafeSysctls: ['*']\n"}, err: "neither the name of a sysctl"},
		{name: "logs", files: map[string]string{"main": head + "containerLogMaxSize: none\ncontainerLogMaxFiles: 1\n"}, err: `[containerLogMaxSize: Invalid value: "none": must be a positive quantity, containerLogMaxFiles: Invalid value: 1: must be at least 2]`},
		{name: "no number of logs", files: map[string]string{"main": head + "containerLogMaxFiles: null\n"}, err: "containerLogMaxFiles: Invalid value"},
		{
			name:  "eviction: what a file names holds as a whole",
			files: map[string]string{"main": head + "evictionHard: {memory.available: 1Gi}\nimageGCHighThresholdPercent: 85\n", "d/1.conf": head + "evictionHard: {pid.available: '100'}\nsystemReserved: {cpu: 500m}\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.EvictionHard = map[string]string{"memory.available": "1Gi", "pid.available": "100"}
				c.ImageGCHighThresholdPercent, c.SystemReserved = new(int32(85)), map[string]string{"cpu": "500m"}
				c.EnforceNodeAllocatable = []string{"pods"}
			}),
		},
		{
			name: "eviction: merged", files: map[string]string{"main": head + "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi, imagefs.available: 0%}\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.MergeDefaultEvictionSettings = new(true)
				c.EvictionHard = map[string]string{"memory.available": "1Gi", "nodefs.available": "100Mi", "nodefs.inodesFree": "1%", "imagefs.available": "0%", "imagefs.inodesFree": "1%"}
			}),
		},
		{name: "eviction: no signal", files: map[string]string{"main": head + "evictionHard: {disk: 1Gi}\n"}, err: "evictionHard: Invalid value: {\"disk\":\"1Gi\"}: unsupported eviction signal disk"},
		{name: "eviction: soft without grace", files: map[string]string{"main": head + "evictionSoft: {memory.available: 1Gi}\n"}, err: "grace period must be specified"},
		{name: "images: low above high", files: map[string]string{"main": head + "imageGCHighThresholdPercent: 80\n"}, err: "imageGCLowThresholdPercent: Invalid value: 80: must be less than imageGCHighThresholdPercent"},
		{name: "images: ages", files: map[string]string{"main": head + "imageMaximumGCAge: 1m\n"}, err: "must be greater than imageMinimumGCAge"},
		{
			name: "images: one after the other", files: map[string]string{"main": head + "serializeImagePulls: true\nregistryPullQPS: 5\nruntimeRequestTimeout: 15m\n", "d/1.conf": head + "imageMinimumGCAge: 2m\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.SerializeImagePulls, c.MaxParallelImagePulls, c.RegistryPullQPS = new(true), new(int32(1)), new(int32(5))
				c.RuntimeRequestTimeout.Duration = 15 * time.Minute
			}),
		},
		{name: "images: one after the other, and two at a time", files: map[string]string{"main": head + "serializeImagePulls: true\nmaxParallelImagePulls: 2\n"}, err: "maxParallelImagePulls: Invalid value"},
		{name: "images: none at a time", files: map[string]string{"main": head + "maxParallelImagePulls: 0\nregistryBurst: 0\nregistryPullQPS: -1\n"}, err: "[registryPullQPS: Invalid value: -1: must be at least 0, registryBurst: Invalid value: 0: must be at least 1, maxParallelImagePulls: Invalid value"},
		{name: "images: a list without its policy", files: map[string]string{"main": head + "preloadedImagesVerificationAllowlist: [x]\n"}, err: "imagePullCredentialsVerificationPolicy must be NeverVerifyAllowlistedImages"},
		{name: "images: no pattern", files: map[string]string{"main": head + "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['x:1']\n"}, err: "neither tag nor digest is accepted"},
		{name: "images: no policy", files: map[string]string{"main": head + "imagePullCredentialsVerificationPolicy: Sometimes\n"}, err: "imagePullCredentialsVerificationPolicy: Invalid value"},
		{name: "shutdown: critical pods have more than all", files: map[string]string{"main": head + "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s\n"}, err: "shutdownGracePeriodCriticalPods: Invalid value"},
		{name: "shutdown: less than a second", files: map[string]string{"main": head + "shutdownGracePeriod: 10ms\n"}, err: "must be either zero or otherwise >= 1 sec"},
		{name: "shutdown: both", files: map[string]string{"main": head + "shutdownGracePeriod: 10s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]\n"}, err: "cannot specify both"},
		{
			name: "node status: looked at more seldom than told", files: map[string]string{"main": head + "nodeStatusUpdateFrequency: 1m\nnodeLeaseDurationSeconds: 60\nsyncFrequency: 0s\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.NodeStatusUpdateFrequency.Duration, c.NodeStatusReportFrequency.Duration, c.NodeLeaseDurationSeconds = time.Minute, time.Minute, 60
			}),
		},
		{
			name: "node status: told seldom", files: map[string]string{"main": head + "nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1h\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.NodeStatusUpdateFrequency.Duration, c.NodeStatusReportFrequency.Duration = 20*time.Second, time.Hour
			}),
		},
		{name: "what kubeadm writes", files: map[string]string{"main": head + "crashLoopBackOff: {}\nmemorySwap: {}\nnodeStatusReportFrequency: 0s\nnodeStatusUpdateFrequency: 0s\nruntimeRequestTimeout: 0s\n" +
			"shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\nstreamingConnectionIdleTimeout: 0s\nsyncFrequency: 0s\n" +
			"containerRuntimeEndpoint: \"\"\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}, text: {infoBufferSize: \"0\"}}, verbosity: 0}\n" +
			"volumeStatsAggPeriod: 0s\nevictionPressureTransitionPeriod: 0s\nimageMinimumGCAge: 0s\nimageMaximumGCAge: 0s\nhealthzBindAddress: 127.0.0.1\n" +
			"containerLogMaxWorkers: 0\ncontainerLogMonitorInterval: 0s\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.ContainerLogMaxWorkers, c.ContainerLogMonitorInterval = new(int32(0)), &metav1.Duration{}
			c.Logging.FlushFrequency.SerializeAsString = false
		})},
		{
			name: "another address", files: map[string]string{"main": head + "address: 0.0.0.0\nport: 10255\n", "d/1.conf": head + "port: 8080\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) { c.Address, c.Port = "0.0.0.0", 8080 }),
		},
		{name: "no address", files: map[string]string{"main": head + "address: localhost\n"}, err: "address: Invalid value: \"localhost\": must be an IP address"},
		{name: "no port", files: map[string]string{"main": head + "port: 65536\n"}, err: "port: Invalid value: 65536: must be between 1 and 65535"},
		{name: "more than nothing", files: map[string]string{"main": head + "logging: {verbosity: 1}\noomScoreAdj: -1\n"}, err: "[logging: Forbidden: not supported by this kubelet, oomScoreAdj: Forbidden"},
		{name: "a back-off of ten minutes", files: map[string]string{"main": head + "crashLoopBackOff: {maxContainerRestartPeriod: 10m}\n"}, err: "maxContainerRestartPeriod must be set between 1s and 300s"},
		{
			name: "traces", files: map[string]string{"main": head + "tracing: {endpoint: 'collector:4317', samplingRatePerMillion: 100}\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.Tracing = &tracingv1.TracingConfiguration{Endpoint: new("collector:4317"), SamplingRatePerMillion: new(int32(100))}
			}),
		},
		{name: "traces of more than everything", files: map[string]string{"main": head + "tracing: {samplingRatePerMillion: 1000001}\n"}, err: "sampling rate per million must be less than or equal to one million"},
		{name: "traces to nowhere", files: map[string]string{"main": head + "tracing: {endpoint: 'http://x'}\n"}, err: "unsupported scheme: http"},
		{name: "gates", files: map[string]string{"main": head + "featureGates: {NodeSwap: true, CPUManagerPolicyAlphaOptions: true, ContextualLogging: false, AllAlpha: false}\n", "d/1.conf": head + "featureGates: {CPUManagerPolicyBetaOptions: false}\n" +
			"cpuManagerPolicyOptions: {align-by-socket: 'true'}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.FeatureGates = map[string]bool{"NodeSwap": true, "CPUManagerPolicyAlphaOptions": true, "ContextualLogging": false, "AllAlpha": false, "CPUManagerPolicyBetaOptions": false}
			c.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
		})},
		{name: "gates: no such", files: map[string]string{"main": head + "featureGates: {A: true, NodeSwap: false}\n"}, err: "unrecognized feature gate: A"},
		{name: "gates: the other side", files: map[string]string{"main": head + "featureGates: {NodeSwap: false}\n"}, err: "feature gate NodeSwap=false is not supported: what it switches has only this side here"},
		{name: "gates: all alpha", files: map[string]string{"main": head + "featureGates: {AllAlpha: true}\n"}, err: "=true is not supported"},
		{name: "gates: no beta", files: map[string]string{"main": head + "featureGates: {AllBeta: false}\n"}, err: "=false is not supported"},
		{name: "gates: what means nothing without another", files: map[string]string{"main": head + "featureGates: {PodLevelResources: false, PodLevelResourcesFixDefaulting: false}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.FeatureGates = map[string]bool{"PodLevelResources": false, "PodLevelResourcesFixDefaulting": false}
		})},
		{name: "gates: that with the other", files: map[string]string{"main": head + "featureGates: {PodLevelResourcesFixDefaulting: false}\n"}, err: "feature gate PodLevelResourcesFixDefaulting=false is not supported"},
		{name: "gates: of options", files: map[string]string{"main": head + "cpuManagerPolicyOptions: {align-by-socket: 'true'}\n"}, err: "it needs the feature gate CPUManagerPolicyAlphaOptions"},
		{name: "gates: of beta options", files: map[string]string{"main": head + "featureGates: {CPUManagerPolicyBetaOptions: false}\ncpuManagerPolicyOptions: {distribute-cpus-across-numa: 'true'}\n"}, err: "it needs the feature gate CPUManagerPolicyBetaOptions"},
		{name: "quotas", files: map[string]string{"main": head + "cpuCFSQuota: false\ncpuCFSQuotaPeriod: 10ms\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.CPUCFSQuota, c.CPUCFSQuotaPeriod = new(false), &metav1.Duration{Duration: 10 * time.Millisecond}
		})},
		{name: "memory: kept and taken", files: map[string]string{"main": head + "memoryThrottlingFactor: 0.8\nmemoryReservationPolicy: TieredReservation\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.MemoryThrottlingFactor, c.MemoryReservationPolicy = new(0.8), kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
		})},
		{name: "memory: too much", files: map[string]string{"main": head + "memoryThrottlingFactor: 1.1\n"}, err: "must be greater than 0 and less than or equal to 1.0"},
		{name: "memory: no such policy", files: map[string]string{"main": head + "memoryReservationPolicy: HardReservation\n"}, err: `valid options are "None" or "TieredReservation"`},
		{name: "memory: without the gate", files: map[string]string{"main": head + "memoryReservationPolicy: TieredReservation\nfeatureGates: {MemoryQoS: false}\n"}, err: "requires feature gate MemoryQoS"},
		{name: "memory: what was the default", files: map[string]string{"main": head + "memoryThrottlingFactor: 0.9\nfeatureGates: {MemoryQoS: false}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.MemoryThrottlingFactor, c.FeatureGates = new(0.9), map[string]bool{"MemoryQoS": false}
		})},
		{name: "quotas: too short", files: map[string]string{"main": head + "cpuCFSQuotaPeriod: 10us\n"}, err: "must be between 1ms and 1sec, inclusive"},
		{name: "quotas: by a gate", files: map[string]string{"main": head + "cpuCFSQuotaPeriod: 10ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}\n"}, err: "requires feature gate CustomCPUCFSQuotaPeriod"},
		{name: "all swap", files: map[string]string{"main": head + "memorySwap: {swapBehavior: UnlimitedSwap}\n"}, err: "memorySwap: Invalid value"},
		{name: "events below zero", files: map[string]string{"main": head + "eventRecordQPS: -1\neventBurst: 0\n"}, err: "[eventRecordQPS: Invalid value: -1: must be at least 0, eventBurst: Invalid value"},
		{name: "reserved process ids", files: map[string]string{"main": head + "kubeReserved: {pid: '100'}\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.KubeReserved, c.EnforceNodeAllocatable = map[string]string{"pid": "100"}, []string{"pods"}
		})},
		{name: "reserved process ids that nothing keeps", files: map[string]string{"main": head + "kubeReserved: {pid: '100'}\nenforceNodeAllocatable: [none]\n"}, err: `cannot reserve "pid" without enforceNodeAllocatable: [pods]`},
		{name: "reserved disks", files: map[string]string{"main": head + "kubeReserved: {disk: '100'}\n"}, err: `cannot reserve "disk"`},
		{name: "limits of the system", files: map[string]string{"main": head + "enforceNodeAllocatable: [pods, system-reserved]\n"}, err: `enforceNodeAllocatable: Invalid value: ["pods","system-reserved"]: must be [pods] or [none]`},
		{name: "limits of pods", files: map[string]string{"main": head + "enforceNodeAllocatable: [pods]\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
			c.EnforceNodeAllocatable = []string{"pods"}
		})},
		{name: "reserved less than nothing", files: map[string]string{"main": head + "kubeReserved: {cpu: '-1'}\n"}, err: `resource quantity for "cpu" cannot be negative: -1`},
		{
			name:  "static pods",
			files: map[string]string{"main": head + "staticPodPath: /m\nstaticPodURL: https://h/m\nstaticPodURLHeader: {X-A: [b]}\nfileCheckFrequency: 0s\nhttpCheckFrequency: 5s\n"},
			want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) {
				c.StaticPodPath, c.StaticPodURL, c.StaticPodURLHeader = "/m", "https://h/m", map[string][]string{"X-A": {"b"}}
				c.FileCheckFrequency.Duration, c.HTTPCheckFrequency.Duration = 0, 5*time.Second
			}),
		},
		{name: "manifests at no path", files: map[string]string{"main": head + "staticPodPath: m\n"}, err: "staticPodPath: Invalid value"},
		{name: "manifests at no URL", files: map[string]string{"main": head + "staticPodURL: file:///m\n"}, err: "staticPodURL: Invalid value"},
		{name: "no header, whose value is not told", files: map[string]string{"main": head + "staticPodURLHeader: {X-A: [\"s\\n\"]}\n"}, err: `staticPodURLHeader: Invalid value: "<masked>": "X-A": a value must not`},
		{name: "no name of a header", files: map[string]string{"main": head + "staticPodURLHeader: {\"X A\": [s]}\n"}, err: "staticPodURLHeader: Invalid value"},
		{name: "a frequency below zero", files: map[string]string{"main": head + "fileCheckFrequency: -1s\n"}, err: "fileCheckFrequency: Invalid value"},
		{name: "null", files: map[string]string{"main": head + "resolvConf: null\n"}, want: changed(func(c *kubeletconfigv1beta1.KubeletConfiguration) { c.ResolverConfig = nil })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir, main, parts := files(t, tc.files), "", ""
			if _, is := tc.files["main"]; is {
				main = filepath.Join(dir, "main")
			}
			if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
				parts = filepath.Join(dir, "d")
			}
			got, err := Read(main, parts)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead_Missing(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][2]string{{none, ""}, {"", none}} {
		if _, err := Read(args[0], args[1]); err == nil || !strings.Contains(err.Error(), none) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Each name is one of the type's, and said once.
func TestFields(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name := range fixed {
		seen[name] = true
	}
	for _, f := range fields {
		if seen[f.name] {
			t.Errorf("%s is there twice", f.name)
		}
		seen[f.name] = true
	}
	for name := range seen {
		if valueOf(Default(), name) == nil {
			t.Errorf("%s is no field", name)
		}
	}
	if problems := Validate(Default()); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	c := &kubeletconfigv1beta1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "3", "memory": "1Gi"}, KubeReserved: map[string]string{"cpu": "4"}}
	if system, kube := Reserved(c); !cmp.Equal(system, c.SystemReserved) || !cmp.Equal(kube, c.KubeReserved) {
		t.Errorf("%v, %v", system, kube)
	}
	c.ReservedSystemCPUs = "0-1"
	if system, kube := Reserved(c); !cmp.Equal(system, map[string]string{"cpu": "2", "memory": "1Gi"}) || len(kube) > 0 || c.KubeReserved["cpu"] != "4" {
		t.Errorf("%v, %v", system, kube)
	}
}

func TestDeclared(t *testing.T) {
	c := Default()
	want := []string{
		"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
		"RestartAllContainersOnContainerExits",
	}
	if diff := cmp.Diff(want, Declared(c)); diff != "" {
		t.Error(diff)
	}
	c.FeatureGates = map[string]bool{"PodLevelResources": false}
	if diff := cmp.Diff(slices.Delete(want, 1, 2), Declared(c)); diff != "" {
		t.Error(diff)
	}
}

func TestMasked(t *testing.T) {
	c := Default()
	c.StaticPodURLHeader = map[string][]string{"Authorization": {"Bearer secret"}}
	want := Default()
	want.StaticPodURLHeader = map[string][]string{"Authorization": {"<masked>"}}
	if diff := cmp.Diff(want, Masked(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.StaticPodURLHeader["Authorization"][0] != "Bearer secret" {
		t.Error("the secret is lost")
	}
}
