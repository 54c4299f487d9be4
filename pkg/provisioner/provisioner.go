// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package provisioner makes the volumes of the default storage class: directories on the node that the scheduler chose for
// the first pod, of kind local. The Provisioner is part of the control plane and writes the volumes, by the protocol of all
// external provisioners; a Keeper on each node makes and removes its directories. Touch it when such volumes are to be made,
// or removed, in another way.
//
// The two speak by annotations of the Node, and the keeper is the node's kubelet to the API server: rights to write volumes
// would be rights over Secrets of the whole cluster, and whoever breaks into a node would have them.
//
// The directory is made before the volume is, and removed before it: a crash in between leaves nothing that is not found
// again. Data goes with the claim if the reclaim policy is Delete, and only then.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

// Config of the provisioner.
type Config struct {
	// Client has the rights of the role system:minik8s:local-path.
	Client kubernetes.Interface
	// Recorder writes the events of claims and volumes.
	Recorder record.EventRecorder
}

// Provisioner makes and removes the volumes of all nodes.
type Provisioner struct {
	Config
	informers informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	claims    cache.Indexer
	volumes   cache.Indexer
	queue     workqueue.TypedRateLimitingInterface[string] // names of nodes

	// told is what was last said of a claim or a volume on a node, so that it is said once. Only the worker uses it.
	told map[string]map[types.UID]string
}

// byNode is the index of claims and volumes.
const byNode = "node"

// New returns the provisioner. It talks to nobody yet.
func New(c Config) (*Provisioner, error) {
	p := &Provisioner{
		Config:    c,
		informers: informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTransform(onlyAnnotations)),
		queue:     newQueue(),
		told:      map[string]map[types.UID]string{},
	}
	core := p.informers.Core().V1()
	p.nodes = core.Nodes().Lister()
	if _, err := core.Nodes().Informer().AddEventHandler(onNodes(p.queue.Add)); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	enqueue := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if node := nodeOf(obj); node != "" {
			p.queue.Add(node)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(old, obj any) {
			enqueue(old)
			enqueue(obj)
		},
	}
	for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()} {
		index := cache.Indexers{byNode: func(obj any) ([]string, error) {
			if node := nodeOf(obj); node != "" {
				return []string{node}, nil
			}
			return nil, nil
		}}
		if err := informer.AddIndexers(index); err != nil {
			return nil, fmt.Errorf("indexing claims and volumes: %w", err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching claims and volumes: %w", err)
		}
	}
	p.claims, p.volumes = core.PersistentVolumeClaims().Informer().GetIndexer(), core.PersistentVolumes().Informer().GetIndexer()
	return p, nil
}

// Start works until ctx ends.
func (p *Provisioner) Start(ctx context.Context) error {
	return work(ctx, p.informers, p.queue, p.sync)
}

// sync brings the volumes of a node a step further: claims that wait get the volumes whose directories are there, volumes
// whose directories are gone go too, and the node is asked for what is missing.
func (p *Provisioner) sync(ctx context.Context, name string) error {
	node, err := p.nodes.Get(name)
	if err != nil {
		delete(p.told, name)
		return ignoreNotFound(err)
	}
	s := &pass{
		Provisioner: p, node: node, told: map[types.UID]string{},
		asked: parse(node.Annotations[annotationAsked]), reported: parse(node.Annotations[annotationReported]),
	}
	defer func() { p.told[name] = s.told }()
	claims, err := p.claims.ByIndex(byNode, name)
	if err != nil {
		return err
	}
	volumes, err := p.volumes.ByIndex(byNode, name)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range claims {
		failed = append(failed, s.provision(ctx, c.(*corev1.PersistentVolumeClaim)))
	}
	for _, v := range volumes {
		failed = append(failed, s.remove(ctx, v.(*corev1.PersistentVolume)))
	}
	next, err := ask(s.asked, s.reported, s.waiting, s.released, func(volume string) (bool, error) { return p.keeps(ctx, name, volume) })
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	return errors.Join(append(failed, annotate(ctx, p.Client, node, map[string]string{annotationAsked: next.String()}))...)
}

// keeps tells whether a directory of a node may be that of a volume. That there is no such volume it does not believe the cache. A
// claim whose pod went to another node after all has its volume there: that one needs no directory here.
func (p *Provisioner) keeps(ctx context.Context, node, name string) (bool, error) {
	known, found, err := p.volumes.GetByKey(name)
	if err != nil {
		return false, err
	}
	volume, _ := known.(*corev1.PersistentVolume)
	if !found {
		volume, err = p.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for volume %q: %w", name, err)
	}
	at := nodeOf(volume)
	return at == "" || at == node, nil
}

// pass is one look at a node.
type pass struct {
	*Provisioner
	node *corev1.Node
	// asked and reported are what the node's annotations say.
	asked, reported directories
	told            map[types.UID]string
	// waiting and released are the names of volumes whose directories are to be there, and to be gone.
	waiting, released []string
}

// tell writes an event, unless it was the last of the object.
func (s *pass) tell(obj *metav1.ObjectMeta, event func(text string), text string) {
	s.told[obj.UID] = text
	if s.Provisioner.told[s.node.Name][obj.UID] != text {
		event(text)
	}
}

