// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	zpages "k8s.io/component-base/zpages/features"
)

// Upstream are the feature gates of Kubernetes 1.37 that the published libraries do not know, and those of the client library. What they
// switch is written here for one value only, upstream's default, unless a part says that it acts by one.
var Upstream = []struct {
	Spec  featuregate.FeatureSpec
	Names []string
}{
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.GA}, []string{
		"AllowServiceExternalIPs", "CPUManagerPolicyOptions", "CSIServiceAccountTokenSecrets", "ClusterTrustBundle",
		"ClusterTrustBundleProjection", "CustomCPUCFSQuotaPeriod", "DRAAdminAccess", "DRADeviceTaintRules",
		"DRADeviceTaints", "DRAExtendedResource", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus",
		"DisableAllocatorDualWrite", "DynamicResourceAllocation", "ExecProbeTimeout", "ExternalServiceAccountTokenSigner",
		"HPAConfigurableTolerance", "HostnameOverride", "ImageMaximumGCAge", "ImageVolume", "InOrderInformers",
		"InPlacePodVerticalScaling", "InPlacePodVerticalScalingInitContainers", "InformerResourceVersion", "JobManagedBy",
		"KubeletCgroupDriverFromCRI", "KubeletFineGrainedAuthz", "KubeletPSI", "KubeletPodResourcesDynamicResources",
		"KubeletPodResourcesGet", "KubeletTracing", "MatchLabelKeysInPodAffinity", "MultiCIDRServiceAllocator",
		"MutableCSINodeAllocatableCount", "NFTablesProxyMode", "NodeDeclaredFeatures",
		"NodeInclusionPolicyInPodTopologySpread", "NodeLogQuery", "NodeSwap", "PLEGOnDemandRelist",
		"PodCertificateRequest", "PodObservedGenerationTracking", "PodReadyToStartContainersCondition",
		"PodSchedulingReadiness", "PreferSameTrafficDistribution", "ProcMountType", "RecoverVolumeExpansionFailure",
		"RecursiveReadOnlyMounts", "RelaxedEnvironmentVariableValidation", "RelaxedServiceNameValidation",
		"SELinuxChangePolicy", "SELinuxMount", "SELinuxMountReadWriteOncePod", "SeparateTaintEvictionController",
		"ServiceAccountTokenJTI", "ServiceAccountTokenNodeBinding", "ServiceAccountTokenNodeBindingValidation",
		"ServiceAccountTokenPodNodeInfo", "StorageVersionMigrator", "SupplementalGroupsPolicy", "SystemdWatchdog",
		"TopologyManagerPolicyOptions", "UserNamespacesSupport", "VolumeAttributesClass", "WinDSR", "WinOverlay",
	}},
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Beta}, []string{
		"AtomicFIFO", "AuthorizePodWebsocketUpgradeCreatePermission", "CPUManagerPolicyBetaOptions",
		"ClearingNominatedNodeNameAfterBinding", "ClientsAllowCARotation", "ClientsAllowTLSCacheGC", "ContainerCheckpoint",
		"ContainerRestartRules", "DRAConsumableCapacity", "DRADeviceBindingConditions", "DRAFractionalCapacityRange",
		"DRAPartitionableDevices", "DRAResourceClaimGranularStatusAuthorization", "DRASchedulerFilterTimeout",
		"DeploymentReplicaSetTerminatingReplicas", "EnvFiles", "ExtendWebSocketsToKubelet", "GracefulNodeShutdown",
		"GracefulNodeShutdownBasedOnPodPriority", "HPAGeneration", "HPAOptimizedSelectorStore", "HPAScaleToZero",
		"HugepageAwareEviction", "InOrderInformersBatchProcess", "InPlacePodLevelResourcesVerticalScaling",
		"KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages", "KubeletInUserNamespace", "KubeletSeparateDiskGC",
		"KubeletServiceAccountTokenForCredentialProviders", "MatchLabelKeysInPodTopologySpread",
		"MatchLabelKeysInPodTopologySpreadSelectorMerge", "MaxUnavailableStatefulSet", "MemoryQoS",
		"MutablePodResourcesForSuspendedJobs", "MutableSchedulingDirectivesForSuspendedJobs", "NFTablesNetlink",
		"NodeControllerLeaseCircuitBreaker", "NominatedNodeNameForExpectation", "OpportunisticBatching",
		"PersistentVolumeClaimUnusedSinceTime", "PodDeletionCost", "PodLevelResources", "PodLevelResourcesFixDefaulting",
		"PodLevelResourcesFixKubeletQOSClass", "PodTopologyLabelsAdmission", "PodsAPI", "PortForwardWebsockets",
		"ReloadKubeletClientCAFile", "ReloadKubeletServerCertificateFile", "ResourceHealthStatus",
		"ResourceHealthStatusMessage", "RestartAllContainersOnContainerExits", "RotateKubeletServerCertificate",
		"SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ", "ServiceAccountNodeAudienceRestriction",
		"StaleControllerConsistencyDaemonSet", "StaleControllerConsistencyHPA", "StaleControllerConsistencyJob",
		"StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyStatefulSet",
		"StatefulSetSemanticRevisionComparison", "StorageCapacityScoring", "StrictIPCIDRValidation",
		"TopologyManagerPolicyBetaOptions", "TranslateStreamCloseWebsocketRequests", "UnlockWhileProcessingFIFO",
		"VolumeLimitScaling", "WatchListClient", "WindowsGracefulNodeShutdown",
	}},
	{featuregate.FeatureSpec{PreRelease: featuregate.Beta}, []string{
		"DRAWorkloadResourceClaims", "LocalStorageCapacityIsolationFSQuotaMonitoring", "PodAndContainerStatsFromCRI",
		"PodLevelResourceManagers", "SchedulerAsyncAPICalls",
	}},
	{featuregate.FeatureSpec{PreRelease: featuregate.Alpha}, []string{
		"AtomicWriteVolumeUserFields", "CPUManagerPolicyAlphaOptions", "CRIListStreaming", "CSIVolumeHealth",
		"ClientsAllowCBOR", "ClientsPreferCBOR", "CloudControllerManagerWatchBasedRoutesReconciliation",
		"CloudControllerManagerWebhook", "CompositePodGroup", "ContainerStopSignals",
		"ControllerManagerReleaseLeaderElectionLockOnExit", "CrossNamespaceVolumeDataSource", "DRADerivedAttributes",
		"DRADeviceCompatibilityGroups", "DRAListTypeAttributes", "DRANodeAllocatableResources",
		"DRAOptionalNodeOperations", "DRAPartitionableDevicesType", "DRAResourcePoolStatus", "DefaultPodSysctls",
		"EmptyDirVolumeMode", "EventedPLEG", "EvictionRequestAPI", "GRPCContainerProbeTLS", "H2CContainerProbe",
		"ImageVolumeWithDigest", "InPlacePodVerticalScalingExclusiveCPUs", "InPlacePodVerticalScalingExclusiveMemory",
		"InPlacePodVerticalScalingMemoryBackedVolumes", "InPlacePodVerticalScalingSchedulerPreemption",
		"InterPodAffinityHostnameFastPath", "KubeProxyNFTablesLocalhostNodePorts", "KubeletAllocatedPodsEndpoint",
		"MutablePVNodeAffinity", "NodeLifecycleConditions", "PodGroupPreemptionPolicy", "PodLogsQuerySplitStreams",
		"QOSReserved", "ReduceDefaultCrashLoopBackOffDecay", "RuntimeClassInImageCriApi", "SchedulerPreQueueingHints",
		"StatefulSetRecreateStrategy", "TaintTolerationComparisonOperators", "TopologyAwareWorkloadScheduling",
		"TopologyManagerPolicyAlphaOptions", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions",
		"WindowsCPUAndMemoryAffinity", "WorkloadWithJob",
	}},
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Deprecated}, []string{
		"DisableCPUQuotaWithExclusiveCPUs", "DisableNodeKubeProxyVersion", "KubeProxyIPVS",
		"KubeletPodResourcesListUseActivePods", "ServiceCIDRStatusFieldWiping", "StorageNamespaceIndex",
	}},
	{featuregate.FeatureSpec{PreRelease: featuregate.Deprecated}, []string{
		"AllowDNSOnlyNodeCSR", "AllowInsecureKubeletCertificateSigningRequests",
		"AllowOverwriteTerminationGracePeriodSeconds", "ChangeContainerStatusOnKubeletRestart", "GitRepoVolumeDriver",
		"KubeletRegistrationGetOnExistsOnly", "WindowsHostNetwork",
	}},
}

// AddUpstream makes all gates of upstream known to the process, once. Those of Upstream are locked.
var AddUpstream = sync.OnceFunc(func() {
	gates := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, f := range Upstream {
		f.Spec.LockToDefault = true
		for _, name := range f.Names {
			gates[featuregate.Feature(name)] = f.Spec
		}
	}
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.Add(gates))
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	utilruntime.Must(zpages.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
})

// Known tells whether there is such a gate, here or upstream.
func Known(gate featuregate.Feature) bool {
	AddUpstream()
	_, is := utilfeature.DefaultMutableFeatureGate.GetAll()[gate]
	return is
}
