// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	kubeletconfigv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/credentialprovider"
	"minik8s.io/minik8s/pkg/kubelet/internal/podsync"
)

// plugins count and time what is done about volumes, devices and cgroups, and who asks for them.
type plugins struct {
	storage, csi, cgroups, allocations *metrics.HistogramVec
	volumes                            *metrics.HistogramVec
	registrations                      *metrics.CounterVec
	podResources                       *metrics.CounterVec
	images                             struct{ requested, mounted, failed *metrics.Counter }
	// requests and failures by the method of the pod resources API.
	podResourcesRequests, podResourcesErrors map[string]*metrics.CounterVec
	// podsAPI are all requests for pods, podsAPIRequests those by method.
	podsAPI         *metrics.CounterVec
	podsAPIRequests map[string]*metrics.CounterVec
	credentials     *metrics.HistogramVec
	noCredentials   *metrics.CounterVec
}

// operationBuckets are upstream's for volumes.
var operationBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// podResourcesMethods are the methods of the pod resources API, by the end of the names of their metrics.
var podResourcesMethods = map[string]string{"List": "list", "Get": "get", "GetAllocatableResources": "get_allocatable"}

// podsAPIMethods are those of the pods API likewise, and how upstream calls them.
var podsAPIMethods = map[string]struct{ name, text string }{"ListPods": {"list", "List"}, "GetPod": {"get", "Get"}, "WatchPods": {"watch", "Watch"}}

func (m *Metrics) newPlugins() plugins {
	p := plugins{
		storage: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "Storage operation duration", Buckets: operationBuckets, StabilityLevel: metrics.BETA,
		}, []string{"volume_plugin", "operation_name", "status", "migrated"}),
		volumes: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "volume_operation_total_seconds", Help: "Storage operation end to end duration in seconds", Buckets: operationBuckets, StabilityLevel: metrics.BETA,
		}, []string{"plugin_name", "operation_name"}),
		csi: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: "csi", Name: "operations_seconds", Buckets: operationBuckets, StabilityLevel: metrics.ALPHA,
			Help: "Container Storage Interface operation duration with gRPC error code status total",
		}, []string{"driver_name", "method_name", "grpc_status_code", "migrated"}),
		cgroups: m.histogramVec("cgroup_manager_duration_seconds",
			"Duration in seconds for cgroup manager operations. Broken down by method.", metrics.DefBuckets, "operation_type"),
		allocations: m.histogramVec("device_plugin_alloc_duration_seconds",
			"Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.", metrics.DefBuckets, "resource_name"),
		registrations: m.counterVec("device_plugin_registration_total",
			"Cumulative number of device plugin registrations. Broken down by resource name.", "resource_name"),
		podResources: m.counterVec("pod_resources_endpoint_requests_total",
			"Cumulative number of requests to the PodResource endpoint. Broken down by server api version.", "server_api_version"),
		podResourcesRequests: map[string]*metrics.CounterVec{}, podResourcesErrors: map[string]*metrics.CounterVec{},
		podsAPI: m.counterVec("pod_requests_total", "Cumulative number of requests to the PodsAPI endpoint. Broken down by server api version and status code.",
			"server_api_version", "status_code"),
		podsAPIRequests: map[string]*metrics.CounterVec{},
		credentials: m.histogramVec("credential_provider_plugin_duration",
			"Duration of execution in seconds for credential provider plugin", metrics.DefBuckets, "plugin_name"),
		noCredentials: m.counterVec("credential_provider_plugin_errors_total", "Number of errors from credential provider plugin", "plugin_name"),
	}
	for method, by := range podsAPIMethods {
		p.podsAPIRequests[method] = m.counterVec("pod_requests_"+by.name+"_total",
			"Number of requests to the PodsAPI "+by.text+" endpoint. Broken down by server api version and status code.", "server_api_version", "status_code")
	}
	m.registry.MustRegister(p.storage, p.volumes, p.csi)
	image := func(name, help string) *metrics.Counter {
		c := metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "image_volume_" + name, Help: help, StabilityLevel: metrics.BETA})
		m.registry.MustRegister(c)
		return c
	}
	p.images.requested = image("requested_total", "Number of requested image volumes.")
	p.images.mounted = image("mounted_succeed_total", "Number of successful image volume mounts.")
	p.images.failed = image("mounted_errors_total", "Number of failed image volume mounts.")
	for method, name := range podResourcesMethods {
		const what, versions = "Number of requests to the PodResource ", ". Broken down by server api version."
		p.podResourcesRequests[method] = m.counterVec("pod_resources_endpoint_requests_"+name, what+method+" endpoint"+versions, "server_api_version")
		p.podResourcesErrors[method] = m.counterVec("pod_resources_endpoint_errors_"+name,
			what+method+" endpoint which returned error"+versions, "server_api_version")
	}
	return p
}

