// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/fsgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// lookPatience is how long a driver may take that has something to do about a volume which a pod has. Who has not answered by then is asked
// again at the next look.
const lookPatience = 30 * time.Second

// SetUpClaim brings the persistent volume of a claim to the pod, and returns where it is. It is called on every sync of the pod.
func (c *CSI) SetUpClaim(ctx context.Context, m plugin.Mount, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (string, error) {
	return c.setUp(ctx, m, ofPersistent(m.Volume, pv, claim))
}

func (c *CSI) setUp(ctx context.Context, m plugin.Mount, v volume) (string, error) {
	target := c.layout.target(m.Pod.UID, v.name, v.block)
	s := setup{CSI: c, mount: m, volume: v, target: target}
	var err error
	if s.driver, err = c.Registrar.find(v.driver); err != nil {
		if c.Holds(m.Pod.UID, target) {
			return target, nil // it registers anew after the kubelet; until then the pod goes on with what it has
		}
		return "", s.failed(plugin.SetUp, fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: %w", err))
	}
	if s.info, err = c.info(ctx, v.driver); err != nil {
		return "", s.failed(plugin.SetUp, err)
	}
	if err := s.supported(); err != nil {
		return "", s.failed(plugin.SetUp, err)
	}
	alone := slices.Contains(v.accessModes, corev1.ReadWriteOncePod)
	if s.record, err = c.records.begin(s.newRecord(), alone); err != nil {
		return "", s.failed(plugin.SetUp, err)
	}
	if c.holds(s.record) {
		s.look(ctx)
		return target, nil
	}
	if s.record.Attachment != "" && v.attaches(s.info) {
		s.cfg.InUse()
		if s.context, err = s.attached(ctx, &s.volume); err != nil {
			return "", s.failed(plugin.WaitForAttach, err)
		}
	}
	release, err := s.begin(ctx)
	if err != nil {
		return "", s.failed(plugin.SetUp, err)
	}
	defer release()
	return target, s.first(ctx)
}

// setup is the work at one volume of a pod.
type setup struct {
	*CSI
	mount   plugin.Mount
	volume  volume
	target  string
	driver  driver
	can     capabilities
	info    *storagev1.CSIDriver // nil if the driver has none
	record  record
	context map[string]string // of the attachment
}

func (s *setup) newRecord() record {
	v := &s.volume
	r := record{Name: v.name, Handle: v.handle, Driver: v.driver, Node: s.cfg.NodeName, Lifecycle: v.lifecycle, pod: s.mount.Pod.UID}
	if v.block {
		r.Mode = corev1.PersistentVolumeBlock
	}
	if v.attaches(s.info) {
		r.Attachment = attachmentName(v.handle, v.driver, s.cfg.NodeName)
	}
	return r
}

// failed puts an error into the words of upstream's events.
func (s *setup) failed(what string, err error) error {
	return plugin.Failed(s.volume.block, what, s.volume.name, err)
}

// supported says why the driver does not provide volumes of this lifecycle.
func (s *setup) supported() error {
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	if s.info != nil && len(s.info.Spec.VolumeLifecycleModes) > 0 {
		modes = s.info.Spec.VolumeLifecycleModes
	}
	if slices.Contains(modes, s.volume.lifecycle) {
		return nil
	}
	return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to check volume lifecycle mode: volume mode %q not supported by driver %s (only supports %q)",
		s.volume.lifecycle, s.volume.driver, modes)
}

// begin waits until nobody else works at the volume, and asks the driver what it can do.
func (s *setup) begin(ctx context.Context) (release func(), err error) {
	if release, err = s.busy.take(ctx, string(uniqueName(s.volume.driver, s.volume.handle))); err != nil {
		return nil, err
	}
	if s.can, err = capabilitiesOf(ctx, s.driver); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s *setup) republishes() bool {
	return s.info != nil && ptr.Deref(s.info.Spec.RequiresRepublish, false)
}

// first stages and publishes the volume.
func (s *setup) first(ctx context.Context) error {
	if err := s.stage(ctx); err != nil {
		return s.failed(plugin.MountDevice, err)
	}
	if err := s.publish(ctx); err != nil {
		return s.failed(s.operation(), err)
	}
	if err := s.give(ctx); err != nil {
		return s.failed(s.operation(), err)
	}
	size := s.volume.has()
	grown, err := s.expand(ctx, size)
	if err != nil {
		return s.failed(plugin.Expand, err)
	}
	s.record.Published = true
	if err := s.records.set(s.record); err != nil {
		return s.failed(s.operation(), err)
	}
	s.noteSeen(s.record.key(), sight{s.cfg.Clock.Now(), grown})
	return nil
}

// look begins what a volume may need that the pod has: new tokens, and a file system as large as the volume has become. The driver is asked
// only then, and the pod goes on with what it has meanwhile, and whatever comes of it, as upstream's: one whose driver is slow, or away for
// a while, has its containers killed and started again all the same.
func (s *setup) look(ctx context.Context) {
	have, known := s.sightOf(s.record.key())
	if !known {
		have.size = s.volume.has()
	}
	s.noteSeen(s.record.key(), sight{s.cfg.Clock.Now(), have.size})
	if s.republishes() || s.volume.outgrows(have.size) {
		s.inBackground(ctx, s.record.key(), func(ctx context.Context) { s.renew(ctx, have.size) })
	}
}

// renew does it, tells what has failed, and notes the size that the file system has.
func (s *setup) renew(ctx context.Context, size resource.Quantity) {
	short, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	release, err := s.begin(short)
	if err == nil {
		defer release()
		if s.republishes() {
			err = s.publishAgain(short)
		}
	}
	if err != nil && s.republishes() {
		if ctx.Err() == nil && !errors.Is(err, plugin.ErrUnavailable) {
			s.tellPod(corev1.EventTypeWarning, plugin.FailedMount, s.failed(s.operation(), err).Error())
		}
		return
	}
	if err == nil {
		if size, err = s.expand(ctx, size); err == nil {
			s.noteSeen(s.record.key(), sight{s.cfg.Clock.Now(), size})
		}
	}
	if err != nil && ctx.Err() == nil {
		s.tell(corev1.EventTypeWarning, "VolumeResizeFailed", fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %v", s.volume.name, err))
	}
}

// publishAgain publishes a volume that the pod has, with what is known of its attachment now.
func (s *setup) publishAgain(ctx context.Context) (err error) {
	if s.record.Attachment != "" && s.volume.attaches(s.info) {
		if s.context, _, err = s.attachment(ctx, &s.volume); err != nil {
			return err
		}
	}
	return s.publish(ctx)
}

func (s *setup) operation() string {
	if s.volume.block {
		return plugin.MapPodDevice
	}
	return plugin.SetUp
}

// stage brings the volume to the node for all of its pods, if the driver does that apart.
func (s *setup) stage(ctx context.Context) error {
	dir := s.layout.staging(s.record)
	s.mu.Lock()
	done := s.staged[dir]
	s.mu.Unlock()
	if done || s.volume.lifecycle == storagev1.VolumeLifecycleEphemeral || !s.can[csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		return nil
	}
	secrets, err := s.secret(ctx, s.volume.stageSecret)
	if err != nil {
		return err
	}
	begun := s.isStaged(s.record)
	if err := s.makeStaging(dir); err != nil {
		return err
	}
	_, err = call(ctx, s.driver, func(ctx context.Context, c csipb.NodeClient) (*csipb.NodeStageVolumeResponse, error) {
		return c.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
			VolumeId: s.volume.handle, PublishContext: s.context, StagingTargetPath: s.seenBy(s.driver, dir),
			VolumeCapability: s.capability(), Secrets: secrets, VolumeContext: s.volume.attributes,
		})
	})
	if err != nil {
		if isFinal(err) && !begun { // nothing is to be undone
			err = errors.Join(err, s.removeStaging(s.record))
		}
		return err
	}
	s.mu.Lock()
	s.staged[dir] = true
	s.mu.Unlock()
	return nil
}

