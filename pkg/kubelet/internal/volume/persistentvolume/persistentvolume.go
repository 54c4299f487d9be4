// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolume is the volume behind a claim: a directory or a block device of the node (hostPath and local), what an NFS
// server has, or what a CSI driver provides. Touch it when claims with volumes of another kind are to be mounted.
//
// What the claim led to is kept as a symbolic link in the place of the volume. It says that the volume is ready, and lets
// a kubelet that starts while the API server is away go on with the pods that it finds.
package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/fsgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/hostpath"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/nfs"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// protection is the finalizer that keeps a deleted claim while pods use it.
const protection = "kubernetes.io/pvc-protection"

// PersistentVolume is the plugin.
type PersistentVolume struct {
	// Client gets claims and volumes, which the API server allows for those of the node's own pods.
	Client kubernetes.Interface
	// Node is this node, nil while it is not known.
	Node   func() *corev1.Node
	Mounts mount.Interface
	// CSI brings volumes of drivers.
	CSI Drivers
	// Paths prepares directories of the node.
	Paths hostpath.HostPath
	// Recorder tells of pods that share a volume and not its group, and of groups that a volume takes long to get. nil: nobody is told.
	Recorder record.EventRecorder

	mu sync.Mutex // one pod at a time becomes the user of a volume
}

