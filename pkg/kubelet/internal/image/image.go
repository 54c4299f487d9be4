// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package image makes the images of containers present on the node: pull policy, logins, back-off and events. Touch it
// when an image is pulled too often, not at all, or with the wrong login.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/credentialprovider"
	"minik8s.io/minik8s/pkg/kubelet/internal/gate"
)

// Waiting reasons of a container whose image is not there, as upstream names them.
const (
	ReasonBackOff      = "ImagePullBackOff"
	ReasonPull         = "ErrImagePull"
	ReasonNeverPull    = "ErrImageNeverPull"
	ReasonInvalidName  = "InvalidImageName"
	ReasonInspectError = "ImageInspectError"
)

// Error is why an image is not there, in the words of the container's waiting state.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }

const (
	backOffInitial = 10 * time.Second
	backOffMax     = 5 * time.Minute
	// slow is a pull that others wait for no longer: five that hang must not keep a sixth from a registry that answers.
	slow = 5 * time.Minute
	// remind is how often it is told that a pull takes long.
	remind = time.Minute
)

// Config configures a Puller.
type Config struct {
	// Runtime has the images. Required.
	Runtime container.Runtime
	// Recorder takes the events of the pod. Required.
	Recorder record.EventRecorder
	// Secrets gets a pull secret that a pod names; those of its service account are among them by the API server's admission.
	// Default nil: there are none.
	Secrets func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// Credentials are the logins of plugins for a repository, whose error is that of ctx. Default nil: there are none.
	Credentials func(ctx context.Context, pod *corev1.Pod, repository string) ([]credentialprovider.Credential, error)
	// Source has images that no registry may have. Default nil: there is none.
	Source Source
	// Verification says of which images that are there it is asked whether a pod may have them. Default: of those that were pulled
	// here.
	Verification Verification
	// Clock measures back-off. Default: the real clock.
	Clock clock.Clock
	// Records tell what was pulled with which login. Default: those in Dir.
	Records *Records
	// Dir keeps what was pulled. Default: it is known until the process ends.
	Dir string
	// Volumes are the ids of the images that pods have volumes of, which the engine may not know of. Default: there are none.
	Volumes func() ([]string, error)
	// Pulled is told of each image that was pulled: its size in bytes, and how long it took with the wait for its turn. Default nil:
	// nobody is told.
	Pulled func(pod types.UID, size int64, took time.Duration)
	// Pulling is told of each pull for a pod before it waits for its turn. Default nil: nobody is told.
	Pulling func(pod types.UID)
	// Ensured is told of each image that a pod was to have: its policy, and "true", "false" or, if that was not looked for, "unknown" of
	// whether it was here, and of whether it had to be pulled. Default nil: nobody is told.
	Ensured func(policy corev1.PullPolicy, present, required string)
	// Parallel is how many pulls may run at a time. Default 5.
	Parallel int
	// QPS is how many pulls may begin in a second, after Burst at once; the others fail. Default 0: any number.
	QPS   float32
	Burst int
}

// Source opens the archive of an image, by the name by which a pod wants it. fs.ErrNotExist: it has none. Safe for concurrent use.
type Source interface {
	Open(ctx context.Context, image string) (io.ReadCloser, error)
}

// Puller makes images present. Safe for concurrent use.
type Puller struct {
	config  Config
	records *Records
	brought *store
	gate    *gate.Gate
	rate    flowcontrol.PassiveRateLimiter // nil: no limit

	mu       sync.Mutex
	failures map[key]failure
}

// key is what back-off is counted for.
type key struct{ pod, image string }

// failure is the last unsuccessful pull of a key.
type failure struct {
	at      time.Time
	delay   time.Duration
	message string
}

// New returns a Puller. It fails if what was pulled before cannot be read.
func New(config Config) (*Puller, error) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Volumes == nil {
		config.Volumes = func() ([]string, error) { return nil, nil }
	}
	if config.Parallel <= 0 {
		config.Parallel = 5
	}
	r := config.Records
	if r == nil {
		var err error
		if r, err = OpenRecords(config.Dir); err != nil {
			return nil, err
		}
	}
	dir := ""
	if config.Dir != "" {
		dir = filepath.Join(config.Dir, "brought")
	}
	b, err := openStore(dir, config.Clock.Now())
	if err != nil {
		return nil, err
	}
	p := &Puller{config: config, records: r, brought: b, gate: gate.New(config.Parallel, slow), failures: map[key]failure{}}
	if config.QPS > 0 {
		p.rate = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(config.QPS, config.Burst, config.Clock)
	}
	return p, nil
}

// Wanted is an image that a pod is to have.
type Wanted struct {
	// Image is the reference as it is written in the pod, Policy when to pull it: by default what the reference says.
	Image  string
	Policy corev1.PullPolicy
	// Of is what events about it are about: the container, or the pod if it is a volume.
	Of *corev1.ObjectReference
}

