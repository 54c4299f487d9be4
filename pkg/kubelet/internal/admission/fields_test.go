// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
)

// honoured are the fields of pods that do what they say: by the kubelet, or by the part whose business they are.
var honoured = map[string]string{
	"Affinity":                     "NodeAffinity PodAffinity PodAntiAffinity",
	"AppArmorProfile":              "LocalhostProfile Type",
	"CSIVolumeSource":              "Driver FSType NodePublishSecretRef ReadOnly VolumeAttributes",
	"Capabilities":                 "Add Drop",
	"ClusterTrustBundleProjection": "LabelSelector Name Optional Path SignerName",
	"ConfigMapEnvSource":           "Optional",
	"ConfigMapKeySelector":         "Key Optional",
	"ConfigMapProjection":          "Items Optional",
	"ConfigMapVolumeSource":        "DefaultMode Items Optional",
	"Container": "Args Command Env EnvFrom Image ImagePullPolicy Lifecycle LivenessProbe Name Ports ReadinessProbe ResizePolicy " +
		"Resources RestartPolicy RestartPolicyRules SecurityContext StartupProbe Stdin StdinOnce TTY " +
		"TerminationMessagePath TerminationMessagePolicy VolumeDevices VolumeMounts WorkingDir",
	"ContainerPort":                   "ContainerPort HostIP HostPort Name Protocol",
	"ContainerResizePolicy":           "ResourceName RestartPolicy",
	"ContainerRestartRule":            "Action ExitCodes",
	"ContainerRestartRuleOnExitCodes": "Operator Values",
	"DownwardAPIProjection":           "Items",
	"DownwardAPIVolumeFile":           "FieldRef Mode Path ResourceFieldRef",
	"DownwardAPIVolumeSource":         "DefaultMode Items",
	"EmptyDirVolumeSource":            "Medium SizeLimit",
	"EnvFromSource":                   "ConfigMapRef Prefix SecretRef",
	"EnvVar":                          "Name Value ValueFrom",
	"EnvVarSource":                    "ConfigMapKeyRef FieldRef FileKeyRef ResourceFieldRef SecretKeyRef",
	"EphemeralContainer":              "TargetContainerName",
	"EphemeralContainerCommon": "Args Command Env EnvFrom Image ImagePullPolicy Lifecycle LivenessProbe Name Ports ReadinessProbe ResizePolicy " +
		"Resources RestartPolicy RestartPolicyRules SecurityContext StartupProbe Stdin StdinOnce TTY " +
		"TerminationMessagePath TerminationMessagePolicy VolumeDevices VolumeMounts WorkingDir",
	"EphemeralVolumeSource":   "VolumeClaimTemplate",
	"ExecAction":              "Command",
	"FileKeySelector":         "Key Optional Path VolumeName",
	"GRPCAction":              "Port Service",
	"HTTPGetAction":           "HTTPHeaders Host Path Port Scheme",
	"HTTPHeader":              "Name Value",
	"HostAlias":               "Hostnames IP",
	"HostPathVolumeSource":    "Path Type",
	"ImageVolumeSource":       "PullPolicy Reference",
	"KeyToPath":               "Key Mode Path",
	"Lifecycle":               "PostStart PreStop",
	"LifecycleHandler":        "Exec HTTPGet Sleep TCPSocket",
	"LocalObjectReference":    "Name",
	"NFSVolumeSource":         "Path ReadOnly Server",
	"NodeAffinity":            "PreferredDuringSchedulingIgnoredDuringExecution RequiredDuringSchedulingIgnoredDuringExecution",
	"NodeSelector":            "NodeSelectorTerms",
	"NodeSelectorRequirement": "Key Operator Values",
	"NodeSelectorTerm":        "MatchExpressions MatchFields",
	"ObjectFieldSelector":     "APIVersion FieldPath",
	"PersistentVolumeClaimSpec": "AccessModes DataSource DataSourceRef Resources Selector StorageClassName VolumeAttributesClassName VolumeMode " +
		"VolumeName",
	"PersistentVolumeClaimTemplate":     "Spec",
	"PersistentVolumeClaimVolumeSource": "ClaimName ReadOnly",
	"PodAffinity":                       "PreferredDuringSchedulingIgnoredDuringExecution RequiredDuringSchedulingIgnoredDuringExecution",
	"PodAffinityTerm":                   "LabelSelector MatchLabelKeys MismatchLabelKeys NamespaceSelector Namespaces TopologyKey",
	"PodAntiAffinity":                   "PreferredDuringSchedulingIgnoredDuringExecution RequiredDuringSchedulingIgnoredDuringExecution",
	"PodCertificateProjection":          "CertificateChainPath CredentialBundlePath KeyPath KeyType MaxExpirationSeconds SignerName UserAnnotations",
	"PodDNSConfig":                      "Nameservers Options Searches",
	"PodDNSConfigOption":                "Name Value",
	"PodOS":                             "Name",
	"PodReadinessGate":                  "ConditionType",
	"PodResourceClaim":                  "Name ResourceClaimName ResourceClaimTemplateName",
	"PodSchedulingGate":                 "Name",
	"PodSecurityContext": "AppArmorProfile FSGroup FSGroupChangePolicy RunAsGroup RunAsNonRoot RunAsUser SeccompProfile " +
		"SupplementalGroups SupplementalGroupsPolicy Sysctls",
	"PodSpec": "ActiveDeadlineSeconds Affinity AutomountServiceAccountToken Containers DNSConfig DNSPolicy " +
		"DeprecatedServiceAccount EnableServiceLinks EphemeralContainers HostAliases HostIPC HostNetwork HostPID " +
		"HostUsers Hostname HostnameOverride ImagePullSecrets InitContainers NodeName NodeSelector OS Overhead " +
		"PreemptionPolicy Priority PriorityClassName ReadinessGates ResourceClaims Resources RestartPolicy " +
		"RuntimeClassName SchedulerName SchedulingGates SecurityContext ServiceAccountName SetHostnameAsFQDN " +
		"ShareProcessNamespace Subdomain TerminationGracePeriodSeconds Tolerations TopologySpreadConstraints Volumes",
	"PreferredSchedulingTerm": "Preference Weight",
	"Probe": "FailureThreshold InitialDelaySeconds PeriodSeconds SuccessThreshold TerminationGracePeriodSeconds " +
		"TimeoutSeconds",
	"ProbeHandler":          "Exec GRPC HTTPGet TCPSocket",
	"ProjectedVolumeSource": "DefaultMode Sources",
	"ResourceClaim":         "Name Request",
	"ResourceFieldSelector": "ContainerName Divisor Resource",
	"ResourceRequirements":  "Claims Limits Requests",
	"SeccompProfile":        "LocalhostProfile Type",
	"SecretEnvSource":       "Optional",
	"SecretKeySelector":     "Key Optional",
	"SecretProjection":      "Items Optional",
	"SecretVolumeSource":    "DefaultMode Items Optional SecretName",
	"SecurityContext": "AllowPrivilegeEscalation AppArmorProfile Capabilities Privileged ProcMount ReadOnlyRootFilesystem RunAsGroup " +
		"RunAsNonRoot RunAsUser SeccompProfile",
	"ServiceAccountTokenProjection": "Audience ExpirationSeconds Path",
	"SleepAction":                   "Seconds",
	"Sysctl":                        "Name Value",
	"TCPSocketAction":               "Host Port",
	"Toleration":                    "Effect Key Operator TolerationSeconds Value",
	"TopologySpreadConstraint": "LabelSelector MatchLabelKeys MaxSkew MinDomains NodeAffinityPolicy NodeTaintsPolicy TopologyKey " +
		"WhenUnsatisfiable",
	"TypedLocalObjectReference":  "APIGroup Kind Name",
	"TypedObjectReference":       "APIGroup Kind Name Namespace",
	"Volume":                     "Name",
	"VolumeDevice":               "DevicePath Name",
	"VolumeMount":                "MountPath MountPropagation Name ReadOnly RecursiveReadOnly SubPath SubPathExpr",
	"VolumeProjection":           "ClusterTrustBundle ConfigMap DownwardAPI PodCertificate Secret ServiceAccountToken",
	"VolumeResourceRequirements": "Limits Requests",
	"VolumeSource":               "CSI ConfigMap DownwardAPI EmptyDir Ephemeral HostPath Image NFS PersistentVolumeClaim Projected Secret",
	"WeightedPodAffinityTerm":    "PodAffinityTerm Weight",
}