// Drivers are what *csi.CSI is to claims; see there.
type Drivers interface {
	Due(pod types.UID, path string) (known, due bool)
	Holds(pod types.UID, path string) bool
	SetUpClaim(ctx context.Context, m plugin.Mount, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (path string, err error)
}

// Name implements plugin.Plugin.
func (*PersistentVolume) Name() string { return "kubernetes.io/local-volume" }

// Supports implements plugin.Plugin.
func (*PersistentVolume) Supports(v *corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
}

// ReadOnly implements plugin.Plugin.
func (*PersistentVolume) ReadOnly(m plugin.Mount) bool {
	return m.Volume.PersistentVolumeClaim != nil && m.Volume.PersistentVolumeClaim.ReadOnly
}

// HostPath implements plugin.Plugin.
func (*PersistentVolume) HostPath(m plugin.Mount) string {
	target, err := os.Readlink(m.Dir)
	if err != nil {
		return m.Dir // it is not set up, and whoever mounts it will say so
	}
	return target
}

// SetUp implements plugin.Plugin.
func (p *PersistentVolume) SetUp(ctx context.Context, m plugin.Mount) error {
	path, there, err := p.isThere(m)
	if err != nil {
		return err
	}
	if there {
		known, due := p.CSI.Due(m.Pod.UID, path)
		if known && !due || !known && !gone(path) {
			return nil
		}
	}
	err = p.setUp(ctx, m)
	if errors.Is(err, plugin.ErrUnavailable) && p.CSI.Holds(m.Pod.UID, path) {
		return nil
	}
	return err
}

func (p *PersistentVolume) setUp(ctx context.Context, m plugin.Mount) error {
	volume, claim, err := p.find(ctx, m)
	if err == nil {
		err = fitsUse(m, isBlock(volume))
	}
	if err != nil {
		return &plugin.ClaimError{Err: err}
	}
	if err := p.bring(ctx, m, volume, claim); err != nil {
		return plugin.Failed(isBlock(volume), plugin.SetUp, volume.Name, err)
	}
	return nil
}

func isBlock(volume *corev1.PersistentVolume) bool {
	return ptr.Deref(volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock
}

// bring makes the volume of a claim ready for the pod.
func (p *PersistentVolume) bring(ctx context.Context, m plugin.Mount, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if err := p.reaches(volume); err != nil {
		return err
	}
	if err := keepGroup(m, volume); err != nil {
		return err
	}
	if volume.Spec.CSI != nil {
		path, err := p.CSI.SetUpClaim(ctx, m, volume, claim)
		if err != nil {
			return err
		}
		return p.show(m, volume, path)
	}
	path, err := p.prepare(ctx, m, volume, isBlock(volume))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(volume.Spec.AccessModes, corev1.ReadWriteOncePod) {
		used, err := usedByOther(m, path)
		if err != nil {
			return err
		}
		if used {
			return errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
		}
	}
	return p.show(m, volume, path)
}

// gidAnnotation of a volume names a group that the containers of its pods are to be in.
const gidAnnotation = "pv.beta.kubernetes.io/gid"

// groupLink is what says so beside the place of a volume, as a link to the number. No volume of a pod has a name with a tilde.
func groupLink(m plugin.Mount) string { return m.Dir + "~gid" }

// keepGroup keeps the group that a volume names for containers which start later. What is no number counts as none.
func keepGroup(m plugin.Mount, volume *corev1.PersistentVolume) error {
	if err := os.Remove(groupLink(m)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the group of the volume: %w", err)
	}
	gid, err := strconv.ParseInt(volume.Annotations[gidAnnotation], 10, 64)
	if err != nil {
		return nil //nolint:nilerr // no group
	}
	if err := os.Symlink(strconv.FormatInt(gid, 10), groupLink(m)); err != nil {
		return fmt.Errorf("keeping the group of the volume: %w", err)
	}
	return nil
}

// Group implements plugin.Grouped.
func (*PersistentVolume) Group(m plugin.Mount) (gid int64, is bool) {
	target, err := os.Readlink(groupLink(m))
	if err != nil {
		return 0, false
	}
	gid, err = strconv.ParseInt(target, 10, 64)
	return gid, err == nil
}

// isThere tells where the volume has been set up, and whether it is there still: what a server has is not mounted any more if the
// machine has started anew.
func (p *PersistentVolume) isThere(m plugin.Mount) (path string, there bool, err error) {
	path, err = os.Readlink(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for the volume: %w", err)
	}
	if remote(path) == path {
		return path, true, nil
	}
	there, err = p.Mounts.Mounted(path)
	return path, there, err
}

// gone says whether a directory or a device of the node is not there any more: below /tmp, for one, it goes when the machine starts anew.
// What is mounted for the pod is not looked at, for it may hang.
func gone(path string) bool {
	if remote(path) != path {
		return false
	}
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// remote is what a path of a volume says about which volume it is: what a server or a device has is mounted for each pod.
func remote(path string) string {
	for _, folder := range []string{nfs.Folder, DeviceFolder} {
		if i := strings.Index(path, "/"+folder+"/"); i >= 0 {
			return path[i:]
		}
	}
	return path
}

// DeviceFolder is where file systems of local devices are mounted, below a pod's volumes.
const DeviceFolder = "kubernetes.io~local-device"

// mountPoint is where what a server or a device has is mounted for a pod. No volume of a pod has a name with a tilde.
func mountPoint(m plugin.Mount, folder string, volume *corev1.PersistentVolume) string {
	return filepath.Join(filepath.Dir(filepath.Dir(m.Dir)), folder, "pv~"+volume.Name)
}

// link makes at a link to path, if it is not that already.
func link(path, at string) error {
	err := os.Symlink(path, at)
	if have, rerr := os.Readlink(at); rerr == nil && have == path {
		return nil
	}
	return err
}

// show links where a volume is to where the pod's is, and tells of a device that the pod has not had before, as upstream's.
func (p *PersistentVolume) show(m plugin.Mount, volume *corev1.PersistentVolume, path string) error {
	_, err := os.Lstat(m.Dir)
	before := err == nil
	if err := link(path, m.Dir); err != nil {
		return err
	}
	if isBlock(volume) && !before && p.Recorder != nil {
		p.Recorder.Event(podspec.PodRef(m.Pod), corev1.EventTypeNormal, "SuccessfulMountVolume",
			fmt.Sprintf("MapVolume.MapPodDevice succeeded for volume %q volumeMapPath %q", volume.Name, m.Dir))
	}
	return nil
}

// reaches says why this node does not reach a volume. The scheduler has looked, but not if the pod came with a node's name.
func (p *PersistentVolume) reaches(volume *corev1.PersistentVolume) error {
	if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil {
		node := p.Node()
		if node == nil {
			return fmt.Errorf("checking the node affinity of volume %s: this node is not known yet: %w", volume.Name, plugin.ErrUnavailable)
		}
		ok, err := corev1helpers.MatchNodeSelectorTerms(node, a.Required)
		if err != nil {
			return fmt.Errorf("checking the node affinity of volume %s: %w", volume.Name, err)
		}
		if !ok {
			return plugin.Failed(isBlock(volume), plugin.NodeAffinity, volume.Name, errors.New("no matching NodeSelectorTerms"))
		}
	}
	return nil
}

// fitsDirectory says why a volume that is a directory of the node cannot be used.
func fitsDirectory(volume *corev1.PersistentVolume) error {
	if o := volume.Spec.MountOptions; len(o) > 0 {
		return fmt.Errorf("PersistentVolume %s has mountOptions %q, which volumes of kind %s do not support on this node: they are directories, not mounted",
			volume.Name, strings.Join(o, ","), kind(&volume.Spec.PersistentVolumeSource))
	}
	return nil
}

// usedByOther says whether another pod of this node has a volume of this kind that is the same directory.
func usedByOther(m plugin.Mount, path string) (bool, error) {
	volumes := filepath.Dir(m.Dir)                            // pods/UID/volumes/KIND
	pods := filepath.Dir(filepath.Dir(filepath.Dir(volumes))) // pods
	dirs, err := os.ReadDir(pods)
	if err != nil {
		return false, fmt.Errorf("looking for other users of the volume: %w", err)
	}
	for _, d := range dirs {
		if d.Name() == string(m.Pod.UID) || !d.IsDir() {
			continue
		}
		other := filepath.Join(pods, d.Name(), "volumes", filepath.Base(volumes))
		links, err := os.ReadDir(other)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("looking for other users of the volume: %w", err)
		}
		for _, l := range links {
			target, err := os.Readlink(filepath.Join(other, l.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) { // it has gone, or is no link
				return false, fmt.Errorf("looking for other users of the volume: %w", err)
			}
			if err == nil && remote(target) == remote(path) {
				return true, nil
			}
		}
	}
	return false, nil
}

// prepare makes a volume ready for the pod and returns where it is.
func (p *PersistentVolume) prepare(ctx context.Context, m plugin.Mount, volume *corev1.PersistentVolume, block bool) (string, error) {
	switch source := &volume.Spec.PersistentVolumeSource; {
	case block && source.Local != nil:
		return source.Local.Path, isDevice(source.Local.Path)
	case block:
		return "", fmt.Errorf("PersistentVolume %s of kind %s has volumeMode Block, which this kubelet supports for local and csi volumes only", volume.Name, kind(source))
	case source.HostPath != nil:
		if err := fitsDirectory(volume); err != nil {
			return "", err
		}
		m.Volume = &corev1.Volume{Name: volume.Name, VolumeSource: corev1.VolumeSource{HostPath: source.HostPath}}
		return p.Paths.HostPath(m), p.Paths.SetUp(ctx, m)
	case source.Local != nil:
		return p.prepareLocal(ctx, m, volume)
	case source.NFS != nil:
		dir := mountPoint(m, nfs.Folder, volume)
		return dir, nfs.Mount(ctx, p.Mounts, source.NFS, volume.Spec.MountOptions, dir)
	}
	return "", fmt.Errorf("PersistentVolume %s is of kind %s, which is not supported by this kubelet", volume.Name, kind(&volume.Spec.PersistentVolumeSource))
}

// fitsUse refuses a volume that containers want to have as what it is not.
func fitsUse(m plugin.Mount, block bool) error {
	for c := range podspec.Containers(m.Pod) {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == m.Volume.Name })
		device := slices.ContainsFunc(c.VolumeDevices, func(v corev1.VolumeDevice) bool { return v.Name == m.Volume.Name })
		if mounted && block {
			return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", m.Volume.Name, corev1.PersistentVolumeBlock)
		}
		if device && !block {
			return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", m.Volume.Name, corev1.PersistentVolumeFilesystem)
		}
	}
	return nil
}

func isDevice(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("path %q does not exist", path)
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeDevice {
		return fmt.Errorf("path %q is not a block device", path)
	}
	return nil
}

// Device implements plugin.Block.
func (*PersistentVolume) Device(m plugin.Mount) (path string, readOnly bool, err error) {
	// A link among the engine's devices would be looked for in the container.
	path, err = filepath.EvalSymlinks(m.Dir)
	if err == nil {
		err = isDevice(path)
	}
	return path, m.Volume.PersistentVolumeClaim != nil && m.Volume.PersistentVolumeClaim.ReadOnly, err
}

// prepareLocal gives a directory, or the file system of a device, to the pod's group. What the pod may only read is left as it is.
func (p *PersistentVolume) prepareLocal(ctx context.Context, m plugin.Mount, volume *corev1.PersistentVolume) (string, error) {
	path := volume.Spec.Local.Path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("path %q does not exist", path)
	case err != nil:
		return "", err
	case info.IsDir():
		err = fitsDirectory(volume)
	case info.Mode().Type() == fs.ModeDevice:
		device := path
		path = mountPoint(m, DeviceFolder, volume)
		err = p.mountDevice(ctx, device, path, volume, p.ReadOnly(m))
	default:
		err = fmt.Errorf("path %q is neither a directory nor a block device", path)
	}
	if err != nil || p.ReadOnly(m) || m.FSGroup() == nil {
		return path, err
	}
	return path, p.give(ctx, m, path, volume.Name)
}

