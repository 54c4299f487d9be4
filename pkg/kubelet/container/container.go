// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package container defines Runtime, everything the kubelet asks of a container engine; touch it to support another
// engine (a folder beside docker/) or when the kubelet needs a new operation. Every Runtime must pass containertest.
package container

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Errors that callers compare with errors.Is; a Runtime wraps them with the subject and the engine's own words.
var (
	// ErrNotFound: no such sandbox, container or image.
	ErrNotFound = errors.New("not found")
	// ErrNotRunning: the operation needs a running container or sandbox.
	ErrNotRunning = errors.New("not running")
	// ErrUnavailable: the engine does not answer. Nothing is known of the state of its containers.
	ErrUnavailable = errors.New("container engine unavailable")
	// ErrDead: nothing of the container runs, and the engine cannot remove it now. It may when it is asked again.
	ErrDead = errors.New("dead, and cannot be removed")
	// ErrInvalidImageName: the image reference does not parse (waiting reason InvalidImageName).
	ErrInvalidImageName = errors.New("invalid image name")
)

// Runtime is a container engine of one node. It is told what to do and keeps no policy: restart decisions, back-off,
// image pull policy and volumes are the kubelet's. All methods are safe for concurrent use, honour ctx, and are
// idempotent where noted, because the kubelet may have been killed after the engine acted and before it noted so. None needs a
// deadline of its own: Bounded gives it one.
type Runtime interface {
	// Version names the engine; it fails with ErrUnavailable when the engine is away. Doubles as the health check.
	Version(ctx context.Context) (Version, error)

	// CreateSandbox makes the pause container that holds the pod's namespaces, and returns its id. Idempotent by pod UID and
	// attempt: it returns what runs, or was made and not started.
	CreateSandbox(ctx context.Context, c SandboxConfig) (id string, err error)
	// StartSandbox starts it. Idempotent. A sandbox with its own network namespace comes with only the loopback interface;
	// addresses are given by pkg/network afterwards.
	StartSandbox(ctx context.Context, id string) (*Sandbox, error)
	// StopSandbox kills the pause container; the pod's containers must have been stopped before. Idempotent.
	StopSandbox(ctx context.Context, id string) error
	// RemoveSandbox removes it. Absence is success. The error may be ErrDead.
	RemoveSandbox(ctx context.Context, id string) error

	// CreateContainer makes a container of a sandbox, which has to run only when the container is started. The image must be
	// present (ErrNotFound else).
	CreateContainer(ctx context.Context, sandboxID string, c ContainerConfig) (id string, err error)
	// StartContainer starts it; ErrNotRunning if its sandbox does not run. Another error here is what upstream reports as reason StartError or ContainerCannotRun;
	// the container is then exited with code 127 or 128 (or as the engine says) and stays until removed.
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the image's stop signal (or signal, if not ""), waits at most grace, then kills.
	// Idempotent; absence is success. Grace 0 kills at once.
	StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error
	// RemoveContainer removes a container, running or not, with its log. Absence is success. The error may be ErrDead.
	RemoveContainer(ctx context.Context, id string) error
	// UpdateContainer changes the resources of a running container in place.
	UpdateContainer(ctx context.Context, id string, r Resources) error

	// List returns all sandboxes and containers of this node in any state: whose each is and how the engine counts it. It costs the
	// engine one cheap call, and does not fail for one container that Inspect fails for.
	List(ctx context.Context) ([]Summary, error)
	// Inspect returns all that is known of one of them, terminated ones with exit code and times: the sandbox or the container
	// with that id, the other is nil. What it is told of must have happened: no cache stands between it and the engine.
	Inspect(ctx context.Context, id string) (*Sandbox, *Container, error)
	// Events delivers changes from now until ctx ends or the stream breaks; then the channel is closed and the caller
	// lists and subscribes again.
	Events(ctx context.Context) (<-chan Event, error)

	// Exec runs a command in a running container with the given streams and returns its exit code. When ctx ends
	// first the process is killed (not only abandoned) and ctx.Err() is returned; if the engine has not even begun it, the
	// error matches ErrUnavailable besides.
	Exec(ctx context.Context, id string, o ExecOptions) (exitCode int, err error)
	// Attach connects to the streams of pid 1, until the container ends or, unless it reads stdin only once and without a
	// terminal, until the given stdin does.
	Attach(ctx context.Context, id string, o AttachOptions) error
	// Logs writes the container's log. Lines are split by stream; with o.Timestamps each is prefixed with RFC3339Nano
	// and a space. Follow ends when the container ends or ctx does.
	Logs(ctx context.Context, id string, o LogOptions, stdout, stderr io.Writer) error
	// PortForward copies between stream and 127.0.0.1:port inside the network namespace of the sandbox.
	PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error

	// Image returns the image that ref names locally, ErrNotFound if none.
	Image(ctx context.Context, ref string) (*Image, error)
	// PullImage pulls ref and returns the local image.
	PullImage(ctx context.Context, ref string, auth *RegistryAuth) (*Image, error)
	// SaveImage writes the image that ref names locally, ErrNotFound if none, as an archive that LoadImage takes. It and LoadImage last as
	// long as they get on.
	SaveImage(ctx context.Context, ref string, w io.Writer) error
	// LoadImage makes the image of an archive present, by the name that it was saved by.
	LoadImage(ctx context.Context, archive io.Reader) error
	// Images lists all local images.
	Images(ctx context.Context) ([]*Image, error)
	// RemoveImage removes an image by id or reference. Absence is success.
	RemoveImage(ctx context.Context, ref string) error
	// ImagesInUse are the ids of the images of all containers of the engine, running or not, whoever's they are.
	ImagesInUse(ctx context.Context) (map[string]bool, error)
	// ImageLayers are the directories of this machine whose overlay is the file system of a local image, the topmost first; none
	// if the image is empty. It fails with errors.ErrUnsupported if the engine does not keep images so, but mounts them itself
	// (Mount.Image), and with another error if it can do neither.
	ImageLayers(ctx context.Context, id string) ([]string, error)
	// ImageDir is the directory of the engine that holds images, for disk figures.
	ImageDir(ctx context.Context) (string, error)
	// DiskUsage counts what a container has written. It may take long and much of the disk's time.
	DiskUsage(ctx context.Context, id string) (DiskUsage, error)
}