func (s *setup) makeStaging(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("making the staging directory: %w", err)
	}
	if s.volume.block {
		return nil
	}
	return writeJSON(filepath.Join(filepath.Dir(dir), recordFile), map[string]string{"driverName": s.volume.driver, "volumeHandle": s.volume.handle})
}

func (s *setup) capability() *csipb.VolumeCapability {
	return s.volume.capability(s.can, mountGroup(s.mount, s.can))
}

// stagedAt is where a driver finds the staged volume, "" if it is not staged.
func (c *CSI) stagedAt(d driver, r record) string {
	if !c.isStaged(r) {
		return ""
	}
	return c.seenBy(d, c.layout.staging(r))
}

// isStaged says whether the volume has been staged, or that has begun. Where that cannot be seen it may have been.
func (c *CSI) isStaged(r record) bool {
	_, err := os.Lstat(c.layout.staging(r))
	return !errors.Is(err, fs.ErrNotExist)
}

// publish brings the volume to the pod.
func (s *setup) publish(ctx context.Context) error {
	attributes, secrets, err := s.publishInputs(ctx, s.mount.Pod, &s.volume, s.info)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.target), 0o750); err != nil {
		return fmt.Errorf("making the parent of the target: %w", err)
	}
	begun := s.record.Publishing
	if s.record.Publishing = true; !begun {
		if err := s.records.set(s.record); err != nil {
			return err
		}
	}
	_, err = call(ctx, s.driver, func(ctx context.Context, c csipb.NodeClient) (*csipb.NodePublishVolumeResponse, error) {
		return c.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
			VolumeId: s.volume.handle, PublishContext: s.context, StagingTargetPath: s.stagedAt(s.driver, s.record), TargetPath: s.seenBy(s.driver, s.target),
			VolumeCapability: s.capability(), Readonly: s.volume.readOnly, Secrets: secrets, VolumeContext: attributes,
		})
	})
	if err == nil {
		return s.there()
	}
	if isFinal(err) && !begun {
		s.record.Publishing = false
		err = errors.Join(err, removePoint(s.target), s.records.set(s.record))
	}
	return err
}