// StorageOperation notes what was done about a volume.
func (m *Metrics) StorageOperation(plugin, operation string, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "fail-unknown"
	}
	m.storage.WithLabelValues(plugin, operation, result, "false").Observe(took.Seconds())
}

// VolumeMounted notes how long it took from when a pod was to have a volume until it had.
func (m *Metrics) VolumeMounted(plugin string, took time.Duration) {
	m.volumes.WithLabelValues(plugin, "overall_volume_mount").Observe(took.Seconds())
}

// ImageMounted notes that a container was to have an image as a volume.
func (m *Metrics) ImageMounted(err error) {
	m.images.requested.Inc()
	if err != nil {
		m.images.failed.Inc()
	} else {
		m.images.mounted.Inc()
	}
}

// CSICall notes a call of a driver.
func (m *Metrics) CSICall(driver, method string, took time.Duration, err error) {
	m.csi.WithLabelValues(driver, method, status.Code(err).String(), "false").Observe(took.Seconds())
}

// DevicePluginRegistered notes that a plugin was taken into use.
func (m *Metrics) DevicePluginRegistered(resource string) {
	m.registrations.WithLabelValues(resource).Inc()
}

// DevicesAllocated notes how long a plugin took to do that.
func (m *Metrics) DevicesAllocated(resource string, took time.Duration) {
	m.allocations.WithLabelValues(resource).Observe(took.Seconds())
}

var credentialConfig = desc("credential_provider_config_info",
	"Information about the last applied credential provider configuration with hash as label", "hash")

// CredentialProviders tells which configuration the plugins have that know logins. It is called once.
func (m *Metrics) CredentialProviders(hash string) {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{credentialConfig}, collect: func(ch chan<- metrics.Metric) {
		ch <- metrics.NewLazyConstMetric(credentialConfig, metrics.GaugeValue, 1, hash)
	}})
}

// Credentials returns p with its work timed.
func (m *Metrics) Credentials(p credentialprovider.Plugin) credentialprovider.Plugin {
	return timedCredentials{p, m}
}

type timedCredentials struct {
	credentialprovider.Plugin
	m *Metrics
}

func (t timedCredentials) Ask(
	ctx context.Context, p *kubeletconfigv1.CredentialProvider, r *credentialproviderv1.CredentialProviderRequest,
) (*credentialproviderv1.CredentialProviderResponse, error) {
	began := t.m.clock.Now()
	response, err := t.Plugin.Ask(ctx, p, r)
	t.m.credentials.WithLabelValues(p.Name).Observe(t.m.clock.Since(began).Seconds())
	if err != nil {
		t.m.noCredentials.WithLabelValues(p.Name).Inc()
	}
	return response, err
}

// PodResources is a grpc.UnaryServerInterceptor of the pod resources API.
func (m *Metrics) PodResources(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	service, method := path.Split(info.FullMethod)
	version, _, _ := strings.Cut(strings.Trim(service, "/"), ".")
	answer, err := next(ctx, req)
	m.podResources.WithLabelValues(version).Inc()
	if requests := m.podResourcesRequests[method]; requests != nil && version == "v1" { // as upstream
		requests.WithLabelValues(version).Inc()
		if err != nil {
			m.podResourcesErrors[method].WithLabelValues(version).Inc()
		}
	}
	return answer, err
}

// PodsAPI is a grpc.UnaryServerInterceptor of the pods API.
func (m *Metrics) PodsAPI(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	answer, err := next(ctx, req)
	m.podsAsked(info.FullMethod, err)
	return answer, err
}

