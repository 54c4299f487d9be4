// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"github.com/moby/sys/atomicwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Records remember which images were pulled here and with which logins, so that a pod gets none from the node's store that the
// registry would not give it (KEP-2535). The files are of upstream's format and names. Safe for concurrent use, also by the kubelets of
// several nodes whose store is the same.
type Records struct {
	dir string // "" keeps them in memory only

	mu sync.Mutex // guards the fields below; no file is touched with it
	// pulled is by the image's id, pulling counts the pulls under way by image.
	pulled  map[string]*kubeletv1beta1.ImagePulledRecord
	pulling map[string]int
	// interrupted are the images that a kubelet was pulling when it was killed, unreadable the files of images whose content is lost:
	// what may be used is not known until the image has been pulled again.
	interrupted, unreadable map[string]bool

	disk sync.Mutex // one write at a time, of the newest form
}

// OpenRecords reads the records in dir, which is made if it is missing.
func OpenRecords(dir string) (*Records, error) {
	r := &Records{
		dir: dir, pulled: map[string]*kubeletv1beta1.ImagePulledRecord{}, pulling: map[string]int{},
		interrupted: map[string]bool{}, unreadable: map[string]bool{},
	}
	if dir == "" {
		return r, nil
	}
	for _, sub := range []string{"pulled", "pulling"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("making the directory of image pulls: %w", err)
		}
	}
	unreadable := func(file string) { r.unreadable[file] = true }
	err := errors.Join(
		each(filepath.Join(dir, "pulled"), func(p *kubeletv1beta1.ImagePulledRecord) { r.pulled[p.ImageRef] = p }, unreadable),
		each(filepath.Join(dir, "pulling"), func(p *kubeletv1beta1.ImagePullIntent) { r.interrupted[p.Image] = true }, unreadable),
	)
	if err != nil {
		return nil, fmt.Errorf("reading what images were pulled: %w", err)
	}
	return r, nil
}

// each reads the files of a directory, and removes what a killed kubelet was writing. It tells the names of files that it cannot
// read.
func each[T any](dir string, take func(*T), unreadable func(string)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			if err := os.Remove(file); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		v := new(T)
		if json.Unmarshal(data, v) != nil {
			unreadable(e.Name())
			continue
		}
		take(v)
	}
	return nil
}

// repository is an image without tag and digest, as records name it.
func repository(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return reference.TrimNamed(named).String()
}

// isTag says that a name is one of the tags of a local image, and neither its id nor a digest.
func isTag(name string, local *container.Image) bool {
	named, err := reference.ParseNormalizedNamed(name)
	return err == nil && slices.Contains(local.RepoTags, reference.FamiliarString(reference.TagNameOnly(named)))
}

// begin notes that an image is about to be pulled; end must follow, unless it fails.
func (r *Records) begin(image string) error {
	r.mu.Lock()
	r.pulling[image]++
	r.mu.Unlock()
	err := r.save("pulling", image)
	if err != nil {
		r.leave(image)
	}
	return err
}

// leave takes back what begin has counted.
func (r *Records) leave(image string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pulling[image]--; r.pulling[image] <= 0 {
		delete(r.pulling, image)
	}
}

// end notes that a pull is over: an image with id was pulled with a login, nil if none was needed; or none was, if id is "".
func (r *Records) end(image, id string, with *login, now metav1.Time) error {
	if id != "" {
		if err := r.note(image, id, with, now); err != nil {
			return err // the pull counts as under way: what it has brought is not noted
		}
		r.mu.Lock()
		delete(r.interrupted, image) // what has that name now is known
		r.mu.Unlock()
	}
	r.leave(image)
	return r.save("pulling", image)
}

