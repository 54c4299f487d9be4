// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package configuration

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/image"
)

// config keeps the lines below short.
type config = kubeletconfigv1beta1.KubeletConfiguration

// setting is a field that this kubelet honours.
type setting struct {
	// name is that in files.
	name string
	// preset fills in the default; nil: the zero value is it, or another part of the program fills it in.
	preset func(*config)
	// complete fills in what depends on what the files say; nil: nothing does.
	complete func(*config)
	// check says what is wrong with the value, "" if nothing; nil: nothing can be.
	check func(*config) string
	// secret: messages do not tell the value.
	secret bool
}

// fields are all that are honoured, in the order of upstream's type but for those of managers.
var fields = slices.Concat(managers, []setting{
	{name: "resolvConf", preset: func(c *config) { c.ResolverConfig = new("/etc/resolv.conf") }, check: func(c *config) string { return absolute(ptr.Deref(c.ResolverConfig, "")) }},
	// Pulls run beside each other, up to five, and begin whenever they are due.
	{name: "registryPullQPS", preset: func(c *config) { c.RegistryPullQPS = new(int32(0)) }, check: func(c *config) string { return atLeast(int64(ptr.Deref(c.RegistryPullQPS, 0)), 0) }},
	{name: "registryBurst", preset: func(c *config) { c.RegistryBurst = 10 }, check: func(c *config) string { return atLeast(int64(c.RegistryBurst), 1) }},
	{name: "imagePullCredentialsVerificationPolicy", preset: func(c *config) {
		c.ImagePullCredentialsVerificationPolicy = kubeletconfigv1beta1.NeverVerifyPreloadedImages
	}, check: verificationPolicy},
	{name: "preloadedImagesVerificationAllowlist", check: verificationAllowlist},
	{name: "clusterDomain"},
	{name: "clusterDNS"},
	{name: "imageMinimumGCAge", complete: unless0(2*time.Minute, func(c *config) *metav1.Duration { return &c.ImageMinimumGCAge }), check: func(c *config) string { return atLeast(int64(c.ImageMinimumGCAge.Duration), 0) }},
	{name: "imageMaximumGCAge", check: maximumGCAge},
	// On a disk that everything else is on, too, how full it is says nothing about images.
	{name: "imageGCHighThresholdPercent", preset: func(c *config) { c.ImageGCHighThresholdPercent = new(int32(100)) }, check: func(c *config) string { return percent(c.ImageGCHighThresholdPercent) }},
	{name: "imageGCLowThresholdPercent", preset: func(c *config) { c.ImageGCLowThresholdPercent = new(int32(80)) }, check: lowThreshold},
	duration("runtimeRequestTimeout", container.Patience, func(c *config) *metav1.Duration { return &c.RuntimeRequestTimeout }),
	{name: "serializeImagePulls", preset: func(c *config) { c.SerializeImagePulls = new(false) }},
	{name: "maxParallelImagePulls", complete: parallelPulls, check: func(c *config) string {
		if ptr.Deref(c.SerializeImagePulls, false) && ptr.Deref(c.MaxParallelImagePulls, 1) > 1 {
			return "cannot be larger than 1 unless SerializeImagePulls is set to false"
		}
		return atLeast(int64(ptr.Deref(c.MaxParallelImagePulls, 1)), 1)
	}},
	{name: "evictionHard", complete: evictionHard, check: func(c *config) string { return evictions(eviction.Settings{Hard: c.EvictionHard}) }},
	{name: "evictionSoft", check: func(c *config) string {
		return evictions(eviction.Settings{Soft: c.EvictionSoft, SoftGracePeriod: c.EvictionSoftGracePeriod})
	}},
	{name: "evictionSoftGracePeriod", check: func(c *config) string {
		return evictions(eviction.Settings{SoftGracePeriod: c.EvictionSoftGracePeriod})
	}},
	{name: "evictionPressureTransitionPeriod", complete: unless0(5*time.Minute, func(c *config) *metav1.Duration { return &c.EvictionPressureTransitionPeriod }), check: func(c *config) string { return atLeast(int64(c.EvictionPressureTransitionPeriod.Duration), 0) }},
	{name: "evictionMaxPodGracePeriod", check: func(c *config) string { return atLeast(int64(c.EvictionMaxPodGracePeriod), 0) }},
	{name: "evictionMinimumReclaim", check: func(c *config) string { return evictions(eviction.Settings{MinimumReclaim: c.EvictionMinimumReclaim}) }},
	{name: "mergeDefaultEvictionSettings"},
	{name: "maxPods", preset: func(c *config) { c.MaxPods = 110 }, check: func(c *config) string { return atLeast(int64(c.MaxPods), 1) }},
	{name: "podPidsLimit", preset: func(c *config) { c.PodPidsLimit = new(int64(-1)) }, check: func(c *config) string {
		if n := ptr.Deref(c.PodPidsLimit, -1); n == 0 || n < -1 {
			return "must be positive, or -1 for no limit"
		}
		return ""
	}},
	{name: "cpuCFSQuota", preset: func(c *config) { c.CPUCFSQuota = new(true) }},
	{name: "cpuCFSQuotaPeriod", preset: func(c *config) { c.CPUCFSQuotaPeriod = &metav1.Duration{Duration: quotaPeriod} }, check: func(c *config) string {
		switch d := ptr.Deref(c.CPUCFSQuotaPeriod, metav1.Duration{Duration: quotaPeriod}).Duration; {
		case d != quotaPeriod && !Enabled(c, customPeriod):
			return fmt.Sprintf("requires feature gate %s", customPeriod)
		case d < time.Millisecond || d > time.Second:
			return "must be between 1ms and 1sec, inclusive"
		}
		return ""
	}},
	{name: "allowedUnsafeSysctls", check: unsafeSysctls},
	{name: "containerLogMaxSize", preset: func(c *config) { c.ContainerLogMaxSize = "10Mi" }, check: func(c *config) string {
		if q, err := resource.ParseQuantity(c.ContainerLogMaxSize); err != nil || q.Sign() <= 0 {
			return "must be a positive quantity"
		}
		return ""
	}},
	{name: "containerLogMaxFiles", preset: func(c *config) { c.ContainerLogMaxFiles = new(int32(5)) }, check: func(c *config) string {
		return atLeast(int64(ptr.Deref(c.ContainerLogMaxFiles, 0)), 2)
	}},
	{name: "systemReserved", check: func(c *config) string { return reserved(c, c.SystemReserved) }},
	{name: "kubeReserved", check: func(c *config) string { return reserved(c, c.KubeReserved) }},
	{name: "registerWithTaints"},
	{name: "shutdownGracePeriod", check: func(c *config) string { return secondOrNone(c.ShutdownGracePeriod) }},
	{name: "shutdownGracePeriodCriticalPods", check: func(c *config) string {
		if c.ShutdownGracePeriodCriticalPods.Duration > c.ShutdownGracePeriod.Duration {
			return "must be <= shutdownGracePeriod"
		}
		return secondOrNone(c.ShutdownGracePeriodCriticalPods)
	}},
	{name: "shutdownGracePeriodByPodPriority", check: byPriority},
	{name: "staticPodPath", check: func(c *config) string { return absolute(c.StaticPodPath) }},
	{name: "staticPodURL", check: func(c *config) string { return webAddress(c.StaticPodURL) }},
	{name: "staticPodURLHeader", check: func(c *config) string { return headers(c.StaticPodURLHeader) }, secret: true},
	{name: "fileCheckFrequency", preset: func(c *config) { c.FileCheckFrequency.Duration = check }, check: func(c *config) string { return frequency(c.FileCheckFrequency) }},
	{name: "httpCheckFrequency", preset: func(c *config) { c.HTTPCheckFrequency.Duration = check }, check: func(c *config) string { return frequency(c.HTTPCheckFrequency) }},
	// Several kubelets may be on a machine, and nobody need find out who listens there.
	{name: "healthzPort", preset: func(c *config) { c.HealthzPort = new(int32(0)) }, check: func(c *config) string { return portOrNone(ptr.Deref(c.HealthzPort, 0)) }},
	{name: "healthzBindAddress", preset: func(c *config) { c.HealthzBindAddress = "127.0.0.1" }, check: func(c *config) string { return ipAddress(c.HealthzBindAddress) }},
	// The cluster, or the machine's agent, knows at which port, if no file says so.
	{name: "address", check: func(c *config) string {
		if c.Address == "" {
			return ""
		}
		return ipAddress(c.Address)
	}},
	{name: "port", check: func(c *config) string { return portOrNone(c.Port) }},
	{name: "readOnlyPort", check: func(c *config) string { return portOrNone(c.ReadOnlyPort) }},
	{name: "tlsCertFile", check: func(c *config) string { return pairOfFiles(c.TLSCertFile, c.TLSPrivateKeyFile) }},
	{name: "tlsPrivateKeyFile", check: func(c *config) string { return pairOfFiles(c.TLSPrivateKeyFile, c.TLSCertFile) }},
	// The certificate is one of the cluster's authority in either case, unless files have another.
	{name: "serverTLSBootstrap"},
	{name: "tlsCipherSuites", check: func(c *config) string { return wrong(cliflag.TLSCipherSuites(c.TLSCipherSuites)) }},
	{name: "tlsMinVersion", check: func(c *config) string { return wrong(cliflag.TLSVersion(c.TLSMinVersion)) }},
	{name: "tlsCurvePreferences", check: func(c *config) string { return wrong(cliflag.TLSCurvePreferences(c.TLSCurvePreferences)) }},
	{name: "authentication", preset: func(c *config) {
		c.Authentication.Anonymous.Enabled, c.Authentication.Webhook.Enabled = new(false), new(true)
	}, complete: unless0(2*time.Minute, func(c *config) *metav1.Duration { return &c.Authentication.Webhook.CacheTTL }), check: authentication},
	{name: "authorization", preset: func(c *config) { c.Authorization.Mode = kubeletconfigv1beta1.KubeletAuthorizationModeWebhook }, complete: func(c *config) {
		unless0(5*time.Minute, func(c *config) *metav1.Duration { return &c.Authorization.Webhook.CacheAuthorizedTTL })(c)
		unless0(30*time.Second, func(c *config) *metav1.Duration { return &c.Authorization.Webhook.CacheUnauthorizedTTL })(c)
	}, check: authorization},
	{name: "enableDebuggingHandlers", preset: func(c *config) { c.EnableDebuggingHandlers = new(true) }},
	{name: "enableProfilingHandler", preset: func(c *config) { c.EnableProfilingHandler = new(true) }},
	{name: "enableSystemLogHandler", preset: func(c *config) { c.EnableSystemLogHandler = new(true) }},
	duration("syncFrequency", time.Minute, func(c *config) *metav1.Duration { return &c.SyncFrequency }),
	duration("streamingConnectionIdleTimeout", 4*time.Hour, func(c *config) *metav1.Duration { return &c.StreamingConnectionIdleTimeout }),
	// The report waits no longer than the look, unless a file says how long.
	{name: "nodeStatusReportFrequency", complete: reportFrequency, check: func(c *config) string { return atLeast(int64(c.NodeStatusReportFrequency.Duration), 0) }},
	duration("nodeStatusUpdateFrequency", 10*time.Second, func(c *config) *metav1.Duration { return &c.NodeStatusUpdateFrequency }),
	{name: "nodeLeaseDurationSeconds", preset: func(c *config) { c.NodeLeaseDurationSeconds = 40 }, check: func(c *config) string { return atLeast(int64(c.NodeLeaseDurationSeconds), 1) }},
	{name: "nodeStatusMaxImages", preset: func(c *config) { c.NodeStatusMaxImages = new(int32(50)) }, check: func(c *config) string { return atLeast(int64(ptr.Deref(c.NodeStatusMaxImages, 0)), -1) }},
	{name: "eventRecordQPS", preset: func(c *config) { c.EventRecordQPS = new(int32(50)) }, check: func(c *config) string { return atLeast(int64(ptr.Deref(c.EventRecordQPS, 0)), 0) }},
	{name: "eventBurst", preset: func(c *config) { c.EventBurst = 100 }, check: func(c *config) string { return atLeast(int64(c.EventBurst), 1) }},
	// The client is not limited unless a file says so: the server's queues are fair.
	{name: "kubeAPIQPS", check: func(c *config) string { return atLeast(int64(ptr.Deref(c.KubeAPIQPS, 0)), 0) }},
	{name: "kubeAPIBurst", preset: func(c *config) { c.KubeAPIBurst = 100 }, check: func(c *config) string { return atLeast(int64(c.KubeAPIBurst), 1) }},
	{name: "seccompDefault", preset: func(c *config) { c.SeccompDefault = new(false) }},
	{name: "singleProcessOOMKill"},
	{name: "memoryThrottlingFactor", check: throttlingFactor},
	{name: "memoryReservationPolicy", preset: func(c *config) { c.MemoryReservationPolicy = kubeletconfigv1beta1.NoneMemoryReservationPolicy }, check: reservationPolicy},
	{name: "featureGates", check: featureGates},
	{name: "memorySwap", check: func(c *config) string {
		if b := c.MemorySwap.SwapBehavior; b != "" && b != "NoSwap" && b != "LimitedSwap" {
			return `swapBehavior must be one of: "", "LimitedSwap" or "NoSwap"`
		}
		return ""
	}},
	{name: "crashLoopBackOff", check: func(c *config) string {
		if d := c.CrashLoopBackOff.MaxContainerRestartPeriod; d != nil && (d.Duration < time.Second || d.Duration > 300*time.Second) {
			return "maxContainerRestartPeriod must be set between 1s and 300s"
		}
		return ""
	}},
	{name: "tracing", check: func(c *config) string {
		if errs := tracingv1.ValidateTracingConfiguration(c.Tracing, nil, nil); len(errs) > 0 {
			return errs[0].Detail
		}
		return ""
	}},
	{name: "volumeStatsAggPeriod", complete: unless0(time.Minute, func(c *config) *metav1.Duration { return &c.VolumeStatsAggPeriod }), check: func(c *config) string {
		if c.VolumeStatsAggPeriod.Duration < time.Second {
			return "must be at least a second"
		}
		return ""
	}},
})

