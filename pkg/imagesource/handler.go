// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagesource lets nodes on other machines have the images that were built on the cluster's machine, so that there need be no
// registry: the API server hands them out, and a kubelet asks before it pulls. Touch it for who may have which image.
package imagesource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apiserver/authorization/node"
)

// Path is where the API server serves images: ?image=NAME, by the name by which a pod wants it.
const Path = "/minik8s/images"

// completed is the trailer of an answer that is whole.
const completed = "Minik8s-Completed"

// parallel is how many images are read at a time: each takes a good part of the disk.
const parallel = 4

// Images are those of the cluster's machine. Safe for concurrent use.
type Images interface {
	// SaveImage writes an image that any pod of that machine may have, as an archive. fs.ErrNotExist: there is none, and nothing is
	// written.
	SaveImage(ctx context.Context, image string, w io.Writer) error
}

// Handler serves images to nodes that have a pod which wants them.
type Handler struct {
	images func() Images
	client kubernetes.Interface
	turns  chan struct{}
	stall  time.Duration // how long a node may read nothing of an image: it holds a turn of others
}

// NewHandler returns a Handler. images returns nil while there are none, and client may list pods.
func NewHandler(images func() Images, client kubernetes.Interface) *Handler {
	return &Handler{images: images, client: client, turns: make(chan struct{}, parallel), stall: time.Minute}
}

// ServeHTTP implements http.Handler. An answer that was cut off lacks its trailer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	image := r.URL.Query().Get("image")
	user, _ := request.UserFrom(r.Context())
	name, isNode := node.Identify(user)
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "images can only be got", http.StatusMethodNotAllowed)
		return
	case !isNode:
		http.Error(w, "images are for nodes", http.StatusForbidden)
		return
	case image == "":
		http.Error(w, "which ?image= is not said", http.StatusBadRequest)
		return
	}
	wanted, err := h.wanted(r.Context(), name, image)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if !wanted {
		http.Error(w, fmt.Sprintf("no pod of node %q wants image %q", name, image), http.StatusForbidden)
		return
	}
	images := h.images()
	if images == nil {
		http.Error(w, "there are no images on the cluster's machine", http.StatusNotFound)
		return
	}
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-r.Context().Done():
		return
	}
	h.send(w, r, images, image)
}

func (h *Handler) send(w http.ResponseWriter, r *http.Request, images Images, image string) {
	w.Header().Set("Trailer", completed)
	w.Header().Set("Content-Type", "application/x-tar")
	body := &begun{Writer: w, stall: h.stall, deadline: http.NewResponseController(w).SetWriteDeadline}
	err := images.SaveImage(r.Context(), image, body)
	switch {
	case err == nil:
		w.Header().Set(completed, "true")
	case body.yes:
		klog.FromContext(r.Context()).Error(err, "Handing out an image broke off", "image", image)
	default:
		code := http.StatusServiceUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			code = http.StatusNotFound
		}
		w.Header().Del("Trailer")
		http.Error(w, err.Error(), code)
	}
}

// begun notes whether something was written. Each write has a deadline.
type begun struct {
	io.Writer
	stall    time.Duration
	deadline func(time.Time) error
	yes      bool
}

func (b *begun) Write(p []byte) (int, error) {
	if err := b.deadline(time.Now().Add(b.stall)); err != nil {
		return 0, fmt.Errorf("setting a deadline: %w", err)
	}
	b.yes = true
	return b.Writer.Write(p)
}

// wanted says whether a node was given a pod with an image. Mirror pods do not count, which a node makes itself.
func (h *Handler) wanted(ctx context.Context, nodeName, image string) (bool, error) {
	pods, err := h.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", nodeName).String(), ResourceVersion: "0",
	})
	if err != nil {
		return false, fmt.Errorf("listing the pods of node %q: %w", nodeName, err)
	}
	return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		return !mirror && slices.Contains(imagesOf(&p.Spec), image)
	}), nil
}

// imagesOf are the images of a pod's containers and volumes.
func imagesOf(s *corev1.PodSpec) []string {
	var all []string
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		all = append(all, c.Image)
	}
	for i := range s.EphemeralContainers {
		all = append(all, s.EphemeralContainers[i].Image)
	}
	for i := range s.Volumes {
		if v := s.Volumes[i].Image; v != nil {
			all = append(all, v.Reference)
		}
	}
	return all
}
