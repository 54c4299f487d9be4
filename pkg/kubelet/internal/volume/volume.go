// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/env"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/atomicwriter"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/configmap"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/csi"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/downwardapi"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/emptydir"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/hostpath"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/image"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/nfs"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/object"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/persistentvolume"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/podcertificate"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/projected"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/removal"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/secret"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/token"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/trustbundle"
)

// Manager makes and removes the volumes of pods. The methods are safe for concurrent use, but those for one pod must
// come one after the other.
type Manager struct {
	config  Config
	mounts  mount.Interface
	objects *object.Cache
	tokens  *token.Manager
	bundles *trustbundle.Manager
	certs   *podcertificate.Manager
	images  *image.Image
	csi     *csi.CSI
	plugins []plugin.Plugin

	changed chan types.UID
	wake    chan struct{}
	mu      sync.Mutex
	pending map[types.UID]bool
	counts  map[types.UID]map[string]*count // by the volume's name in the pod
	waiting map[string]bool                 // paths that a file system is asked for
}

// New returns a Manager. Watches begin with the first Mount and end with Start.
func New(c Config) (*Manager, error) { return newManager(c, mount.Linux{}) }

func newManager(c Config, mounts mount.Interface) (*Manager, error) {
	if !filepath.IsAbs(c.RootDir) {
		return nil, fmt.Errorf("root directory %q is not absolute", c.RootDir)
	}
	if c.Client == nil {
		return nil, errors.New("no client")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.ImageLayers == nil {
		c.ImageLayers = func(context.Context, string) ([]string, error) { return nil, errors.ErrUnsupported }
	}
	if c.Node == nil {
		c.Node = func() *corev1.Node { return nil }
	}
	if c.InUse == nil {
		c.InUse = func() {}
	}
	if c.NodeAllocatable == nil {
		c.NodeAllocatable = func() corev1.ResourceList { return nil }
	}
	// Mount points are listed by their real path, so volumes had better have no other.
	if err := os.MkdirAll(filepath.Join(c.RootDir, "pods"), 0o750); err != nil {
		return nil, fmt.Errorf("making the directory of pods: %w", err)
	}
	real, err := filepath.EvalSymlinks(c.RootDir)
	if err != nil {
		return nil, fmt.Errorf("resolving root directory: %w", err)
	}
	c.RootDir = real
	m := &Manager{
		config: c, mounts: mounts, tokens: token.New(c.Client, c.Clock),
		changed: make(chan types.UID), wake: make(chan struct{}, 1), pending: map[types.UID]bool{},
		waiting: map[string]bool{}, counts: map[types.UID]map[string]*count{},
	}
	m.objects = object.New(c.Client, c.Clock, m.markChanged)
	if m.bundles, err = trustbundle.New(c.Client, m.markChanged); err != nil {
		return nil, err
	}
	m.certs, err = podcertificate.New(podcertificate.Config{
		Client: c.Client, Clock: c.Clock, NodeName: c.NodeName, Node: c.Node, Changed: m.markChanged, Recorder: c.Recorder,
	})
	if err != nil {
		return nil, err
	}
	m.images = &image.Image{Mounts: mounts, Layers: c.ImageLayers}
	m.csi, err = csi.New(csi.Config{
		RootDir: c.RootDir, NodeName: c.NodeName, Client: c.Client, Recorder: c.Recorder, Clock: c.Clock, Node: c.Node,
		Tokens: m.tokens, Mounts: mounts, InUse: c.InUse, Calls: c.Operations,
	})
	if err != nil {
		klog.Background().Error(err, "Pods with volumes of CSI drivers will not leave the node")
	}
	m.plugins = []plugin.Plugin{
		&emptydir.EmptyDir{Mounts: mounts, NodeAllocatable: c.NodeAllocatable},
		hostpath.HostPath{Root: c.RootDir},
		&configmap.ConfigMap{Objects: m.objects},
		&secret.Secret{Objects: m.objects, Mounts: mounts},
		&projected.Projected{
			Objects: m.objects, Tokens: m.tokens, TrustBundles: m.bundles, Certificates: m.certs, Mounts: mounts, NodeAllocatable: c.NodeAllocatable,
		},
		&downwardapi.DownwardAPI{Mounts: mounts, NodeAllocatable: c.NodeAllocatable},
		&nfs.NFS{Mounts: mounts},
		&persistentvolume.PersistentVolume{
			Client: c.Client, Node: c.Node, Mounts: mounts, CSI: m.csi, Paths: hostpath.HostPath{Root: c.RootDir}, Recorder: c.Recorder,
		},
		csi.Inline{CSI: m.csi},
		m.images,
	}
	return m, nil
}

// Start delivers Changed until ctx ends; then all watches have stopped.
func (m *Manager) Start(ctx context.Context) error {
	defer m.certs.Stop()
	defer m.bundles.Stop()
	defer m.objects.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.csi.Start(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
		for {
			uid, ok := m.nextChanged()
			if !ok {
				break
			}
			select {
			case <-ctx.Done():
				return nil
			case m.changed <- uid:
			}
		}
	}
}

// Changed yields pods that refer to a config map, a secret or another source which changed, once however often it did meanwhile. They
// should be synced. Nothing comes unless Start runs.
func (m *Manager) Changed() <-chan types.UID { return m.changed }

func (m *Manager) markChanged(uid types.UID) {
	m.mu.Lock()
	m.pending[uid] = true
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Manager) nextChanged() (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.pending {
		delete(m.pending, uid)
		return uid, true
	}
	return "", false
}

// Mount makes or refreshes all volumes of the pod. It is idempotent and cheap if there is nothing to do; call it on
// every sync, for it also renews tokens. The error joins one error per event (Unwrap() []error), each with the text
// of upstream's event FailedMount: `MountVolume.SetUp failed for volume "x" : configmap "y" not found`; those that are a
// plugin.ErrNotAttached have none. While the API server is away volumes that exist stay as they are, and so does what cannot be
// refreshed, of which only the event tells.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod, podIPs []string) error {
	m.objects.Register(pod)
	m.expect(pod)
	volumes := slices.Collect(used(pod))
	errs := make([]error, len(volumes))
	groups := map[string][]int{}
	for i, v := range volumes {
		name := apart(pod, v)
		groups[name] = append(groups[name], i)
	}
	var all sync.WaitGroup
	for _, group := range groups {
		all.Go(func() {
			for _, i := range group {
				errs[i] = m.bring(ctx, pod, volumes[i], podIPs)
			}
		})
	}
	all.Wait()
	return together(volumes, errs)
}