// there verifies that the driver has put something where it said.
func (s *setup) there() error {
	info, err := os.Stat(s.target)
	switch {
	case err != nil:
		return fmt.Errorf("kubernetes.io/csi: the driver has published nothing at the target path: %w", err)
	case s.volume.block && info.Mode().Type() != fs.ModeDevice:
		return fmt.Errorf("kubernetes.io/csi: the driver has published no block device at %s", s.target)
	case !s.volume.block && !info.IsDir():
		return fmt.Errorf("kubernetes.io/csi: the driver has published no directory at %s", s.target)
	}
	return nil
}

// give applies fsGroup where the driver has not.
func (s *setup) give(ctx context.Context) error {
	if mountGroup(s.mount, s.can) != "" || !s.volume.givesGroup(s.info) {
		return nil
	}
	slow := func(message string) { s.tellPod(corev1.EventTypeWarning, fsgroup.Slow, message) }
	if err := fsgroup.Apply(ctx, s.mount, s.target, slow); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", s.volume.handle, err)
	}
	return nil
}

// tell tells of the pod and of its claim.
func (s *setup) tell(kind, reason, message string) {
	s.tellPod(kind, reason, message)
	if s.cfg.Recorder != nil && s.volume.claim != nil {
		s.cfg.Recorder.Event(s.volume.claim, kind, reason, message)
	}
}

func (s *setup) tellPod(kind, reason, message string) {
	if s.cfg.Recorder == nil {
		return
	}
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.mount.Pod.Namespace, Name: s.mount.Pod.Name, UID: s.mount.Pod.UID}
	s.cfg.Recorder.Event(ref, kind, reason, message)
}
