// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/apis/certificates/certificaterequest"
	"minik8s.io/minik8s/pkg/apis/useragent"
	"minik8s.io/minik8s/pkg/cluster/clusterinfo"
	"minik8s.io/minik8s/pkg/cluster/lifecycle"
	"minik8s.io/minik8s/pkg/pki"
)

// TokenJoin is what a machine is told to join a cluster with.
type TokenJoin struct {
	// Server is the URL of the API server; host and port will do.
	Server string
	// Token is that of `minik8s token create`.
	Token string
	// CACertHashes are those of the CAs that are trusted, at least one.
	CACertHashes []string
	// NodeName is the name of the node, default that of the machine; NodeIP its address, or one of each family with a comma between them,
	// default the one by which it reaches the server, and of the other family that of the default route.
	NodeName, NodeIP string
	// Timeout is how long joining may take.
	Timeout time.Duration
}

func (j TokenJoin) id() string {
	id, _, _ := strings.Cut(j.Token, ".")
	return id
}

// keptMembership is the node's kubeconfig of a machine that has joined by a token.
func keptMembership(c Config) string { return filepath.Join(c.DataDir, "node.kubeconfig") }

// Rejoin returns what a machine has that has joined as name before, nil if it has not.
func Rejoin(name, dataDir string) (*Membership, error) {
	if !namePattern.MatchString(name) {
		return nil, badName(name)
	}
	e, err := read(entries(), name)
	if err != nil {
		return nil, err
	}
	c := e.Config
	if dataDir != "" {
		if c.DataDir, err = filepath.Abs(dataDir); err != nil {
			return nil, err
		}
	}
	if c.DataDir == "" {
		return nil, nil
	}
	m, err := ReadJoin(keptMembership(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return m, err
}

// Discover finds out whom a machine is about to join, without anything of it being stored. A machine that has joined as name by the
// same token before has what it needs: the token may have ended since.
func Discover(ctx context.Context, name, dataDir string, j TokenJoin) (*Membership, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	m, err := Rejoin(name, dataDir)
	if err != nil || m != nil && m.by == api.BootstrapUserPrefix+j.id() {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	server, host, err := serverURL(j.Server)
	if err != nil {
		return nil, err
	}
	info, err := discover(ctx, server, j)
	if err != nil {
		return nil, err
	}
	m = &Membership{host: info.Server, ca: info.CA, token: &j}
	if len(info.About) == 0 {
		return nil, &Problem{Cause: server + " is not of minik8s", Remedy: "join it with its own installer"}
	}
	if err := json.Unmarshal(info.About, &m.Config); err != nil {
		return nil, fmt.Errorf("reading cluster-info: %w", err)
	}
	m.Config.Kubelet.NodeName, m.Config.Kubelet.NodeIP = strings.ToLower(j.NodeName), j.NodeIP
	if m.Config.Kubelet.NodeIP == "" {
		ips, err := addressesTowards(ctx, host, m.Config)
		if err != nil {
			return nil, fmt.Errorf("finding this machine's address: %w", err)
		}
		m.Config.Kubelet.NodeIP = pairText(ips)
	}
	return m, nil
}

// check refuses what cannot work, without showing the token.
func (j TokenJoin) check() error {
	if !bootstraputil.IsValidBootstrapToken(j.Token) {
		return &Problem{Cause: "--token is not of the form ID.SECRET", Remedy: "make one where the cluster runs, with: minik8s token create"}
	}
	if len(j.CACertHashes) == 0 {
		return &Problem{Cause: "without --ca-cert-hash anybody could pretend to be the cluster", Remedy: "give the hash that minik8s token create prints with the token"}
	}
	if j.NodeIP != "" {
		if _, err := parseAddresses(j.NodeIP); err != nil {
			return fmt.Errorf("--node-ip must be the address by which the API server reaches this machine: %w", err)
		}
	}
	return clusterinfo.CheckHashes(j.CACertHashes)
}

// serverURL returns the URL and the host and port in it.
func serverURL(server string) (address, host string, _ error) {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return "", "", fmt.Errorf("--join %q is not the URL of an API server, such as https://192.168.1.5:6443", server)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "6443")
	}
	return "https://" + u.Host, u.Host, nil
}

// signing is how long a token may be unknown to the controller that signs by it.
const signing = 10 * time.Second

// discover asks until a server answers that can be trusted, or is found not to be.
func discover(ctx context.Context, server string, j TokenJoin) (info clusterinfo.Info, err error) {
	ask := retried(ctx, "finding out about the cluster")
	begun := time.Now()
	err = ask(func(ctx context.Context) (retry bool, err error) {
		info, err = clusterinfo.Discover(ctx, server, j.Token, j.CACertHashes)
		switch {
		case errors.Is(err, clusterinfo.ErrNotSigned):
			return time.Since(begun) < signing, &Problem{
				Cause: fmt.Sprintf("the cluster at %s does not know token %q: it has ended or was deleted", server, j.id()), Remedy: "make another there, with: minik8s token create", Err: err,
			}
		case apierrors.IsNotFound(err), apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
			return false, &Problem{Cause: server + " tells nobody how to join", Remedy: "run minik8s token create where the cluster runs, and the command that it prints here", Err: err}
		}
		return unanswered(err), err
	})
	return info, err
}

// unanswered reports whether a server could not be asked or was not able to answer, in contrast to one that gave a bad answer.
func unanswered(err error) bool {
	var u *url.Error
	var status apierrors.APIStatus
	return errors.As(err, &u) || errors.As(err, &status)
}

// retried returns what repeats a step until it succeeds, fails for good, or ctx ends, which is told with the last error.
func retried(ctx context.Context, what string) func(step func(context.Context) (retry bool, err error)) error {
	return func(step func(context.Context) (bool, error)) error {
		const every = 200 * time.Millisecond
		var last error
		err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
			retry, err := step(ctx)
			if err == nil || !retry {
				return true, err
			}
			if last == nil {
				klog.FromContext(ctx).Info("Trying again", "what", what, "error", err)
			}
			if ctx.Err() == nil || last == nil {
				last = err
			}
			return false, nil
		})
		if err != nil && last != nil && ctx.Err() != nil {
			return fmt.Errorf("%s: not done in time: %w", what, last)
		}
		return err
	}
}