// give gives a volume to the pod's group, unless another pod of the node has it, from which it is not to be taken.
func (p *PersistentVolume) give(ctx context.Context, m plugin.Mount, path, name string) error {
	used, err := usedByOther(m, path)
	if err != nil {
		return err
	}
	if !used {
		return fsgroup.Apply(ctx, m, path, func(message string) { p.warn(m, fsgroup.Slow, message) })
	}
	var have unix.Stat_t
	if err := unix.Stat(path, &have); err != nil {
		return fmt.Errorf("failed to check fsGroup for %s (%w)", path, err)
	}
	if want := *m.FSGroup(); want != int64(have.Gid) {
		p.warn(m, "AlreadyMountedVolume", fmt.Sprintf("The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", want, name, have.Gid))
	}
	return nil
}

func (p *PersistentVolume) warn(m plugin.Mount, reason, message string) {
	if p.Recorder != nil {
		p.Recorder.Event(podspec.PodRef(m.Pod), corev1.EventTypeWarning, reason, message)
	}
}

// mountDevice mounts the file system of a device, which gets one if it has none.
func (p *PersistentVolume) mountDevice(ctx context.Context, device, dir string, volume *corev1.PersistentVolume, readOnly bool) error {
	mounted, err := p.Mounts.Mounted(dir)
	if err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	options := slices.Clone(volume.Spec.MountOptions)
	if readOnly {
		options = append(options, "ro")
	}
	return p.Mounts.Device(ctx, device, dir, ptr.Deref(volume.Spec.Local.FSType, "ext4"), options)
}