// quotaPeriod is over how long a limit of CPU time counts if no file says so.
const quotaPeriod = 100 * time.Millisecond

// fixed are the fields that have one value here, in JSON. Files written for upstream's kubelet may say it.
var fixed = map[string]string{
	"cgroupsPerQOS":             `true`,
	"enableContentionProfiling": `false`,
	"enableDebugFlagsHandler":   `false`,
	"enableServer":              `true`,
	"enableSystemLogQuery":      `false`,
	"failSwapOn":                `false`,
	"hairpinMode":               `"hairpin-veth"`,
	"podLogsDir":                `"/var/log/pods"`,
	"makeIPTablesUtilChains":    `true`,
	"registerNode":              `true`,
	"configMapAndSecretChangeDetectionStrategy": `"Watch"`,
	"enableControllerAttachDetach":              `true`,
	"failCgroupV1":                              `false`,
	"localStorageCapacityIsolation":             `true`,
	"protectKernelDefaults":                     `false`,
	"rotateCertificates":                        `true`,
}

// parallelPulls is how many pulls run at a time if no file says so.
func parallelPulls(c *config) {
	if c.MaxParallelImagePulls != nil {
		return
	}
	c.MaxParallelImagePulls = new(int32(5))
	if ptr.Deref(c.SerializeImagePulls, false) {
		*c.MaxParallelImagePulls = 1
	}
}