// together joins the errors of a pod's volumes. Upstream waits for all of them, and tells by one event of those whose claims lead
// nowhere, and by one end of the pod of those for which the node has no room.
func together(volumes []*corev1.Volume, errs []error) error {
	var unmounted, unattached, unknown, why []string
	var rest []error
	full := false
	for i, err := range errs {
		if err == nil {
			continue
		}
		unmounted = append(unmounted, volumes[i].Name)
		switch {
		case errors.As(err, new(*plugin.ClaimError)):
			unknown, why = append(unknown, volumes[i].Name), append(why, err.Error())
			continue
		case errors.Is(err, plugin.ErrNotAttached):
			unattached = append(unattached, volumes[i].Name)
			full = full || errors.As(err, new(*plugin.AttachLimitError))
		}
		rest = append(rest, err)
	}
	for _, names := range [][]string{unmounted, unattached, unknown} {
		slices.Sort(names)
	}
	all := fmt.Sprintf("unmounted volumes=%v, unattached volumes=%v, failed to process volumes=%v", unmounted, unattached, unknown)
	if full {
		return &plugin.AttachLimitError{Volumes: all}
	}
	if len(unknown) > 0 {
		rest = append(rest, plugin.Event(fmt.Errorf("Unable to attach or mount volumes: %s: %s", all, strings.Join(why, "; ")))) //nolint:staticcheck // upstream's event
	}
	return errors.Join(rest...)
}

// apart is of which group of its pod's volumes one is. Those of a group are brought one after the other, and the groups all at once: what
// is attached, or asked of a driver or a server, may have to be waited for. Two volumes of one claim are mounted in one place.
func apart(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return "claim " + v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return "claim " + ephemeral.VolumeClaimName(pod, v)
	case v.CSI != nil, v.NFS != nil:
		return "volume " + v.Name
	}
	return ""
}