// note adds a login to those with which an image may be used.
func (r *Records) note(image, id string, with *login, now metav1.Time) error {
	repo := repository(image)
	r.mu.Lock()
	next := &kubeletv1beta1.ImagePulledRecord{TypeMeta: typeMeta("ImagePulledRecord"), ImageRef: id, CredentialMapping: map[string]kubeletv1beta1.ImagePullCredentials{}}
	if old := r.pulled[id]; old != nil {
		next = old.DeepCopy()
	}
	if next.CredentialMapping == nil {
		next.CredentialMapping = map[string]kubeletv1beta1.ImagePullCredentials{}
	}
	c := next.CredentialMapping[repo]
	switch {
	case with == nil || with.provided && with.account == nil:
		c = kubeletv1beta1.ImagePullCredentials{NodePodsAccessible: true}
	case c.NodePodsAccessible:
	case with.account != nil:
		if !slices.Contains(c.KubernetesServiceAccounts, *with.account) {
			c.KubernetesServiceAccounts = append(slices.Clone(c.KubernetesServiceAccounts), *with.account)
		}
	default:
		same := func(s kubeletv1beta1.ImagePullSecret) bool { return sameObject(s, with.secret) }
		c.KubernetesSecrets = append(slices.DeleteFunc(c.KubernetesSecrets, same), with.secret)
	}
	next.CredentialMapping[repo], next.LastUpdatedTime = c, now
	r.pulled[id] = next
	delete(r.unreadable, fileOf(id))
	r.mu.Unlock()
	return r.save("pulled", id)
}

// allows says whether a pod with these logins may use a local image without asking the registry. A tag of a repository that it was not
// pulled from was given to it by somebody on the machine, whatever was pulled.
func (r *Records) allows(v Verification, image string, local *container.Image, logins []login) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := r.pulled[local.ID]
	here := r.pulling[image] > 0 || r.interrupted[image] || r.unreadable[fileOf(local.ID)]
	if record != nil && !here {
		_, from := record.CredentialMapping[repository(image)]
		here = from || !isTag(image, local)
	}
	if !v.verifies(image, here) {
		return true
	}
	if record == nil {
		return false
	}
	c, ok := record.CredentialMapping[repository(image)]
	if !ok || c.NodePodsAccessible {
		return ok
	}
	if slices.ContainsFunc(logins, func(l login) bool {
		return l.account != nil && slices.Contains(c.KubernetesServiceAccounts, *l.account)
	}) {
		return true
	}
	return slices.ContainsFunc(c.KubernetesSecrets, func(s kubeletv1beta1.ImagePullSecret) bool {
		return slices.ContainsFunc(logins, func(l login) bool {
			return !l.provided && sameObject(s, l.secret) || s.CredentialHash != "" && s.CredentialHash == l.secret.CredentialHash
		})
	})
}

// prune forgets the images that are not among those which list returns. One that was pulled again meanwhile stays.
func (r *Records) prune(list func() (map[string]bool, error)) error {
	r.mu.Lock()
	before := maps.Clone(r.pulled)
	r.mu.Unlock()
	there, err := list()
	if err != nil {
		return err
	}
	var errs []error
	for id, record := range before {
		r.mu.Lock()
		gone := !there[id] && r.pulled[id] == record
		if gone {
			delete(r.pulled, id)
		}
		r.mu.Unlock()
		if gone {
			errs = append(errs, r.save("pulled", id))
		}
	}
	return errors.Join(errs...)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: kubeletv1beta1.SchemeGroupVersion.String()}
}

func sameObject(a, b kubeletv1beta1.ImagePullSecret) bool {
	return a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

// hash tells logins apart without keeping them.
func hash(auth container.RegistryAuth) string {
	data, err := json.Marshal(auth)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fileOf is the name of the file of an image or of a pull.
func fileOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// save makes the file of an image or of a pull what is known now.
func (r *Records) save(kind, key string) error {
	if r.dir == "" {
		return nil
	}
	r.disk.Lock()
	defer r.disk.Unlock()
	file := filepath.Join(r.dir, kind, fileOf(key))
	data, err := r.encode(kind, key)
	switch {
	case err != nil:
	case data == nil:
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		err = atomicwriter.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting a pull of an image: %w", err)
	}
	return nil
}

// encode is what the file of an image or of a pull has to hold, nil if there is none.
func (r *Records) encode(kind, key string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case kind == "pulled" && r.pulled[key] != nil:
		return json.Marshal(r.pulled[key])
	case kind == "pulling" && (r.pulling[key] > 0 || r.interrupted[key]):
		return json.Marshal(kubeletv1beta1.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: key})
	}
	return nil, nil
}