// PodsAPIStream is a grpc.StreamServerInterceptor likewise. A watch is counted when it ends.
func (m *Metrics) PodsAPIStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := next(server, stream)
	m.podsAsked(info.FullMethod, err)
	return err
}

func (m *Metrics) podsAsked(fullMethod string, err error) {
	service, method := path.Split(fullMethod)
	version, _, _ := strings.Cut(strings.Trim(service, "/"), ".")
	code := status.FromContextError(err).Code()
	if s, ok := status.FromError(err); ok {
		code = s.Code()
	}
	m.podsAPI.WithLabelValues(version, code.String()).Inc()
	if requests := m.podsAPIRequests[method]; requests != nil {
		requests.WithLabelValues(version, code.String()).Inc()
	}
}

const desired, actual = "desired_state_of_world", "actual_state_of_world"

var (
	totalVolumes = metrics.NewDesc("volume_manager_total_volumes", "Number of volumes in Volume Manager",
		[]string{"plugin_name", "state"}, nil, metrics.ALPHA, "")
	totalPlugins = metrics.NewDesc("plugin_manager_total_plugins", "Number of plugins in Plugin Manager",
		[]string{"socket_path", "state"}, nil, metrics.ALPHA, "")
)

// VolumeCounts tells how many volumes pods are to have, and have, by plugin. It is called once.
func (m *Metrics) VolumeCounts(counts func() (wanted, there map[string]int)) {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{totalVolumes}, collect: func(ch chan<- metrics.Metric) {
		wanted, there := counts()
		for state, byPlugin := range map[string]map[string]int{desired: wanted, actual: there} {
			for plugin, n := range byPlugin {
				ch <- metrics.NewLazyConstMetric(totalVolumes, metrics.GaugeValue, float64(n), plugin, state)
			}
		}
	}})
}

var certificateStates = desc("podcertificate_states",
	"Gauge vector reporting the number of pod certificate projected volume sources, faceted by signer_name and state.", "signer_name", "state")

// CertificateStates tells how many certificates pods have in volumes, by signer and state. It is called once.
func (m *Metrics) CertificateStates(states func() map[[2]string]int) {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{certificateStates}, collect: func(ch chan<- metrics.Metric) {
		for labels, n := range states() {
			ch <- metrics.NewLazyConstMetric(certificateStates, metrics.GaugeValue, float64(n), labels[:]...)
		}
	}})
}

// Plugins tells by which sockets plugins were found, and are registered. It is called once.
func (m *Metrics) Plugins(sockets func() (found, registered []string)) {
	m.registry.CustomMustRegister(&constants{list: []*metrics.Desc{totalPlugins}, collect: func(ch chan<- metrics.Metric) {
		found, registered := sockets()
		for state, paths := range map[string][]string{desired: found, actual: registered} {
			for _, p := range paths {
				ch <- metrics.NewLazyConstMetric(totalPlugins, metrics.GaugeValue, 1, p, state)
			}
		}
	}})
}

// Cgroups returns c with its work timed. It is told apart what makes a group and what only looks after it if c tells where those of
// pods are, as cgroup.Manager.PodPath does.
func (m *Metrics) Cgroups(c podsync.Cgroups) podsync.Cgroups { return &timedCgroups{c, m} }

type timedCgroups struct {
	podsync.Cgroups
	m *Metrics
}

func (c *timedCgroups) exists(uid types.UID) bool {
	where, ok := c.Cgroups.(interface {
		PodPath(uid types.UID) (string, error)
	})
	if !ok {
		return true
	}
	_, err := where.PodPath(uid)
	return !errors.Is(err, fs.ErrNotExist)
}

func (c *timedCgroups) EnsurePod(pod *corev1.Pod) (string, error) {
	operation := "create"
	if c.exists(pod.UID) {
		operation = "update"
	}
	defer c.note(operation, c.m.clock.Now())
	return c.Cgroups.EnsurePod(pod)
}

func (c *timedCgroups) RemovePod(uid types.UID) error {
	if c.exists(uid) {
		defer c.note("destroy", c.m.clock.Now())
	}
	return c.Cgroups.RemovePod(uid)
}

func (c *timedCgroups) note(operation string, began time.Time) {
	c.m.cgroups.WithLabelValues(operation).Observe(c.m.clock.Since(began).Seconds())
}
