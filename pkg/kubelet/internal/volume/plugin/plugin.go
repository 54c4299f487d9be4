// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugin is what the kinds of volumes have in common: the interface they implement and what they are given;
// touch it when a kind needs to know more about the pod.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/atomicwriter"
)

// Plugin is one kind of volume. The calls for one volume of a pod come one after the other, and so do those for volumes of one claim.
type Plugin interface {
	// Name is upstream's name of the kind, such as "kubernetes.io/secret"; it names the folder of its volumes.
	Name() string
	// Supports says whether the volume is of this kind.
	Supports(v *corev1.Volume) bool
	// SetUp brings the volume to the state that the pod and the objects it refers to ask for. It is called again on
	// every sync of the pod, so it must be cheap when there is nothing to do, and must finish what a killed one began.
	SetUp(ctx context.Context, m Mount) error
	// HostPath is what is mounted into containers.
	HostPath(m Mount) string
	// ReadOnly says whether containers may never write to it.
	ReadOnly(m Mount) bool
}

// Block is a Plugin some of whose volumes are devices.
type Block interface {
	// Device is the device of the node that a volume which has been set up is, and whether containers may write to it.
	Device(m Mount) (path string, readOnly bool, err error)
}

// Grouped is a Plugin some of whose volumes belong to a group that all containers of their pod are to be in.
type Grouped interface {
	// Group is that of a volume which has been set up.
	Group(m Mount) (gid int64, is bool)
}

// Mount is a volume of a pod that is set up.
type Mount struct {
	Pod    *corev1.Pod
	Volume *corev1.Volume
	// Dir is the volume's own directory. Its parent exists. What is mounted or stored in it is removed with the pod.
	Dir string
	// PodIPs are the addresses of the pod, primary first.
	PodIPs []string
}

// Container is a container that is about to start, as volumes see it.
type Container struct {
	Pod *corev1.Pod
	// Spec is its part of the pod, in which each subPathExpr has been made a subPath.
	Spec *corev1.Container
	// PodIPs are the addresses of the pod, primary first.
	PodIPs []string
	// Images are those of the volumes that are images, by the volume's name.
	Images map[string]*container.Image
	// RecursiveReadOnly: what runs it takes mounts that are read-only with all that is mounted in them.
	RecursiveReadOnly bool
}