// ours are the sources that honour them. What only validates a field honours nothing.
var ours = []string{"kubelet", "scheduler", "controllers", "registry", "apis", "apiserver", "policy", "dns"}

// dropped are those of features that are off by default, which the API clears as upstream's does.
var dropped = map[string]string{
	"PodSpec": "EvictionResponders SchedulingGroup", "VolumeMount": "BindMountOptions", "EmptyDirVolumeSource": "Mode", "HTTPGetAction": "Protocol",
	"SecretVolumeSource": "DefaultUser", "ConfigMapVolumeSource": "DefaultUser", "DownwardAPIVolumeSource": "DefaultUser", "ProjectedVolumeSource": "DefaultUser",
	"KeyToPath": "User", "DownwardAPIVolumeFile": "User", "ServiceAccountTokenProjection": "User", "ClusterTrustBundleProjection": "User",
	"PodCertificateProjection": "User", "GRPCAction": "Mode", "Lifecycle": "StopSignal",
}

// refused are those with which a pod fails on this node.
var refused = map[string]string{
	"VolumeSource": "AWSElasticBlockStore AzureDisk AzureFile CephFS Cinder FC FlexVolume Flocker GCEPersistentDisk GitRepo Glusterfs ISCSI " +
		"PhotonPersistentDisk PortworxVolume Quobyte RBD ScaleIO StorageOS VsphereVolume",
}