// DiskUsage is what a container takes of the disk, in bytes: its files that are not its image's, and its log as far as this
// process can see it.
type DiskUsage struct{ Rootfs, Log int64 }

// Version describes the engine.
type Version struct {
	Name       string // "docker"
	Version    string // "20.10.24"
	APIVersion string // "1.41"
	// CgroupDriver is "cgroupfs" or "systemd", CgroupVersion "1" or "2".
	CgroupDriver, CgroupVersion string
	// Handlers are those that SandboxConfig.Handler can name, by name; the first is the default one, "".
	Handlers []Handler
}

// Handler is what the containers of a pod are run with.
type Handler struct {
	Name string
	// RecursiveReadOnly: it takes mounts of which Mount.RecursiveReadOnly is set.
	RecursiveReadOnly bool
}

// Pod identifies the pod that a sandbox or container belongs to. It is stored with the container (labels on Docker),
// so that a restarted kubelet finds its pods again.
type Pod struct {
	UID             types.UID
	Namespace, Name string
}

// NamespaceMode says whose Linux namespace is used.
type NamespaceMode string

const (
	// NamespacePod shares the sandbox's namespace (the zero value).
	NamespacePod NamespaceMode = ""
	// NamespaceContainer gives a container its own.
	NamespaceContainer NamespaceMode = "container"
	// NamespaceNode is the host's.
	NamespaceNode NamespaceMode = "node"
	// NamespaceTarget joins that of another container (ephemeral containers), see ContainerConfig.PIDTarget.
	NamespaceTarget NamespaceMode = "target"
)