// duration is a field that is a duration of at least a second. 0, which kubeadm writes, is the default, as upstream.
func duration(name string, normal time.Duration, of func(*config) *metav1.Duration) setting {
	return setting{
		name:     name,
		complete: unless0(normal, of),
		check: func(c *config) string {
			if of(c).Duration < time.Second {
				return fmt.Sprintf("must be at least %v", time.Second)
			}
			return ""
		},
	}
}

// unless0 fills in a duration that is 0, which stands for the default, as upstream.
func unless0(normal time.Duration, of func(*config) *metav1.Duration) func(*config) {
	return func(c *config) {
		if d := of(c); d.Duration == 0 {
			d.Duration = normal
		}
	}
}

func verificationPolicy(c *config) string {
	all := []kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy{
		kubeletconfigv1beta1.NeverVerify, kubeletconfigv1beta1.NeverVerifyPreloadedImages, kubeletconfigv1beta1.NeverVerifyAllowlistedImages, kubeletconfigv1beta1.AlwaysVerify,
	}
	if !slices.Contains(all, c.ImagePullCredentialsVerificationPolicy) {
		return fmt.Sprintf("valid options are %q", all)
	}
	return ""
}

func verificationAllowlist(c *config) string {
	if len(c.PreloadedImagesVerificationAllowlist) > 0 && c.ImagePullCredentialsVerificationPolicy != kubeletconfigv1beta1.NeverVerifyAllowlistedImages {
		return "imagePullCredentialsVerificationPolicy must be NeverVerifyAllowlistedImages"
	}
	if err := image.CheckAllowlist(c.PreloadedImagesVerificationAllowlist); err != nil {
		return err.Error()
	}
	return ""
}