// told are those that have no effect, which docs/differences.md says.
var told = map[string]string{
	"PodSecurityContext": "SELinuxChangePolicy SELinuxOptions WindowsOptions", "SecurityContext": "SELinuxOptions WindowsOptions",
}

// podField is a field of a type of pods, and the way to it from a PodSpec.
type podField struct {
	owner string
	field reflect.StructField
	way   [][]int
}

func (f podField) in(class map[string]string) bool {
	return slices.Contains(strings.Fields(class[f.owner]), f.field.Name)
}

// podFields are all fields that there are below a PodSpec, each by one way. What is below one that is not honoured is part of it.
func podFields() []podField {
	var all []podField
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, [][]int)
	walk = func(t reflect.Type, way [][]int) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[corev1.Pod]().PkgPath() || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := podField{t.Name(), t.Field(i), append(slices.Clone(way), []int{i})}
			if !f.field.Anonymous {
				all = append(all, f)
			}
			if f.field.Anonymous || f.in(honoured) {
				walk(f.field.Type, f.way)
			}
		}
	}
	walk(reflect.TypeFor[corev1.PodSpec](), nil)
	return all
}

// at is the field of a pod. If create is set what leads to it is made, and the field is set to something.
func (f podField) at(s *corev1.PodSpec, create bool) (v reflect.Value, there bool) {
	v = reflect.ValueOf(s)
	step := func() bool {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			switch {
			case create && v.Kind() == reflect.Pointer && v.IsNil():
				v.Set(reflect.New(v.Type().Elem()))
			case create && v.Kind() == reflect.Slice && v.Len() == 0:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Slice && v.Len() == 0:
				return false
			}
			if v.Kind() == reflect.Pointer {
				v = v.Elem()
			} else {
				v = v.Index(0)
			}
		}
		return true
	}
	for _, index := range f.way {
		if !step() {
			return v, false
		}
		v = v.FieldByIndex(index)
	}
	if !create {
		return v, !v.IsZero()
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
	return v, !v.IsZero()
}

// Nothing of a pod is ignored in silence: each field that there is does what it says, or is cleared, refused or told not to. Who adds
// one to a class here has made it so.
func TestFields(t *testing.T) {
	docs, err := os.ReadFile("../../../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	code := sources(t)
	classes := []map[string]string{honoured, dropped, refused, told}
	known := map[string]bool{}
	for _, f := range podFields() {
		name := f.owner + "." + f.field.Name
		known[name] = true
		in := 0
		for _, class := range classes {
			if f.in(class) {
				in++
			}
		}
		if in != 1 {
			t.Errorf("%s is in %d of the classes", name, in)
			continue
		}
		spec := &corev1.PodSpec{}
		switch {
		case f.in(honoured):
			if !strings.Contains(code, "."+f.field.Name) {
				t.Errorf("%s is honoured by nobody", name)
			}
		case f.in(dropped):
			if _, set := f.at(spec, true); !set {
				t.Fatalf("%s cannot be set", name)
			}
			podspec.DropDisabled(spec, nil)
			if v, there := f.at(spec, false); there {
				t.Errorf("%s stays: %v", name, v)
			}
		case f.in(refused):
			f.at(spec, true)
			if r := supported(&corev1.Pod{Spec: *spec}); r == nil || r.Reason != "PodFeatureUnsupported" {
				t.Errorf("%s: %v", name, r)
			}
		case f.in(told):
			if json, _, _ := strings.Cut(f.field.Tag.Get("json"), ","); !strings.Contains(string(docs), "`"+json+"`") {
				t.Errorf("%s is not in docs/differences.md", name)
			}
		}
	}
	for _, class := range classes {
		for _, owner := range slices.Sorted(maps.Keys(class)) {
			for name := range strings.FieldsSeq(class[owner]) {
				if !known[owner+"."+name] {
					t.Errorf("there is no %s.%s", owner, name)
				}
			}
		}
	}
}

// sources is the text of the code that may honour a field.
func sources(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, part := range ours {
		err := filepath.WalkDir(filepath.Join("../../..", part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(d.Name(), "zz_") || strings.HasSuffix(path, "validation.go") || strings.HasSuffix(path, "supported.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