// kind is the name of the field that says what the volume is.
func kind(source *corev1.PersistentVolumeSource) string {
	v := reflect.ValueOf(*source)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}

// patience bounds what is asked of the API server for one volume.
const patience = 15 * time.Second

// find gets the claim of the pod and the volume behind it. The messages are upstream's.
func (p *PersistentVolume) find(ctx context.Context, m plugin.Mount) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var name string
	if source := m.Volume.PersistentVolumeClaim; source != nil {
		name = source.ClaimName
	} else {
		name = ephemeral.VolumeClaimName(m.Pod, m.Volume)
	}
	claim, err := p.claim(ctx, m.Pod.Namespace, name)
	if err != nil {
		return nil, nil, fmt.Errorf("error processing PVC %s/%s: %w", m.Pod.Namespace, name, err)
	}
	if m.Volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(m.Pod, claim); err != nil {
			return nil, nil, err
		}
	}
	volume, err := p.volume(ctx, claim)
	if err != nil {
		return nil, nil, fmt.Errorf("error processing PVC %s/%s: %w", m.Pod.Namespace, name, err)
	}
	return volume, claim, nil
}

func (p *PersistentVolume) claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := p.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, unavailable(fmt.Errorf("failed to fetch PVC from API server: %w", err))
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	return claim, nil
}

func (p *PersistentVolume) volume(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	volume, err := p.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, unavailable(fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err))
	case volume.Spec.ClaimRef == nil:
		return nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", volume.Name)
	case volume.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", volume.Name, volume.Spec.ClaimRef.UID, claim.UID)
	}
	return volume, nil
}

// unavailable marks an error that is not an answer of the API server.
func unavailable(err error) error {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return fmt.Errorf("%w: %w", plugin.ErrUnavailable, err)
	}
	return err
}