// provision makes the volume that a claim waits for, if its directory is there. The binder finds it by its reference to the
// claim.
func (s *pass) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := s.Client.StorageV1().StorageClasses().Get(ctx, volumehelper.GetPersistentVolumeClaimClass(claim), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("getting the storage class: %w", err)
	}
	if class.Provisioner != Name {
		return nil
	}
	dir := s.node.Annotations[annotationDirectory]
	reason := refusal(claim)
	if reason == "" && !filepath.IsAbs(dir) {
		reason = fmt.Sprintf("node %q has not said where it keeps volumes", s.node.Name)
	}
	if reason != "" {
		s.provisioningFailed(claim, class, reason)
		return nil
	}
	volume := volumeFor(claim, class, s.node.Name, dir)
	if _, known, err := s.volumes.GetByKey(volume.Name); known || err != nil {
		return err // the binder has yet to see it
	}
	s.waiting = append(s.waiting, volume.Name)
	switch state := s.reported[volume.Name]; {
	case state == "", state == absent, state == present && leaving(volume.Name, s.asked, s.reported):
		s.tell(&claim.ObjectMeta, func(text string) { s.Recorder.Event(claim, corev1.EventTypeNormal, "Provisioning", text) },
			fmt.Sprintf("External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name))
		return nil
	case state != present:
		s.provisioningFailed(claim, class, state)
		return nil
	}
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		s.provisioningFailed(claim, class, err.Error())
		return fmt.Errorf("creating the volume: %w", err)
	}
	s.tell(&claim.ObjectMeta, func(text string) { s.Recorder.Event(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", text) },
		"Successfully provisioned volume "+volume.Name)
	return nil
}

func (s *pass) provisioningFailed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, reason string) {
	s.tell(&claim.ObjectMeta, func(text string) { s.Recorder.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", text) },
		fmt.Sprintf("failed to provision volume with StorageClass %q: %s", class.Name, reason))
}

// remove deletes a volume whose data are to go, if its directory is gone.
func (s *pass) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if !removable(volume) {
		return nil
	}
	failed := func(reason string) {
		s.tell(&volume.ObjectMeta, func(text string) { s.Recorder.Event(volume, corev1.EventTypeWarning, "VolumeFailedDelete", text) }, reason)
	}
	if dir := s.node.Annotations[annotationDirectory]; !volumeName.MatchString(volume.Name) || volume.Spec.Local.Path != filepath.Join(dir, volume.Name) {
		// Nobody's directory but a volume's own is removed, whoever writes volumes.
		failed(fmt.Sprintf("%s is not the directory of this volume in %q", volume.Spec.Local.Path, dir))
		return nil
	}
	s.released = append(s.released, volume.Name)
	switch state := s.reported[volume.Name]; state {
	case "", present:
		return nil
	case absent:
	default:
		failed(state)
		return nil
	}
	volumes := s.Client.CoreV1().PersistentVolumes()
	if left := withoutFinalizer(volume); left != nil {
		if _, err := volumes.Update(ctx, left, metav1.UpdateOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	return ignoreNotFound(volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))}))
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, time.Minute))
}

// syncTimeout is how long one pass may take: calls to the API server end with it.
const syncTimeout = time.Minute

// work syncs what the queue has until ctx ends; what fails is tried again, ever later.
func work(ctx context.Context, shared informers.SharedInformerFactory, queue workqueue.TypedRateLimitingInterface[string], sync func(context.Context, string) error) error {
	shared.StartWithContext(ctx)
	defer shared.Shutdown()
	shared.WaitForCacheSync(ctx.Done())
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		next, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, syncTimeout)
		if err := sync(limited, next); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Seeing to the volumes of a node", "node", next)
			queue.AddRateLimited(next)
		} else {
			queue.Forget(next)
		}
		cancel()
		queue.Done(next)
	}
}

// onNodes calls f with the name of each Node that is new or whose annotations changed: its status does so all the time, and
// says nothing here.
func onNodes(f func(name string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { f(obj.(*corev1.Node).Name) },
		UpdateFunc: func(old, obj any) {
			before, after := old.(*corev1.Node), obj.(*corev1.Node)
			for _, key := range []string{annotationDirectory, annotationAsked, annotationReported} {
				if before.UID != after.UID || before.Annotations[key] != after.Annotations[key] {
					f(after.Name)
					return
				}
			}
		},
	}
}

// onlyAnnotations returns an object without what nobody here reads, for the cache. It is another one, which shares what stays: who
// delivers objects may keep them, as the client of the tests does.
func onlyAnnotations(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Node:
		return &corev1.Node{TypeMeta: o.TypeMeta, ObjectMeta: withoutManagers(o.ObjectMeta)}, nil
	case *corev1.PersistentVolume:
		lean := *o
		lean.ObjectMeta = withoutManagers(o.ObjectMeta)
		return &lean, nil
	case *corev1.PersistentVolumeClaim:
		lean := *o
		lean.ObjectMeta = withoutManagers(o.ObjectMeta)
		return &lean, nil
	}
	return obj, nil
}

func withoutManagers(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.ManagedFields = nil
	return m
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
