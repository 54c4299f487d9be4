// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Versions of the configuration file.
const (
	APIVersion = "minik8s.io/v1alpha1"
	Kind       = "Cluster"
)

// Config is the whole configuration of a cluster: the type of the --config file, and what flags change. Zero values mean
// the default given with each field.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Name tells clusters on one machine apart; default "minik8s".
	Name string `json:"name,omitempty"`
	// DataDir holds all that the cluster keeps; default /var/lib/minik8s/NAME, for others than root
	// ~/.local/share/minik8s/NAME. A relative path is one from the folder of the file.
	DataDir string `json:"dataDir,omitempty"`
	// Nodes is how many nodes are on this machine, up to 100; 0 is a control plane without kubelet. Default 1. What minik8s node adds
	// and removes counts.
	Nodes *int `json:"nodes,omitempty"`
	// APIPort is where the API server listens; default 6443, or the next free one when the cluster is made.
	APIPort int `json:"apiPort,omitempty"`
	// BindAddress is the address that the API server listens on; default all.
	BindAddress string `json:"bindAddress,omitempty"`

	Etcd         EtcdConfig         `json:"etcd,omitzero"`
	Networking   NetworkingConfig   `json:"networking,omitzero"`
	APIServer    APIServerConfig    `json:"apiServer,omitzero"`
	Scheduler    SchedulerConfig    `json:"scheduler,omitzero"`
	Kubelet      KubeletConfig      `json:"kubelet,omitzero"`
	Router       RouterConfig       `json:"router,omitzero"`
	LoadBalancer LoadBalancerConfig `json:"loadBalancer,omitzero"`
	DNS          DNSConfig          `json:"dns,omitzero"`
	Proxy        ProxyConfig        `json:"proxy,omitzero"`
	// Controllers to run, as kube-controller-manager's --controllers: "*" and "-name"; default all.
	Controllers []string `json:"controllers,omitempty"`
	// ControllerManager are settings of the controllers.
	ControllerManager setup.Settings `json:"controllerManager,omitzero"`
	// Verbosity of the log; default 0, as -v of Kubernetes' components.
	Verbosity int `json:"verbosity,omitempty"`
}

// EtcdConfig says where objects are kept.
type EtcdConfig struct {
	// Servers are the URLs of an external etcd; default: embedded, under the data directory.
	Servers []string `json:"servers,omitempty"`
	// CAFile, CertFile and KeyFile are for TLS to external servers.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// UnsafeNoFsync loses acknowledged writes at a power failure; for tests.
	UnsafeNoFsync bool `json:"unsafeNoFsync,omitempty"`
	// QuotaBackendBytes bounds what the embedded etcd stores; default 8 GiB, at least 16 MiB. From 7/8 of it on nothing new
	// is stored until something is deleted.
	QuotaBackendBytes int64 `json:"quotaBackendBytes,omitempty"`
}

// NetworkingConfig are the address ranges.
type NetworkingConfig struct {
	// IPFamily says which addresses pods, Services and nodes have: ipv4, ipv6 or dual, which is both, IPv4 first; default ipv4, or what
	// the ranges are of. It stays as long as the cluster exists.
	IPFamily IPFamily `json:"ipFamily,omitempty"`
	// PodSubnet and ServiceSubnet are a range each, or one of each family with a comma between them, the primary first; default the
	// first 10.X.0.0/16 from 10.244 downwards and from 10.96 upwards that no route of this machine and no other cluster uses, and of
	// IPv6 likewise a /56 and a /112 of fd00:10:X::.
	PodSubnet     string `json:"podSubnet,omitempty"`
	ServiceSubnet string `json:"serviceSubnet,omitempty"`
	// NodeSubnet has the addresses of the nodes on this machine but the first; default a /24, and of IPv6 a /64, that is chosen like
	// those, from 10.196 downwards.
	NodeSubnet string `json:"nodeSubnet,omitempty"`
	// CNIConfDir, an absolute path, has pods connected by programs of the Container Network Interface instead of this one's own: by the
	// first configuration there by name. CNIBinDir has the programs, default /opt/cni/bin.
	CNIConfDir string `json:"cniConfDir,omitempty"`
	CNIBinDir  string `json:"cniBinDir,omitempty"`
	// DNSDomain of Services; default cluster.local.
	DNSDomain string `json:"dnsDomain,omitempty"`
}