// SandboxConfig is what a sandbox is made from.
type SandboxConfig struct {
	Pod     Pod
	Attempt uint32
	// Hostname is the pod's; empty with host network.
	Hostname string
	// Network, PID and IPC are NamespacePod or NamespaceNode; PID NamespacePod means one shared by all containers
	// (shareProcessNamespace), NamespaceContainer the default.
	Network, PID, IPC NamespaceMode
	CgroupParent      string
	Sysctls           map[string]string
	// Handler is the program that the engine runs all containers of the pod with, by the engine's name for it; "" is its
	// default. CreateSandbox fails if the engine knows none of that name.
	Handler string
	// Labels are kept with the sandbox and returned by List (pod labels are not among them).
	Labels map[string]string
}

// ContainerType tells the three lists of a pod's containers apart.
type ContainerType string //nolint:revive // its constants are container.TypeInit and so on; Type is a field of this package

// The lists, in the order in which their containers start.
const (
	TypeInit      ContainerType = "init"
	TypeRegular   ContainerType = "regular"
	TypeEphemeral ContainerType = "ephemeral"
)

// ContainerConfig is what a container is made from; everything in it is resolved (env, mounts, user).
type ContainerConfig struct { //nolint:revive // container.Config is what Docker calls another thing
	Pod  Pod
	Name string
	Type ContainerType
	// Handler is that of the sandbox.
	Handler string
	// Attempt counts restarts of this container in this pod, from 0.
	Attempt uint32
	// Hash of the spec that made it; a different one means the container must be replaced.
	Hash string
	// Image is the id of a local image, ImageRef the reference as written in the pod.
	Image, ImageRef string
	// Command overrides the entrypoint and Args the cmd of the image; nil keeps the image's.
	Command, Args []string
	WorkingDir    string
	Env           []string // NAME=value
	Mounts        []Mount
	Devices       []Device
	// CDIDevices are qualified names of the Container Device Interface, Annotations are for the program that runs the container. An
	// engine that cannot give them to a container refuses it.
	CDIDevices  []string
	Annotations map[string]string
	// User is "" (root), a uid or a name, and may have ":" and a group behind it; names are the image's. Groups are supplementary;
	// those that the user has in the image are added unless StrictGroups.
	User         string
	Groups       []int64
	StrictGroups bool

	Stdin, StdinOnce, TTY  bool
	Privileged             bool
	ReadOnlyRootFilesystem bool
	NoNewPrivileges        bool
	CapAdd, CapDrop        []string
	// Seccomp is "" (the engine's default), "unconfined" or the JSON text of a profile.
	Seccomp string
	// AppArmor is "" (the engine's default), "unconfined" or a profile name.
	AppArmor         string
	UnmaskedProc     bool
	Network          NamespaceMode // NamespacePod or NamespaceNode
	PID, IPC         NamespaceMode
	PIDTarget        string // container id, with PID == NamespaceTarget
	CgroupParent     string
	Resources        Resources
	OOMScoreAdj      int
	StopSignal       string
	TerminationMount string // host file mounted at the termination message path is among Mounts; this is its host path
	Labels           map[string]string
}

// Mount binds a host path, which must exist, into a container, or the file system of an image.
type Mount struct {
	HostPath, ContainerPath string
	// Image is the id of a local image that is mounted in place of HostPath, read-only, and SubPath what of it is. Both are for
	// engines on which ImageLayers is unsupported.
	Image, SubPath string
	ReadOnly       bool
	// RecursiveReadOnly makes a read-only mount so with all that is mounted below HostPath, which otherwise stays as it is.
	RecursiveReadOnly bool
	// NonRecursive leaves out what is mounted below HostPath.
	NonRecursive bool
	// Propagation is "", "rslave" or "rshared".
	Propagation string
}

// Device passes a host device.
type Device struct{ HostPath, ContainerPath, Permissions string }