// bring makes or refreshes one volume of Mount.
func (m *Manager) bring(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, podIPs []string) error {
	p := m.plugin(v)
	if p == nil {
		return fmt.Errorf("volume plugin for %q is not supported by this kubelet", v.Name)
	}
	began := m.config.Clock.Now()
	mnt := m.mount(pod, v, p, podIPs)
	err := os.MkdirAll(filepath.Dir(mnt.Dir), 0o750)
	if err == nil {
		err = p.SetUp(ctx, mnt)
	}
	before := m.mounted(mnt, p, m.config.Clock.Since(began), err)
	if err == nil {
		return nil
	}
	if event, whole := errors.AsType[*plugin.EventError](err); whole {
		err = event
	} else if !errors.As(err, new(*plugin.ClaimError)) {
		err = fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
	}
	switch written := follows(v) && atomicwriter.Written(mnt.Dir); {
	case written && (errors.Is(err, plugin.ErrUnavailable) || errors.Is(err, plugin.ErrPending)):
		klog.FromContext(ctx).Error(err, "Keeping the content of a volume", "pod", klog.KObj(pod), "volume", v.Name)
	case before && (written || v.HostPath != nil):
		m.notRefreshed(ctx, pod, err)
	default:
		return err
	}
	return nil
}

// notRefreshed tells that a volume which this process has brought to a pod stays as it is, although what it shows has been deleted. As
// upstream's, the pod goes on with that, and its containers are killed and started again.
func (m *Manager) notRefreshed(ctx context.Context, pod *corev1.Pod, err error) {
	if m.config.Recorder != nil && ctx.Err() == nil {
		m.config.Recorder.Event(podspec.PodRef(pod), corev1.EventTypeWarning, plugin.FailedMount, err.Error())
	}
}

// used are the volumes that a container of the pod has, mounted or as a device. Others are not brought to the node, as upstream's.
func used(pod *corev1.Pod) iter.Seq[*corev1.Volume] {
	names := sets.New[string]()
	for c := range podspec.Containers(pod) {
		for _, v := range c.VolumeMounts {
			names.Insert(v.Name)
		}
		for _, v := range c.VolumeDevices {
			names.Insert(v.Name)
		}
	}
	return func(yield func(*corev1.Volume) bool) {
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; names.Has(v.Name) && !yield(v) {
				return
			}
		}
	}
}

// Unmount removes all volumes of the pod, mounted or not, and forgets what it referred to. It is idempotent and needs
// no more than the UID, so that it also removes what a pod left that is no longer known. The containers must have
// ended; a volume in use gives an error. What is large is removed in part when ctx ends; another Unmount goes on.
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	m.objects.Unregister(uid)
	m.tokens.Forget(uid)
	m.bundles.Forget(uid)
	m.certs.Forget(uid)
	m.mu.Lock()
	delete(m.pending, uid)
	m.mu.Unlock()
	began := m.config.Clock.Now()
	// Bound paths first, they lie on the volumes; then what drivers have mounted, which they must unmount.
	err := m.remove(ctx, m.subPathDir(uid))
	if err == nil {
		err = m.csi.TearDown(ctx, uid)
	}
	if err == nil {
		err = m.remove(ctx, filepath.Join(m.PodDir(uid), "volumes"))
	}
	m.unmounted(uid, m.config.Clock.Since(began), err)
	if err != nil {
		return fmt.Errorf("removing volumes of pod %s: %w", uid, err)
	}
	return nil
}

// remove deletes a tree. Nothing may be mounted in it then, for what is mounted is not ours to delete. It may take long, and is given up
// when ctx ends.
func (m *Manager) remove(ctx context.Context, dir string) error {
	points, err := m.mounts.Under(dir)
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := m.mounts.Unmount(p); err != nil {
			return err
		}
	}
	if points, err = m.mounts.Under(dir); err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is still mounted", points[0])
	}
	return removal.Tree(ctx, dir)
}

// Pods lists the pods that have a directory, known or not.
func (m *Manager) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.config.RootDir, "pods"))
	if err != nil {
		return nil, fmt.Errorf("listing pods on disk: %w", err)
	}
	var list []types.UID
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, types.UID(e.Name()))
		}
	}
	return list, nil
}

