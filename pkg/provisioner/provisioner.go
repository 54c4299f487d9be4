// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package provisioner makes the volumes of the default storage class: directories on the node that the scheduler chose for
// the first pod, of kind local. It runs on every node and sees to the claims and volumes of that node only, by the
// protocol of all external provisioners. Touch it when such volumes are to be made, or removed, in another way.
//
// The directory is made before the volume is, and removed before it: a crash in between leaves nothing that is not found
// again. Data goes with the claim if the reclaim policy is Delete, and only then.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

// Config of the provisioner of one node.
type Config struct {
	// NodeName is the node that it runs on.
	NodeName string
	// Dir holds the directories of volumes. It is made when the first one is. Absolute.
	Dir string
	// Client has the rights of the role system:persistent-volume-provisioner.
	Client kubernetes.Interface
	// Recorder writes the events of claims and volumes.
	Recorder record.EventRecorder
}

// Provisioner makes and removes the volumes of one node.
type Provisioner struct {
	Config
	informers informers.SharedInformerFactory
	claims    corelisters.PersistentVolumeClaimLister
	volumes   corelisters.PersistentVolumeLister
	queue     workqueue.TypedRateLimitingInterface[item]
}

// item is a claim, or a volume if it has no namespace.
type item struct{ namespace, name string }

// New returns the provisioner of a node. It talks to nobody yet.
func New(c Config) (*Provisioner, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("directory %q is not absolute", c.Dir)
	}
	p := &Provisioner{
		Config:    c,
		informers: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(strip)),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[item](100*time.Millisecond, time.Minute)),
	}
	core := p.informers.Core().V1()
	p.claims, p.volumes = core.PersistentVolumeClaims().Lister(), core.PersistentVolumes().Lister()
	enqueue := func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			p.queue.Add(item{o.GetNamespace(), o.GetName()})
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }}
	for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching claims and volumes: %w", err)
		}
	}
	return p, nil
}

// strip drops what nobody here reads from an object that the cache keeps.
func strip(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// Start works until ctx ends.
func (p *Provisioner) Start(ctx context.Context) error {
	p.informers.StartWithContext(ctx)
	defer p.informers.Shutdown()
	p.informers.WaitForCacheSync(ctx.Done())
	stop := context.AfterFunc(ctx, p.queue.ShutDown)
	defer stop()
	for {
		next, shutdown := p.queue.Get()
		if shutdown {
			return nil
		}
		if err := p.sync(ctx, next); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Provisioning", "namespace", next.namespace, "name", next.name)
			p.queue.AddRateLimited(next)
		} else {
			p.queue.Forget(next)
		}
		p.queue.Done(next)
	}
}

func (p *Provisioner) sync(ctx context.Context, i item) error {
	if i.namespace == "" {
		volume, err := p.volumes.Get(i.name)
		if err != nil || !removable(volume, p.NodeName) {
			return ignoreNotFound(err)
		}
		return p.remove(ctx, volume)
	}
	claim, err := p.claims.PersistentVolumeClaims(i.namespace).Get(i.name)
	if err != nil || !wanted(claim, p.NodeName) {
		return ignoreNotFound(err)
	}
	return p.provision(ctx, claim)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// provision makes the volume that a claim waits for. The binder finds it by its reference to the claim.
func (p *Provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := p.Client.StorageV1().StorageClasses().Get(ctx, volumehelper.GetPersistentVolumeClaimClass(claim), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("getting the storage class: %w", err)
	}
	if class.Provisioner != Name {
		return nil
	}
	if reason := refusal(claim); reason != "" {
		p.failed(claim, class, errors.New(reason))
		return nil
	}
	volume := volumeFor(claim, class, p.NodeName, p.Dir)
	if _, err := p.volumes.Get(volume.Name); err == nil {
		return nil // the binder has yet to see it
	}
	p.Recorder.Eventf(claim, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name)
	if err := makeDir(volume.Spec.Local.Path); err != nil {
		p.failed(claim, class, err)
		return fmt.Errorf("making the directory: %w", err)
	}
	if _, err := p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		p.failed(claim, class, err)
		return fmt.Errorf("creating the volume: %w", err)
	}
	p.Recorder.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", volume.Name)
	return nil
}

func (p *Provisioner) failed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, err error) {
	p.Recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", class.Name, err)
}

// makeDir makes a directory that every user may write to, for nobody knows which one the pod has.
func makeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(path, 0o777)
}

// remove deletes the data of a volume and then the volume. It repeats what a killed process has left undone.
func (p *Provisioner) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if err := p.removeDir(volume.Spec.Local.Path); err != nil {
		p.Recorder.Event(volume, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
		return fmt.Errorf("removing the directory: %w", err)
	}
	volumes := p.Client.CoreV1().PersistentVolumes()
	if left := withoutFinalizer(volume); left != nil {
		if _, err := volumes.Update(ctx, left, metav1.UpdateOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	return ignoreNotFound(volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))}))
}

// removeDir deletes a directory of a volume. What is not below Dir is not deleted whoever asks for it, and what somebody has
// mounted there is not deleted either.
func (p *Provisioner) removeDir(path string) error {
	if filepath.Dir(path) != p.Dir || filepath.Clean(path) != path {
		return fmt.Errorf("%s is not a volume in %s", path, p.Dir)
	}
	mounted, err := mountedBelow(path)
	if err != nil {
		return err
	}
	if mounted != "" {
		return fmt.Errorf("%s is a mount point", mounted)
	}
	return os.RemoveAll(path)
}

// mountedBelow is a mount point at path or below it, "" if there is none.
func mountedBelow(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("reading mounts: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		// The kernel writes spaces in octal; the names of volumes have none, the path may.
		if len(fields) > 4 && strings.HasPrefix(strings.ReplaceAll(fields[4], `\040`, " ")+"/", path+"/") {
			return fields[4], nil
		}
	}
	return "", nil
}