// Ensure returns an image of a pod, after pulling it if its policy says so. Errors are *Error, or ctx.Err().
func (p *Puller) Ensure(ctx context.Context, pod *corev1.Pod, w Wanted) (*container.Image, error) {
	policy, here, required := w.Policy, "unknown", "unknown"
	if p.config.Ensured != nil {
		defer func() { p.config.Ensured(policy, here, required) }()
	}
	named, err := reference.ParseNormalizedNamed(w.Image)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", w.Image, w.Image, err)
		p.config.Recorder.Event(w.Of, corev1.EventTypeWarning, "InspectFailed", message)
		return nil, &Error{ReasonInvalidName, message}
	}
	local, err := p.config.Runtime.Image(ctx, w.Image)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, container.ErrNotFound):
		local = nil
	case err != nil:
		message := fmt.Sprintf("Failed to inspect image %q: %v", w.Image, err)
		p.config.Recorder.Event(w.Of, corev1.EventTypeWarning, "InspectFailed", message)
		return nil, &Error{ReasonInspectError, message}
	}
	if policy == "" {
		policy = defaultPolicy(named)
	}
	if policy != corev1.PullAlways {
		here = strconv.FormatBool(local != nil)
	}
	usable := func(logins []login) bool {
		return local != nil && policy != corev1.PullAlways && p.records.allows(p.config.Verification, w.Image, local, logins)
	}
	present := func() (*container.Image, error) {
		required = "false"
		p.config.Recorder.Event(w.Of, corev1.EventTypeNormal, "Pulled",
			fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", w.Image))
		p.brought.use(local.ID, p.config.Clock.Now())
		return local, nil
	}
	if usable(nil) {
		return present() // without a look at any secret
	}
	k := key{pod: string(pod.UID), image: w.Image}
	if policy == corev1.PullAlways || local == nil && policy != corev1.PullNever {
		required = "true"
		if err := p.waits(w, k); err != nil {
			return nil, err // whatever logins there are
		}
	}
	logins, missing, err := p.logins(ctx, pod, w.Image)
	if err != nil {
		return nil, err
	}
	if usable(logins) {
		return present()
	}
	if local != nil || policy != corev1.PullNever {
		required = "true"
	}
	if policy == corev1.PullNever {
		// Nor is it told whether an image is here that the pod may not have.
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", w.Image)
		p.config.Recorder.Event(w.Of, corev1.EventTypeWarning, "ErrImageNeverPull", message)
		return nil, &Error{ReasonNeverPull, message}
	}
	if err := p.waits(w, k); err != nil {
		return nil, err
	}
	if missing != "" {
		p.config.Recorder.Event(w.Of, corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", missing))
	}
	w.Policy = policy
	return p.pull(ctx, pod, w, k, logins)
}

// Free returns an image that is here and that any pod may have, whatever its logins: container.ErrNotFound if there is none.
func (p *Puller) Free(ctx context.Context, image string) (*container.Image, error) {
	local, err := p.config.Runtime.Image(ctx, image)
	if err == nil && !p.records.allows(p.config.Verification, image, local, nil) {
		return nil, fmt.Errorf("image %q wants a login: %w", image, container.ErrNotFound)
	}
	return local, err
}

// waits says that a pull must still wait, after one that has failed.
func (p *Puller) waits(w Wanted, k key) error {
	last, ok := p.backingOff(k)
	if !ok {
		return nil
	}
	message := fmt.Sprintf("Back-off pulling image %q", w.Image)
	p.config.Recorder.Event(w.Of, corev1.EventTypeNormal, "BackOff", message)
	return &Error{ReasonBackOff, fmt.Sprintf("%s: %s: %s", message, ReasonPull, last)}
}

// defaultPolicy is what the API server's defaults say, for pods that did not come from it.
func defaultPolicy(named reference.Named) corev1.PullPolicy {
	if _, ok := named.(reference.Digested); ok {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func (p *Puller) pull(ctx context.Context, pod *corev1.Pod, w Wanted, k key, logins []login) (*container.Image, error) {
	began := p.config.Clock.Now()
	if p.config.Pulling != nil {
		p.config.Pulling(pod.UID)
	}
	p.config.Recorder.Event(w.Of, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", w.Image))
	var pulling time.Time
	var img *container.Image
	var before map[string]bool
	defer p.remind(w)()
	err := p.gate.Do(ctx, func() (err error) {
		if before, err = p.present(ctx); err != nil {
			before = nil // what comes may have been there
		}
		pulling = p.config.Clock.Now()
		img, err = p.try(ctx, w, logins)
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to pull image", "image", w.Image, "pod", klog.KObj(pod), "err", err)
		p.config.Recorder.Event(w.Of, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", w.Image, err))
		p.failed(k, err.Error())
		if errors.Is(err, container.ErrInvalidImageName) {
			return nil, &Error{ReasonInvalidName, err.Error()}
		}
		return nil, &Error{ReasonPull, err.Error()}
	}
	p.succeeded(k)
	if err := p.brought.note(img.ID, w.Image, before != nil && !before[img.ID], p.config.Clock.Now()); err != nil {
		klog.FromContext(ctx).V(2).Info("An image will not be removed when it is not used", "image", w.Image, "err", err)
	}
	if err := p.records.prune(func() (map[string]bool, error) { return p.present(ctx) }); err != nil {
		klog.FromContext(ctx).V(2).Info("Forgetting pulls of removed images failed", "err", err)
	}
	now := p.config.Clock.Now()
	if p.config.Pulled != nil {
		p.config.Pulled(pod.UID, img.SizeBytes, now.Sub(began))
	}
	p.config.Recorder.Event(w.Of, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.", w.Image,
			now.Sub(pulling).Truncate(time.Millisecond), now.Sub(began).Truncate(time.Millisecond), img.SizeBytes))
	return img, nil
}

// remind tells about a pull, in turn or waiting for it, that it takes long, until done is called.
func (p *Puller) remind(w Wanted) (done func()) {
	over, left := make(chan struct{}), make(chan struct{})
	t := p.config.Clock.NewTimer(remind)
	go func() {
		defer close(left)
		defer t.Stop()
		for n := time.Duration(1); ; n++ {
			select {
			case <-over:
				return
			case <-t.C():
				p.config.Recorder.Event(w.Of, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q still in progress after %v", w.Image, n*remind))
				t.Reset(remind)
			}
		}
	}()
	return func() { close(over); <-left }
}

// errRate is upstream's.
var errRate = errors.New("pull QPS exceeded")

// present are the ids of the images that the node has.
func (p *Puller) present(ctx context.Context) (map[string]bool, error) {
	list, err := p.config.Runtime.Images(ctx)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]bool, len(list))
	for _, i := range list {
		ids[i.ID] = true
	}
	return ids, nil
}

// fetch has the image from the source, nil if that has none. By a digest a registry knows it.
func (p *Puller) fetch(ctx context.Context, w Wanted) (*container.Image, error) {
	if named, err := reference.ParseNormalizedNamed(w.Image); err != nil || p.config.Source == nil || w.Policy != corev1.PullIfNotPresent {
		return nil, err
	} else if _, digested := named.(reference.Digested); digested {
		return nil, nil
	}
	archive, err := p.config.Source.Open(ctx, w.Image)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	if err := p.config.Runtime.LoadImage(ctx, archive); err != nil {
		return nil, err
	}
	return p.config.Runtime.Image(ctx, w.Image)
}

// try has an image from the source, or pulls it with one login after the other until one succeeds, and notes which.
func (p *Puller) try(ctx context.Context, w Wanted, logins []login) (img *container.Image, err error) {
	image := w.Image
	if p.rate != nil && !p.rate.TryAccept() {
		return nil, errRate
	}
	if err := p.records.begin(image); err != nil {
		return nil, err
	}
	var with *login
	defer func() {
		id := ""
		if img != nil && err == nil {
			id = img.ID
		}
		if nerr := p.records.end(image, id, with, metav1.NewTime(p.config.Clock.Now())); nerr != nil {
			img, err = nil, errors.Join(err, nerr)
		}
	}()
	img, unfetched := p.fetch(ctx, w)
	if img != nil || ctx.Err() != nil {
		return img, unfetched
	}
	if unfetched != nil {
		klog.FromContext(ctx).Info("An image is looked for in registries only", "image", image, "err", unfetched)
	}
	if len(logins) == 0 {
		return p.config.Runtime.PullImage(ctx, image, nil)
	}
	var errs []error
	for i := range logins {
		img, err := p.config.Runtime.PullImage(ctx, image, &logins[i].auth)
		if err == nil || ctx.Err() != nil {
			with = &logins[i]
			return img, err
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, errors.Join(errs...)
}

// backingOff tells whether a pull must still wait, and what made the last one fail.
func (p *Puller) backingOff(k key) (message string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.failures[k]
	return f.message, ok && p.config.Clock.Since(f.at) < f.delay
}

// failed notes a failure. The delay doubles with each, and begins anew when the last one is long past.
func (p *Puller) failed(k key, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Clock.Now()
	for other, f := range p.failures { // also what belongs to pods that are gone
		if now.Sub(f.at) > 2*backOffMax {
			delete(p.failures, other)
		}
	}
	delay := backOffInitial
	if f, ok := p.failures[k]; ok {
		delay = min(2*f.delay, backOffMax)
	}
	p.failures[k] = failure{at: now, delay: delay, message: message}
}

func (p *Puller) succeeded(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failures, k)
}