// Images are the ids of the images that pods on this node have volumes of.
func (m *Manager) Images() ([]string, error) {
	return image.InUse(filepath.Join(m.config.RootDir, "pods"))
}

// Usage measures the volumes of a pod that are on the node's disk and go with the pod, by name. The error joins those of single
// volumes, of which what could be counted is told all the same.
func (m *Manager) Usage(ctx context.Context, pod *corev1.Pod) (map[string]diskusage.Usage, error) {
	out := map[string]diskusage.Usage{}
	var errs []error
	for v := range used(pod) {
		p := m.plugin(v)
		if p == nil || !eviction.IsLocal(v) {
			continue
		}
		u, err := diskusage.Of(ctx, p.HostPath(m.mount(pod, v, p, nil)))
		out[v.Name] = u
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// PodDir is the directory of a pod, <RootDir>/pods/<uid>.
func (m *Manager) PodDir(uid types.UID) string {
	return filepath.Join(m.config.RootDir, "pods", string(uid))
}

// Source gives env.Make what the pod refers to; ctx bounds its lookups. The pod must have been given to Mount.
func (m *Manager) Source(ctx context.Context, _ *corev1.Pod) env.Source {
	return source{ctx, m}
}

// Secret returns a secret that a pod given to Mount refers to, for instance for pulling its images.
func (m *Manager) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return m.objects.Secret(ctx, namespace, name)
}

// Token returns a token of the service account of a pod, for an audience.
func (m *Manager) Token(ctx context.Context, pod *corev1.Pod, audience string) (string, error) {
	return m.tokens.Get(ctx, pod, &corev1.ServiceAccountTokenProjection{Audience: audience})
}

func (m *Manager) plugin(v *corev1.Volume) plugin.Plugin {
	for _, p := range m.plugins {
		if p.Supports(v) {
			return p
		}
	}
	return nil
}

func (m *Manager) mount(pod *corev1.Pod, v *corev1.Volume, p plugin.Plugin, podIPs []string) plugin.Mount {
	kind := strings.ReplaceAll(p.Name(), "/", "~")
	return plugin.Mount{Pod: pod, Volume: v, PodIPs: podIPs, Dir: filepath.Join(m.PodDir(pod.UID), "volumes", kind, v.Name)}
}

// Groups are those that the containers of a pod are in for its volumes, beside those of its spec.
func (m *Manager) Groups(pod *corev1.Pod) []int64 {
	var out []int64
	for v := range used(pod) {
		if g, is := m.plugin(v).(plugin.Grouped); is {
			if gid, has := g.Group(m.mount(pod, v, m.plugin(v), nil)); has {
				out = append(out, gid)
			}
		}
	}
	return out
}

func (m *Manager) subPathDir(uid types.UID) string {
	return filepath.Join(m.PodDir(uid), "volume-subpaths")
}

// maxEnvFile bounds what is read of a file of environment variables, which upstream's does not: no process can have as many.
const maxEnvFile = 4 << 20

type source struct {
	ctx context.Context
	m   *Manager
}

func (s source) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return s.m.objects.ConfigMap(s.ctx, namespace, name)
}

func (s source) Secret(namespace, name string) (*corev1.Secret, error) {
	return s.m.objects.Secret(s.ctx, namespace, name)
}

func (s source) NodeAllocatable() corev1.ResourceList { return s.m.config.NodeAllocatable() }

func (s source) EnvFile(pod *corev1.Pod, name, path string) (content []byte, at string, err error) {
	v, p := s.m.find(pod, name)
	if p == nil || !slices.Contains(slices.Collect(used(pod)), v) {
		return nil, "", &env.NoVolumeError{Volume: name}
	}
	dir := p.HostPath(s.m.mount(pod, v, p, nil))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err != nil {
		return nil, "", err
	}
	// Opening anything else, a pipe for one, could block.
	if !info.Mode().IsRegular() {
		return nil, "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	f, err := root.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	content, err = io.ReadAll(io.LimitReader(f, maxEnvFile))
	return content, filepath.Join(dir, path), err
}