// APIServerConfig are settings of the API server.
type APIServerConfig struct {
	// EnableAdmissionPlugins and DisableAdmissionPlugins change upstream's default set.
	EnableAdmissionPlugins  []string `json:"enableAdmissionPlugins,omitempty"`
	DisableAdmissionPlugins []string `json:"disableAdmissionPlugins,omitempty"`
	// CertSANs are further names and addresses of the serving certificate.
	CertSANs []string `json:"certSANs,omitempty"`

	// What follows is named after the flags of kube-apiserver and means the same. Paths are absolute.

	// AuditPolicyFile says which requests are recorded (audit.k8s.io/v1 Policy), AuditLogPath where: a file, or "-" for the
	// log of the process. Both or neither; default: none are.
	AuditPolicyFile string `json:"auditPolicyFile,omitempty"`
	AuditLogPath    string `json:"auditLogPath,omitempty"`
	// AuditLogMaxage (days), AuditLogMaxbackup (files) and AuditLogMaxsize (MB) bound what is kept of the log; default
	// kube-apiserver's.
	AuditLogMaxage    int `json:"auditLogMaxage,omitempty"`
	AuditLogMaxbackup int `json:"auditLogMaxbackup,omitempty"`
	AuditLogMaxsize   int `json:"auditLogMaxsize,omitempty"`
	// EncryptionProviderConfig says what is encrypted in etcd and how (apiserver.config.k8s.io/v1 EncryptionConfiguration);
	// default: nothing is. With the second, changes of the file take effect without a restart.
	EncryptionProviderConfig                string `json:"encryptionProviderConfig,omitempty"`
	EncryptionProviderConfigAutomaticReload bool   `json:"encryptionProviderConfigAutomaticReload,omitempty"`
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are for how long pods that do not say it tolerate a node
	// that fails, before they are evicted; default 300.
	DefaultNotReadyTolerationSeconds    *int64 `json:"defaultNotReadyTolerationSeconds,omitempty"`
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds,omitempty"`
	// MaxRequestsInflight and MaxMutatingRequestsInflight are how many requests are served at a time, in all; default 400
	// and 200.
	MaxRequestsInflight         int `json:"maxRequestsInflight,omitempty"`
	MaxMutatingRequestsInflight int `json:"maxMutatingRequestsInflight,omitempty"`
	// RequestTimeout ends a request that is not a watch; default 1m. MinRequestTimeout is how many seconds a watch lasts at
	// least; default 1800.
	RequestTimeout    metav1.Duration `json:"requestTimeout,omitzero"`
	MinRequestTimeout int             `json:"minRequestTimeout,omitempty"`
	// FeatureGates switches features of the API server.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Profiling serves /debug/pprof; default false (kube-apiserver's is true).
	Profiling bool `json:"profiling,omitempty"`
}

// KubeletConfig are settings of the node.
type KubeletConfig struct {
	// NodeName; default the host name in lower case.
	NodeName string `json:"nodeName,omitempty"`
	// NodeIP is the node's address, or one of each family with a comma between them; default those of the default routes.
	NodeIP string `json:"nodeIP,omitempty"`
	// Port of the kubelet API; default 10250 or the next free one when the cluster is made.
	Port int `json:"port,omitempty"`
	// MaxPods; default 110, or what Config says.
	MaxPods int `json:"maxPods,omitempty"`
	// Config is a file with further settings as upstream's kubelet takes them (kubelet.config.k8s.io/v1beta1
	// KubeletConfiguration), ConfigDir a folder of files *.conf that are laid over it. Paths are absolute. What this kubelet
	// does not honour is refused.
	Config    string `json:"config,omitempty"`
	ConfigDir string `json:"configDir,omitempty"`
	// ImageCredentialProviderConfig says which plugins know logins for registries: a CredentialProviderConfig, or a folder of such
	// files, as upstream's --image-credential-provider-config. ImageCredentialProviderBinDir is the folder of their programs. Paths
	// are absolute.
	ImageCredentialProviderConfig string `json:"imageCredentialProviderConfig,omitempty"`
	ImageCredentialProviderBinDir string `json:"imageCredentialProviderBinDir,omitempty"`
	// PodCIDR is the range of the node's pods, or one of each family; default the first /24 of networking.podSubnet, of IPv6 the first /64.
	PodCIDR string `json:"podCIDR,omitempty"`
	// DockerHost is the engine's endpoint; default $DOCKER_HOST or unix:///var/run/docker.sock when the node is made. With
	// it come DockerCertPath, the folder of ca.pem, cert.pem and key.pem for TLS, by default $DOCKER_CERT_PATH, and
	// DockerTLSVerify, by default true if $DOCKER_TLS_VERIFY is set.
	DockerHost      string `json:"dockerHost,omitempty"`
	DockerCertPath  string `json:"dockerCertPath,omitempty"`
	DockerTLSVerify bool   `json:"dockerTLSVerify,omitempty"`
}