// FSGroup is the group that owns the pod's volumes, nil if none is asked for. fsGroupChangePolicy is about volumes that
// outlive their pod, and has no say in others.
func (m Mount) FSGroup() *int64 {
	if sc := m.Pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// Write makes files the content of the volume, at once for those who read it.
func (m Mount) Write(files map[string]atomicwriter.File) error {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	return atomicwriter.Write(m.Dir, files, m.FSGroup(), m.points()...)
}

// points are the paths in the volume on which a container that has it whole has something else mounted.
func (m Mount) points() []string {
	var out []string
	for c := range podspec.Containers(m.Pod) {
		for _, own := range c.VolumeMounts {
			if own.Name != m.Volume.Name || own.SubPath != "" || own.SubPathExpr != "" {
				continue
			}
			for _, other := range c.VolumeMounts {
				path, err := filepath.Rel(filepath.Join("/", own.MountPath), filepath.Join("/", other.MountPath))
				if err == nil && path != "." && filepath.IsLocal(path) {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// ErrUnavailable marks errors that say nothing about the pod: the API server does not answer. A volume that has been
// set up before stays as it is.
var ErrUnavailable = errors.New("the API server is not available")

// ErrPending marks errors that time mends: somebody has been asked and has not answered. As above, a volume that has been set up
// before stays as it is.
var ErrPending = errors.New("it is waited for")

// EngineError is one that upstream's container runtime, and not its kubelet, would have with a mount of a container.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *EngineError) Unwrap() error { return e.Err }

// ErrNotAttached marks that a volume was not attached to the node in time. As of upstream's, no event tells: who is to attach it has
// said why it does not.
var ErrNotAttached = errors.New("the volume is not attached to the node")

// AttachLimitError is that a volume cannot be attached to the node, which has as many as it takes. The pod has to go elsewhere. Volumes
// are all that the pod waits for, in upstream's words.
type AttachLimitError struct{ Volumes string }

func (e *AttachLimitError) Error() string {
	return "Node has reached its volume attachment limit, rejecting pod. " + e.Volumes + ": " + context.DeadlineExceeded.Error()
}

// Unwrap returns ErrNotAttached.
func (*AttachLimitError) Unwrap() error { return ErrNotAttached }

// ClaimError is that it cannot be found out which volume is behind a claim, or that it is not of the mode that the pod has it for. All
// such volumes of a pod are told of by one event.
type ClaimError struct{ Err error }

func (e *ClaimError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ClaimError) Unwrap() error { return e.Err }

// FailedMount is the reason of upstream's event about a volume that cannot be brought to a pod, but for devices.
const FailedMount = "FailedMount"

// EventError is an error that has the whole text of upstream's event, so that nothing is put before it.
type EventError struct {
	// Reason is the event's.
	Reason string
	err    error
}

// Event makes err an EventError.
func Event(err error) error { return &EventError{FailedMount, err} }

// Failed makes err upstream's event about what has failed of a volume, unless it is one already. block: the volume is a device, of which
// upstream has other words.
func Failed(block bool, what, volume string, err error) error {
	if errors.As(err, new(*EventError)) {
		return err
	}
	if !block {
		return &EventError{FailedMount, fmt.Errorf("MountVolume.%s for volume %q : %w", what, volume, err)}
	}
	reason := "FailedMapVolume"
	switch what {
	case SetUp, MountDevice:
		what = "SetUpDevice failed"
	case Expand:
		what = "MarkVolumeAsMounted failed while expanding volume"
	case NodeAffinity:
		reason = FailedMount
	}
	return &EventError{reason, fmt.Errorf("MapVolume.%s for volume %q : %w", what, volume, err)}
}

// What can fail of a volume.
const (
	SetUp         = "SetUp failed"
	MountDevice   = "MountDevice failed"
	Expand        = "Setup failed while expanding volume"
	NodeAffinity  = "NodeAffinity check failed"
	WaitForAttach = "WaitForAttach failed"
	MapPodDevice  = "MapPodDevice failed"
)

func (e *EventError) Error() string { return e.err.Error() }

// Unwrap returns what has failed.
func (e *EventError) Unwrap() error { return e.err }

// Objects are the configuration objects of the cluster as far as pods of this node refer to them. Missing ones give
// errors that satisfy apierrors.IsNotFound, unknown ones ErrUnavailable.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Projection selects keys of an object and says where they go.
type Projection struct {
	// Items are the keys; none means all, each as the file of its name.
	Items []corev1.KeyToPath
	// DefaultMode is that of files whose item has none; 0644 if nil.
	DefaultMode *int32
	// Optional allows the object or its keys to be missing.
	Optional *bool
}

// ConfigMap returns the files of a config map.
func (p Projection) ConfigMap(ctx context.Context, o Objects, namespace, name string) (map[string]atomicwriter.File, error) {
	cm, err := o.ConfigMap(ctx, namespace, name)
	if err != nil {
		return p.missing(err)
	}
	data := maps.Clone(cm.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	return p.files(data, "configmap references non-existent config key: %s")
}

// Secret returns the files of a secret.
func (p Projection) Secret(ctx context.Context, o Objects, namespace, name string) (map[string]atomicwriter.File, error) {
	s, err := o.Secret(ctx, namespace, name)
	if err != nil {
		return p.missing(err)
	}
	return p.files(s.Data, "references non-existent secret key: %s")
}

func (p Projection) missing(err error) (map[string]atomicwriter.File, error) {
	if apierrors.IsNotFound(err) && p.optional() {
		return nil, nil
	}
	return nil, err
}

func (p Projection) files(data map[string][]byte, missing string) (map[string]atomicwriter.File, error) {
	files := map[string]atomicwriter.File{}
	if len(p.Items) == 0 {
		for k, v := range data {
			files[k] = atomicwriter.File{Data: v, Mode: Mode(nil, p.DefaultMode)}
		}
		return files, nil
	}
	for _, item := range p.Items {
		v, ok := data[item.Key]
		if !ok {
			if p.optional() {
				continue
			}
			return nil, fmt.Errorf(missing, item.Key)
		}
		files[item.Path] = atomicwriter.File{Data: v, Mode: Mode(item.Mode, p.DefaultMode)}
	}
	return files, nil
}

func (p Projection) optional() bool { return p.Optional != nil && *p.Optional }

// Mode is that of a file: its own, else the volume's default, else 0644.
func Mode(own, byDefault *int32) fs.FileMode {
	switch {
	case own != nil:
		return fs.FileMode(*own) & fs.ModePerm
	case byDefault != nil:
		return fs.FileMode(*byDefault) & fs.ModePerm
	}
	return 0o644
}