// addressesTowards are those by which a machine joins a cluster: of each family of that one.
func addressesTowards(ctx context.Context, server string, c Config) ([]netip.Addr, error) {
	near, err := addressTowards(ctx, server)
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, f := range c.Networking.families() {
		ip := near
		if familyOf(near) != f {
			if ip, err = machineIP(f, ranges(c)); err != nil {
				return nil, err
			}
		}
		all = append(all, ip)
	}
	return all, nil
}

// addressTowards is the address of this machine from which packets go to a server.
func addressTowards(ctx context.Context, server string) (netip.Addr, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server) // nothing is sent
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return local.Addr().Unmap(), err
}

// exchange turns the token into the node's kubeconfig, which is kept, and completes the configuration with what the cluster decides.
// The key is on the disk, and the first start counts as one that has been up, before the cluster knows of the machine: killed at any
// instant, the next try is of the same machine, which may go on where it was. What was here before stays until it has been let in.
func (m *Membership) exchange(ctx context.Context, s *Start) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.token.Timeout)
	defer cancel()
	c := s.Config
	c.Nodes = nil
	if err := settleNode(&c); err != nil {
		return err
	}
	if err := checkNode(ctx, c); err != nil {
		return err
	}
	if s.before.State == lifecycle.Absent {
		if err := s.serves(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			s.served = false // nothing has run: all is undone
		}
	}()
	keyFile := filepath.Join(c.DataDir, "pki", "join-"+m.token.id()+".key")
	if err := os.MkdirAll(filepath.Dir(keyFile), 0o700); err != nil {
		return fmt.Errorf("making the directory of keys: %w", err)
	}
	key, err := kept(keyFile, pki.NewKey)
	if err != nil {
		return fmt.Errorf("making the node's key: %w", err)
	}
	cert, err := m.certify(ctx, c, key)
	if err != nil {
		if p, is := errors.AsType[*Problem](err); is && errors.Is(p, errDenied) {
			err = errors.Join(err, os.Remove(keyFile)) // the cluster has decided about this one
		}
		return err
	}
	m.joined, m.by = pki.Pair{Cert: cert, Key: key}, api.BootstrapUserPrefix+m.token.id()
	if c.Kubelet.PodCIDR, err = m.podRange(ctx, c); err != nil {
		return err
	}
	about := told(c, KubeletConfig{NodeName: c.Kubelet.NodeName, NodeIP: c.Kubelet.NodeIP, PodCIDR: c.Kubelet.PodCIDR})
	data, err := nodeKubeconfig(c.Name, m.by, m.host, m.ca, m.joined, about)
	if err != nil {
		return err
	}
	if err := writeFile(keptMembership(c), data); err != nil {
		return err
	}
	if err := os.Remove(keyFile); err != nil {
		return fmt.Errorf("removing what is not needed any more: %w", err)
	}
	s.Config = c
	if err := s.moveOut(ctx); err != nil {
		return err
	}
	return s.serves()
}