// DefaultName is the name of a cluster for which none is given.
const DefaultName = "minik8s"

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// ReadConfig reads a --config file: the name in it, "" if there is none, and what it makes of a configuration. What the file
// does not say stays as it was. Unknown fields are errors.
func ReadConfig(path string) (name string, change Change, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading configuration: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return "", nil, fmt.Errorf("reading configuration %q: %w", path, err)
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return "", nil, fmt.Errorf("reading configuration %q: it is %s %s, want apiVersion: %s, kind: %s", path, c.APIVersion, c.Kind, APIVersion, Kind)
	}
	dir := c.DataDir
	if dir != "" && !filepath.IsAbs(dir) {
		if path, err = filepath.Abs(path); err != nil {
			return "", nil, fmt.Errorf("reading configuration: %w", err)
		}
		dir = filepath.Join(filepath.Dir(path), dir)
	}
	return c.Name, func(c *Config) error {
		if err := yaml.UnmarshalStrict(data, c); err != nil {
			return err
		}
		if dir != "" {
			c.DataDir = filepath.Clean(dir)
		}
		return nil
	}, nil
}

// Validate checks what can be checked without touching the machine.
func (c Config) Validate() error {
	if !namePattern.MatchString(c.Name) {
		return badName(c.Name)
	}
	if n := c.NodeCount(); n < 0 {
		return fmt.Errorf("nodes must not be negative, is %d", n)
	} else if n > maxNodes {
		return fmt.Errorf("nodes must be at most %d, is %d", maxNodes, n)
	}
	if c.APIPort < 0 || c.APIPort > 65535 {
		return fmt.Errorf("API port %d is not a port", c.APIPort)
	}
	if err := c.checkFamilies(); err != nil {
		return err
	}
	if c.Networking.CNIConfDir != "" && c.NodeCount() > 1 {
		return errors.New("networking.cniConfDir: programs of CNI connect pods of the machine itself only: nodes must be 1; other machines may join")
	}
	if q := c.Etcd.QuotaBackendBytes; q != 0 && q < minQuota {
		return fmt.Errorf("etcd.quotaBackendBytes must be at least %d, is %d", minQuota, q)
	}
	for field, path := range map[string]string{
		"scheduler.config": c.Scheduler.Config, "kubelet.config": c.Kubelet.Config, "kubelet.configDir": c.Kubelet.ConfigDir,
		"networking.cniConfDir": c.Networking.CNIConfDir, "networking.cniBinDir": c.Networking.CNIBinDir,
		"kubelet.imageCredentialProviderConfig": c.Kubelet.ImageCredentialProviderConfig, "kubelet.imageCredentialProviderBinDir": c.Kubelet.ImageCredentialProviderBinDir,
	} {
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("%s: %q must be an absolute path, since a cluster is started again from anywhere", field, path)
		}
	}
	if err := c.Router.validate(); err != nil {
		return err
	}
	if err := c.LoadBalancer.validate(c.Networking); err != nil {
		return err
	}
	if _, err := c.DNS.allowed(); err != nil {
		return err
	}
	if err := c.Proxy.validate(); err != nil {
		return err
	}
	if err := c.ControllerManager.Validate(); err != nil {
		return fmt.Errorf("controllerManager.%w", err)
	}
	return c.APIServer.validate()
}

// maxNodes is how many nodes a cluster may have on one machine.
const maxNodes = 100

func badName(name string) error {
	return fmt.Errorf("name %q must be lower-case letters, digits and dashes, at most 32", name)
}

// NodeCount is the number of nodes with the default filled in.
func (c Config) NodeCount() int {
	if c.Nodes == nil {
		return 1
	}
	return *c.Nodes
}

const rootDir = "/var/lib/minik8s"

// BaseDir is where this machine's clusters are listed and kept by default.
func BaseDir() string {
	if os.Geteuid() == 0 {
		return rootDir
	}
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "minik8s")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("minik8s-%d", os.Getuid()))
	}
	return filepath.Join(home, ".local", "share", "minik8s")
}