// pairOfFiles are a certificate and its key, in either order.
func pairOfFiles(one, other string) string {
	if other != "" && one == "" {
		return "tlsCertFile and tlsPrivateKeyFile go together"
	}
	return absolute(one)
}

// wrong is what an error says of a value, "" if there is none.
func wrong[T any](_ T, err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// authentication may say who certifies callers, and for how long tokens are believed: that nobody is anonymous is the cluster's to say.
func authentication(c *config) string {
	a := c.Authentication
	switch {
	case ptr.Deref(a.Anonymous.Enabled, false):
		return "anonymous.enabled must be false"
	case !ptr.Deref(a.Webhook.Enabled, true):
		return "webhook.enabled must be true"
	case absolute(a.X509.ClientCAFile) != "":
		return "x509.clientCAFile " + absolute(a.X509.ClientCAFile)
	}
	return atLeast(int64(a.Webhook.CacheTTL.Duration), 0)
}

func authorization(c *config) string {
	a := c.Authorization
	if a.Mode != kubeletconfigv1beta1.KubeletAuthorizationModeWebhook {
		return fmt.Sprintf("mode must be %s", kubeletconfigv1beta1.KubeletAuthorizationModeWebhook)
	}
	return atLeast(int64(min(a.Webhook.CacheAuthorizedTTL.Duration, a.Webhook.CacheUnauthorizedTTL.Duration)), 0)
}

func secondOrNone(d metav1.Duration) string {
	if d.Duration != 0 && d.Duration < time.Second {
		return "must be either zero or otherwise >= 1 sec"
	}
	return ""
}

func byPriority(c *config) string {
	if len(c.ShutdownGracePeriodByPodPriority) > 0 && (c.ShutdownGracePeriod.Duration > 0 || c.ShutdownGracePeriodCriticalPods.Duration > 0) {
		return "cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"
	}
	seen := map[int32]bool{}
	for _, p := range c.ShutdownGracePeriodByPodPriority {
		if p.ShutdownGracePeriodSeconds < 0 || seen[p.Priority] {
			return "each priority must be there once, and its period must not be negative"
		}
		seen[p.Priority] = true
	}
	return ""
}

// reportFrequency runs before nodeStatusUpdateFrequency is filled in.
func reportFrequency(c *config) {
	if c.NodeStatusReportFrequency.Duration != 0 {
		return
	}
	if c.NodeStatusReportFrequency.Duration = c.NodeStatusUpdateFrequency.Duration; c.NodeStatusUpdateFrequency.Duration == 0 {
		c.NodeStatusReportFrequency.Duration = 5 * time.Minute
	}
}

func absolute(path string) string {
	if path != "" && !filepath.IsAbs(path) {
		return "must be an absolute path"
	}
	return ""
}

func portOrNone(port int32) string {
	if port == 0 {
		return ""
	}
	return strings.Join(validation.IsValidPortNum(int(port)), ", ")
}

func ipAddress(text string) string {
	if _, err := netip.ParseAddr(text); err != nil {
		return "must be an IP address"
	}
	return ""
}

// check is how often manifests of static pods are looked at.
const check = 20 * time.Second

// frequency lets 0 pass, which kubeadm writes for the default.
func frequency(d metav1.Duration) string {
	if d.Duration < 0 {
		return "must not be negative"
	}
	return ""
}

func webAddress(text string) string {
	if text == "" {
		return ""
	}
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "must be a URL of http or https"
	}
	return ""
}