// errDenied says that the cluster has refused the machine.
var errDenied = errors.New("the request was denied")

// certify asks for a certificate of a key until it is issued, the cluster refuses it, or ctx ends.
func (m *Membership) certify(ctx context.Context, c Config, keyPEM []byte) (cert []byte, err error) {
	request, err := joinCertificateRequest(c, keyPEM)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: m.host, BearerToken: m.token.Token, UserAgent: useragent.Of("minik8s"), Timeout: signing, TLSClientConfig: rest.TLSClientConfig{CAData: m.ca},
	})
	if err != nil {
		return nil, err
	}
	all := client.CertificatesV1().CertificateSigningRequests()
	err = retried(ctx, "asking for the node's certificate")(func(ctx context.Context) (retry bool, err error) {
		have, err := all.Get(ctx, request.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			have, err = all.Create(ctx, request, metav1.CreateOptions{})
		}
		switch {
		case apierrors.IsUnauthorized(err):
			return false, &Problem{Cause: fmt.Sprintf("token %q is not accepted: it has ended or was deleted", m.token.id()), Remedy: "make another where the cluster runs, with: minik8s token create", Err: err}
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			return false, err
		case err != nil:
			return true, err
		case certificaterequest.Has(have, certificatesv1.CertificateDenied), certificaterequest.Has(have, certificatesv1.CertificateFailed):
			return false, denial(have)
		case len(have.Status.Certificate) == 0:
			return true, errors.New("nobody has issued the certificate yet")
		}
		cert = have.Status.Certificate
		return false, nil
	})
	return cert, err
}

func denial(r *certificatesv1.CertificateSigningRequest) error {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return &Problem{Cause: "the cluster does not let this machine join", Remedy: c.Message, Err: errDenied}
		}
	}
	return errDenied
}

// joinCertificateRequest is the same whenever it is made of the same key, so that the answer to an earlier one is found.
func joinCertificateRequest(c Config, keyPEM []byte) (*certificatesv1.CertificateSigningRequest, error) {
	key, err := pki.ParseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the node's key: %w", err)
	}
	user := nodeUser(c.Kubelet.NodeName)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{nodeGroup}}}, key)
	if err != nil {
		return nil, fmt.Errorf("making the request for a certificate: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(strings.Join([]string{fingerprint(public), user, c.Kubelet.NodeIP}, " ")))
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-csr-%x", digest), Annotations: map[string]string{addressAnnotation: c.Kubelet.NodeIP}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Usages: certificate.DefaultKubeletClientGetUsages(key),
			ExpirationSeconds: csr.DurationToExpirationSeconds(joinLifetime),
		},
	}, nil
}

// podRange asks the cluster which range the node has been given.
func (m *Membership) podRange(ctx context.Context, c Config) (pods string, err error) {
	config := &rest.Config{Host: m.host, Timeout: signing, TLSClientConfig: rest.TLSClientConfig{CAData: m.ca, CertData: m.joined.Cert, KeyData: m.joined.Key}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	err = retried(ctx, "reading the node's pod range")(func(ctx context.Context) (bool, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, c.Kubelet.NodeName, metav1.GetOptions{})
		if err == nil && n.Spec.PodCIDR == "" {
			err = errors.New("it has none")
		}
		if err != nil {
			return true, err // also if the server does not know of the Node yet
		}
		pods = podCIDRs(n)
		return false, nil
	})
	return pods, err
}

// stillMember waits for an answer of the cluster, and fails if it has thrown the node out. While the server comes up nobody is known
// for a moment, so one refusal proves nothing.
func stillMember(ctx context.Context, c Config, config *rest.Config) error {
	const every, enough = 2 * time.Second, 5
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	refusals := 0
	err = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		limited, cancel := context.WithTimeout(ctx, signing)
		defer cancel()
		_, err := client.CoreV1().Nodes().Get(limited, c.Kubelet.NodeName, metav1.GetOptions{})
		if !apierrors.IsUnauthorized(err) {
			refusals = 0
			return err == nil, nil
		}
		if refusals++; refusals < enough {
			return false, nil
		}
		return false, &Problem{
			Cause:  fmt.Sprintf("node %q was removed from the cluster, which does not accept its certificates any more", c.Kubelet.NodeName),
			Remedy: "to join again, make a new token where the cluster runs, with: minik8s token create", Err: err,
		}
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the node ends
	}
	return err
}
