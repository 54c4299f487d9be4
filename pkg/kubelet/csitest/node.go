// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csitest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetInfo implements csipb.NodeServer.
func (d *Driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	info := &csipb.NodeGetInfoResponse{NodeId: d.NodeID, MaxVolumesPerNode: d.MaxVolumes}
	if d.Topology != nil {
		info.AccessibleTopology = &csipb.Topology{Segments: d.Topology}
	}
	return info, nil
}

// NodeGetCapabilities implements csipb.NodeServer.
func (d *Driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	out := &csipb.NodeGetCapabilitiesResponse{}
	for _, c := range d.Capabilities {
		out.Capabilities = append(out.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return out, nil
}

// NodeStageVolume implements csipb.NodeServer: it binds the volume's folder to the staging path, which is there.
func (d *Driver) NodeStageVolume(_ context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if r.GetStagingTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "no path or capability")
	}
	dir, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if r.GetVolumeCapability().GetBlock() == nil {
		err = bind(dir, r.GetStagingTargetPath())
	}
	return &csipb.NodeStageVolumeResponse{}, internal(err)
}

// NodeUnstageVolume implements csipb.NodeServer.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id or path")
	}
	return &csipb.NodeUnstageVolumeResponse{}, internal(unbind(r.GetStagingTargetPath()))
}

// NodePublishVolume implements csipb.NodeServer. A volume of a pod's own is made.
func (d *Driver) NodePublishVolume(_ context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if r.GetTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "no path or capability")
	}
	if r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
		if err := os.MkdirAll(filepath.Join(d.Data, r.GetVolumeId()), 0o777); err != nil {
			return nil, internal(err)
		}
	}
	source, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csipb.NodePublishVolumeResponse{}, internal(d.publishDevice(r.GetTargetPath()))
	}
	if slices.Contains(d.Capabilities, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME) && r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] != "true" {
		if source = r.GetStagingTargetPath(); source == "" {
			return nil, status.Error(codes.FailedPrecondition, "the volume is not staged")
		}
	}
	if err := os.MkdirAll(r.GetTargetPath(), 0o750); err != nil {
		return nil, internal(err)
	}
	return &csipb.NodePublishVolumeResponse{}, internal(bind(source, r.GetTargetPath()))
}

func (d *Driver) publishDevice(target string) error {
	if d.Device == "" {
		return errors.New("no device")
	}
	f, err := os.OpenFile(target, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return bind(d.Device, target)
}

// NodeUnpublishVolume implements csipb.NodeServer.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume id or path")
	}
	err := unbind(r.GetTargetPath())
	if err == nil {
		if err = os.Remove(r.GetTargetPath()); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return &csipb.NodeUnpublishVolumeResponse{}, internal(err)
}

// NodeExpandVolume implements csipb.NodeServer.
func (d *Driver) NodeExpandVolume(_ context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	if _, err := d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no path")
	}
	if _, err := os.Stat(r.GetVolumePath()); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// NodeGetVolumeStats implements csipb.NodeServer: it always holds the same.
func (d *Driver) NodeGetVolumeStats(_ context.Context, r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "no path")
	}
	if _, err := d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.GetVolumePath()); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Unit: csipb.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700},
		{Unit: csipb.VolumeUsage_INODES, Total: 100, Used: 30, Available: 70},
	}}, nil
}

// bind mounts source on target, unless something is mounted there.
func bind(source, target string) error {
	mounted, err := isMounted(target)
	if err != nil || mounted {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind", Path: target, Err: err}
	}
	return nil
}

func unbind(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}

// isMounted asks the kernel for the root of a mount, which bind mounts are too.
func isMounted(path string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st); err != nil {
		return false, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

func internal(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