// headers finds what no request can be sent with.
func headers(all map[string][]string) string {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if msgs := validation.IsHTTPHeaderName(name); len(msgs) > 0 {
			return fmt.Sprintf("%q: %s", name, msgs[0])
		}
		if slices.ContainsFunc(all[name], func(v string) bool { return strings.ContainsFunc(v, unicode.IsControl) }) {
			return fmt.Sprintf("%q: a value must not hold control characters", name)
		}
	}
	return ""
}

func atLeast(n, least int64) string {
	if n < least {
		return fmt.Sprintf("must be at least %d", least)
	}
	return ""
}

// namespaced begin the names of the sysctls that a pod has for itself. Another would change the node.
var namespaced = []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net."}

// unsafeSysctls are names, or the beginnings of names with a "*" behind.
func unsafeSysctls(c *config) string {
	for _, s := range c.AllowedUnsafeSysctls {
		name := strings.TrimSuffix(strings.ReplaceAll(s, "/", "."), "*")
		switch {
		case name == "" || strings.Contains(name, "*"):
			return fmt.Sprintf("%q is neither the name of a sysctl nor a group such as kernel.msg*", s)
		case !slices.ContainsFunc(namespaced, func(n string) bool { return strings.HasPrefix(name, n) }):
			return fmt.Sprintf("the sysctls %q are not known to be namespaced", s)
		}
	}
	return ""
}