// Resources are cgroup settings; zero means not set.
type Resources struct {
	CPUShares   int64 // relative weight, cgroup v1 scale
	CPUQuota    int64 // microseconds in each CPUPeriod
	CPUPeriod   int64 // microseconds
	MemoryBytes int64
	PidsLimit   int64
	// CPUs and NUMANodes are lists such as "0-2,7": on which CPUs processes run, and from which nodes they get memory. UpdateContainer
	// leaves alone what is not set.
	CPUs, NUMANodes string
}

// User is who the first process of a container is.
type User struct {
	UID, GID int64
	// Groups are all that it is in, in order; GID is among them.
	Groups []int64
}

// State is where a sandbox or container is in its life.
type State string

// States of a container.
const (
	StateCreated State = "created"
	StateRunning State = "running"
	StateExited  State = "exited"
	StateUnknown State = "unknown"
)

// Summary is what a listing tells of a sandbox or container. Its State may be coarser than that of Inspect: one that could not
// be started may be listed as created.
type Summary struct {
	ID    string
	Pod   Pod
	State State
}

// Sandbox is an observed sandbox.
type Sandbox struct {
	ID        string
	Pod       Pod
	Attempt   uint32
	State     State
	CreatedAt time.Time
	// Pid is the pause process on the host, 0 unless running; /proc/<Pid>/ns/net is the pod's network namespace.
	Pid     int
	Network NamespaceMode
	// Handler is what its containers are run with; the default one may have its name.
	Handler string
	// Image is the reference of the pause image.
	Image  string
	Labels map[string]string
}

// Container is an observed container.
type Container struct {
	ID        string
	SandboxID string
	Pod       Pod
	Name      string
	Type      ContainerType
	Attempt   uint32
	Hash      string
	State     State
	CreatedAt time.Time
	// StartedAt is zero if it never ran; FinishedAt if it has not ended.
	StartedAt, FinishedAt time.Time
	ExitCode              int
	// OOMKilled is true only when the kernel killed pid 1 for memory.
	OOMKilled bool
	// Message is the engine's error when it could not start.
	Message  string
	Pid      int
	ImageID  string // docker-pullable://… or docker://sha256:… as upstream's dockershim reported it
	ImageRef string // as written in the pod
	// LogPath is the file of the node to which the engine writes its output, "" if that is none.
	LogPath string
	// User is nil if it is not known.
	User *User
	// TerminationMessageFile is ContainerConfig.TerminationMount.
	TerminationMessageFile string
	Resources              Resources
	Labels                 map[string]string
}

// Event says that a container or sandbox changed; the receiver inspects it for details.
type Event struct {
	ID     string
	PodUID types.UID
	Type   EventType
}

// EventType is the kind of an Event.
type EventType string

// What happens to a container.
const (
	EventCreated EventType = "created"
	EventStarted EventType = "started"
	EventDied    EventType = "died"
	EventUpdated EventType = "updated" // its resources
	EventRemoved EventType = "removed"
)

// TerminalSize is a window size in characters.
type TerminalSize struct{ Width, Height uint16 }

// ExecOptions are the command and streams of an Exec; nil streams are not attached. With TTY Stderr must be nil.
type ExecOptions struct {
	Command        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool
	Resize         <-chan TerminalSize
}

// AttachOptions are the streams of an Attach.
type AttachOptions struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool
	Resize         <-chan TerminalSize
}

// LogOptions select lines of a log. Tail < 0 means all.
type LogOptions struct {
	Follow       bool
	Since, Until time.Time
	Tail         int64
	Timestamps   bool
}

// Image is a local image.
type Image struct {
	ID          string   // sha256:…
	RepoTags    []string // name:tag
	RepoDigests []string // name@sha256:…
	SizeBytes   int64
	// User is the image's USER; the kubelet checks runAsNonRoot against it.
	User       string
	StopSignal string
	CreatedAt  time.Time
}

// RegistryAuth is a login for a registry, as in .dockerconfigjson.
type RegistryAuth struct {
	Username, Password, IdentityToken, RegistryToken, ServerAddress string
}
