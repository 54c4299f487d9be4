// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command cri answers for Docker those calls of a container runtime by which upstream's tests of a node look at containers and
// images behind the kubelet's back; touch it when such a test makes another call. All other calls are refused.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func main() {
	listen := flag.String("listen", "", "path of the socket")
	docker := flag.String("docker", "/var/run/docker.sock", "path of Docker's socket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, newEngine(*docker)); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, path string, e *engine) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(s, &containers{engine: e})
	cri.RegisterImageServiceServer(s, &images{engine: e})
	go func() {
		<-ctx.Done()
		s.Stop()
	}()
	return s.Serve(l)
}

// engine is Docker's API.
type engine struct{ client *http.Client }

func newEngine(socket string) *engine {
	var d net.Dialer
	return &engine{client: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", socket)
	}}}}
}

// do sends a request and reads the answer into out, if that is not nil.
func (e *engine) do(ctx context.Context, method, path string, query url.Values, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return status.Errorf(codes.NotFound, "%s", bytes.TrimSpace(data))
	case resp.StatusCode >= 400:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(data))
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

// container is what Docker lists of one.
type container struct {
	ID, Image, ImageID, State string
	Created                   int64
	Labels                    map[string]string
}

// The kubelet's labels.
const (
	kindLabel    = "io.kubernetes.docker.type"
	sandboxLabel = "io.kubernetes.sandbox.id"
	nameLabel    = "io.kubernetes.container.name"
	podLabel     = "io.kubernetes.pod."
)

// list finds the containers of a kind with an id, if that is given, and with labels.
func (e *engine) list(ctx context.Context, kind, id string, labels map[string]string) ([]container, error) {
	filters := map[string][]string{"label": {kindLabel + "=" + kind}}
	for k, v := range labels {
		filters["label"] = append(filters["label"], k+"="+v)
	}
	if id != "" {
		filters["id"] = []string{id}
	}
	text, err := json.Marshal(filters)
	if err != nil {
		return nil, err
	}
	var out []container
	return out, e.do(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {string(text)}}, &out)
}

func (e *engine) stop(ctx context.Context, id string, seconds int64) error {
	return e.do(ctx, http.MethodPost, "/containers/"+id+"/stop", url.Values{"t": {fmt.Sprint(seconds)}}, nil)
}

func (e *engine) remove(ctx context.Context, id string) error {
	return e.do(ctx, http.MethodDelete, "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil)
}

// within are the containers of a sandbox.
func (e *engine) within(ctx context.Context, sandbox string) ([]container, error) {
	return e.list(ctx, "container", "", map[string]string{sandboxLabel: sandbox})
}

type containers struct {
	cri.UnimplementedRuntimeServiceServer
	engine *engine
}

func (c *containers) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "docker", RuntimeVersion: "0", RuntimeApiVersion: "v1"}, nil
}

func (c *containers) ListContainers(ctx context.Context, r *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	f := r.GetFilter()
	labels := map[string]string{}
	maps.Copy(labels, f.GetLabelSelector())
	if s := f.GetPodSandboxId(); s != "" {
		labels[sandboxLabel] = s
	}
	all, err := c.engine.list(ctx, "container", f.GetId(), labels)
	if err != nil {
		return nil, err
	}
	out := &cri.ListContainersResponse{}
	for _, a := range all {
		state := stateOf(a.State)
		if want := f.GetState(); want != nil && want.State != state {
			continue
		}
		out.Containers = append(out.Containers, &cri.Container{
			Id: a.ID, PodSandboxId: a.Labels[sandboxLabel], Metadata: &cri.ContainerMetadata{Name: a.Labels[nameLabel]},
			Image: &cri.ImageSpec{Image: a.Image}, ImageRef: a.ImageID, State: state, CreatedAt: a.Created * 1e9, Labels: a.Labels,
		})
	}
	return out, nil
}

func stateOf(s string) cri.ContainerState {
	switch s {
	case "created":
		return cri.ContainerState_CONTAINER_CREATED
	case "running":
		return cri.ContainerState_CONTAINER_RUNNING
	case "exited", "dead":
		return cri.ContainerState_CONTAINER_EXITED
	}
	return cri.ContainerState_CONTAINER_UNKNOWN
}

func (c *containers) ListPodSandbox(ctx context.Context, r *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	f := r.GetFilter()
	all, err := c.engine.list(ctx, "podsandbox", f.GetId(), f.GetLabelSelector())
	if err != nil {
		return nil, err
	}
	out := &cri.ListPodSandboxResponse{}
	for _, a := range all {
		state := cri.PodSandboxState_SANDBOX_NOTREADY
		if a.State == "running" {
			state = cri.PodSandboxState_SANDBOX_READY
		}
		if want := f.GetState(); want != nil && want.State != state {
			continue
		}
		out.Items = append(out.Items, &cri.PodSandbox{
			Id: a.ID, State: state, CreatedAt: a.Created * 1e9, Labels: a.Labels,
			Metadata: &cri.PodSandboxMetadata{Name: a.Labels[podLabel+"name"], Namespace: a.Labels[podLabel+"namespace"], Uid: a.Labels[podLabel+"uid"]},
		})
	}
	return out, nil
}