// defaultEvictionHard differs from upstream's, where a tenth of the disk is kept free: this one is everybody's.
var defaultEvictionHard = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "100Mi", "nodefs.inodesFree": "1%", "imagefs.available": "100Mi", "imagefs.inodesFree": "1%",
}

// evictionHard holds as a whole if a file names it, unless it is to be merged.
func evictionHard(c *config) {
	merge := ptr.Deref(c.MergeDefaultEvictionSettings, false)
	if c.EvictionHard != nil && !merge {
		return
	}
	named := c.EvictionHard
	c.EvictionHard = maps.Clone(defaultEvictionHard)
	maps.Copy(c.EvictionHard, named)
}

func evictions(s eviction.Settings) string {
	if _, err := eviction.Parse(s); err != nil {
		return err.Error()
	}
	return ""
}

func throttlingFactor(c *config) string {
	switch f := c.MemoryThrottlingFactor; {
	case f == nil, *f == 0.9 && !Enabled(c, MemoryQoS): // what was the default is in files of old
		return ""
	case !Enabled(c, MemoryQoS):
		return fmt.Sprintf("requires feature gate %s", MemoryQoS)
	case *f <= 0 || *f > 1:
		return "must be greater than 0 and less than or equal to 1.0"
	}
	return ""
}

func reservationPolicy(c *config) string {
	const none, tiered = kubeletconfigv1beta1.NoneMemoryReservationPolicy, kubeletconfigv1beta1.TieredReservationMemoryReservationPolicy
	switch p := c.MemoryReservationPolicy; {
	case p != none && p != tiered:
		return fmt.Sprintf("valid options are %q or %q", none, tiered)
	case p == tiered && !Enabled(c, MemoryQoS):
		return fmt.Sprintf("requires feature gate %s", MemoryQoS)
	}
	return ""
}

func percent(n *int32) string {
	if v := ptr.Deref(n, 0); v < 0 || v > 100 {
		return "must be between 0 and 100"
	}
	return ""
}

func lowThreshold(c *config) string {
	if problem := percent(c.ImageGCLowThresholdPercent); problem != "" {
		return problem
	}
	if ptr.Deref(c.ImageGCLowThresholdPercent, 0) >= ptr.Deref(c.ImageGCHighThresholdPercent, 100) {
		return "must be less than imageGCHighThresholdPercent"
	}
	return ""
}

func maximumGCAge(c *config) string {
	switch age := c.ImageMaximumGCAge.Duration; {
	case age < 0:
		return "must not be negative"
	case age > 0 && age <= c.ImageMinimumGCAge.Duration:
		return "must be greater than imageMinimumGCAge"
	}
	return ""
}

// reserved are resources that the node tells of, and process ids, which are kept if all pods together are limited.
func reserved(c *config, list map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, name) {
			return fmt.Sprintf("cannot reserve %q", name)
		}
		if name == "pid" && !slices.Contains(c.EnforceNodeAllocatable, EnforcePods) {
			return fmt.Sprintf("cannot reserve %q without enforceNodeAllocatable: [%s]", name, EnforcePods)
		}
		q, err := resource.ParseQuantity(list[name])
		if err != nil {
			return fmt.Sprintf("%s: %v", name, err)
		}
		if q.Sign() < 0 {
			return fmt.Sprintf("resource quantity for %q cannot be negative: %v", name, list[name])
		}
	}
	return ""
}
