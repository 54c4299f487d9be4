// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csitest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sizeFile has the size of a volume, beside its folder.
const sizeFile = ".size"

// ControllerGetCapabilities implements csipb.ControllerServer.
func (d *Driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	return &csipb.ControllerGetCapabilitiesResponse{Capabilities: []*csipb.ControllerServiceCapability{{Type: &csipb.ControllerServiceCapability_Rpc{
		Rpc: &csipb.ControllerServiceCapability_RPC{Type: csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}}}}, nil
}

// CreateVolume implements csipb.ControllerServer. The name is the id.
func (d *Driver) CreateVolume(_ context.Context, r *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	name := r.GetName()
	if name == "" || filepath.Base(name) != name || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no name or capabilities")
	}
	size := max(r.GetCapacityRange().GetRequiredBytes(), 1<<20)
	if limit := r.GetCapacityRange().GetLimitBytes(); limit > 0 && limit < size {
		return nil, status.Error(codes.OutOfRange, "there is no such small volume")
	}
	dir := filepath.Join(d.Data, name)
	if data, err := os.ReadFile(dir + sizeFile); err == nil {
		if have, err := strconv.ParseInt(string(data), 10, 64); err != nil || have != size {
			return nil, status.Error(codes.AlreadyExists, "it is there with another size")
		}
	} else if err := os.WriteFile(dir+sizeFile, []byte(strconv.FormatInt(size, 10)), 0o600); err != nil {
		return nil, internal(err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, internal(err)
	}
	return &csipb.CreateVolumeResponse{Volume: &csipb.Volume{VolumeId: name, CapacityBytes: size, VolumeContext: r.GetParameters()}}, nil
}

// DeleteVolume implements csipb.ControllerServer.
func (d *Driver) DeleteVolume(_ context.Context, r *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	dir, err := d.volume(r.GetVolumeId())
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		return &csipb.DeleteVolumeResponse{}, nil
	default:
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, internal(err)
	}
	return &csipb.DeleteVolumeResponse{}, internal(os.RemoveAll(dir + sizeFile))
}

// ValidateVolumeCapabilities implements csipb.ControllerServer: a directory can be whatever is asked for.
func (d *Driver) ValidateVolumeCapabilities(
	_ context.Context, r *csipb.ValidateVolumeCapabilitiesRequest,
) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := d.volume(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no capabilities")
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}