// StopPodSandbox stops the containers within, too, as the CRI wants it.
func (c *containers) StopPodSandbox(ctx context.Context, r *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	within, err := c.engine.within(ctx, r.PodSandboxId)
	for _, a := range within {
		err = errors.Join(err, c.engine.stop(ctx, a.ID, 0))
	}
	return &cri.StopPodSandboxResponse{}, errors.Join(err, c.engine.stop(ctx, r.PodSandboxId, 0))
}

func (c *containers) RemovePodSandbox(ctx context.Context, r *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	within, err := c.engine.within(ctx, r.PodSandboxId)
	for _, a := range within {
		err = errors.Join(err, c.engine.remove(ctx, a.ID))
	}
	return &cri.RemovePodSandboxResponse{}, errors.Join(err, c.engine.remove(ctx, r.PodSandboxId))
}

func (c *containers) StopContainer(ctx context.Context, r *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	return &cri.StopContainerResponse{}, c.engine.stop(ctx, r.ContainerId, r.Timeout)
}

func (c *containers) RemoveContainer(ctx context.Context, r *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	return &cri.RemoveContainerResponse{}, c.engine.remove(ctx, r.ContainerId)
}

// ContainerStatus tells where a container's log is.
func (c *containers) ContainerStatus(ctx context.Context, r *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	var a struct {
		ID, LogPath string
		State       struct{ Status string }
		Config      struct{ Labels map[string]string }
	}
	if err := c.engine.do(ctx, http.MethodGet, "/containers/"+r.ContainerId+"/json", nil, &a); err != nil {
		return nil, err
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{
		Id: a.ID, LogPath: a.LogPath, State: stateOf(a.State.Status), Labels: a.Config.Labels, Metadata: &cri.ContainerMetadata{Name: a.Config.Labels[nameLabel]},
	}}, nil
}

type images struct {
	cri.UnimplementedImageServiceServer
	engine *engine
}

// image is what Docker says of one.
type image struct {
	ID                    string `json:"Id"`
	RepoTags, RepoDigests []string
	Size                  uint64
}

func (i image) cri() *cri.Image {
	return &cri.Image{Id: i.ID, RepoTags: i.RepoTags, RepoDigests: i.RepoDigests, Size: i.Size}
}

func (i *images) ListImages(ctx context.Context, _ *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	var all []image
	err := i.engine.do(ctx, http.MethodGet, "/images/json", nil, &all)
	out := &cri.ListImagesResponse{}
	for _, a := range all {
		out.Images = append(out.Images, a.cri())
	}
	return out, err
}

func (i *images) ImageStatus(ctx context.Context, r *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	var a image
	switch err := i.engine.do(ctx, http.MethodGet, "/images/"+r.GetImage().GetImage()+"/json", nil, &a); {
	case status.Code(err) == codes.NotFound:
		return &cri.ImageStatusResponse{}, nil
	case err != nil:
		return nil, err
	}
	return &cri.ImageStatusResponse{Image: a.cri()}, nil
}

func (i *images) PullImage(ctx context.Context, r *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	if at := strings.LastIndex(name, ":"); at <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	if err := i.engine.do(ctx, http.MethodPost, "/images/create", url.Values{"fromImage": {name}}, nil); err != nil {
		return nil, err
	}
	var a image
	return &cri.PullImageResponse{ImageRef: name}, i.engine.do(ctx, http.MethodGet, "/images/"+name+"/json", nil, &a)
}

func (i *images) RemoveImage(ctx context.Context, r *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	err := i.engine.do(ctx, http.MethodDelete, "/images/"+r.GetImage().GetImage(), nil, nil)
	if status.Code(err) == codes.NotFound {
		err = nil
	}
	return &cri.RemoveImageResponse{}, err
}

// ImageFsInfo names the place of images, without figures.
func (i *images) ImageFsInfo(ctx context.Context, _ *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	var info struct{ DockerRootDir string }
	err := i.engine.do(ctx, http.MethodGet, "/info", nil, &info)
	fs := []*cri.FilesystemUsage{{FsId: &cri.FilesystemIdentifier{Mountpoint: info.DockerRootDir}, UsedBytes: &cri.UInt64Value{}, InodesUsed: &cri.UInt64Value{}}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs}, err
}
