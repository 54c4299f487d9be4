// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolve finds what routes refer to: the endpoints of a Service's port, the certificate in a Secret. It is a function of
// objects at one moment. Touch it when routes may refer to something else, or when another kind of endpoint is to be used.
package resolve

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// What a reference cannot be used for. Errors wrap one of them.
var (
	ErrNotFound    = errors.New("not found")
	ErrUnsupported = errors.New("not supported")
	ErrInvalid     = errors.New("invalid")
)

// Objects are those that routes may refer to.
type Objects struct {
	Services map[types.NamespacedName]*corev1.Service
	// Slices are those of a Service.
	Slices  map[types.NamespacedName][]*discoveryv1.EndpointSlice
	Secrets map[types.NamespacedName]*corev1.Secret
	// ConfigMaps may have certificates of authorities.
	ConfigMaps map[types.NamespacedName]*corev1.ConfigMap
	// Namespaces are the labels of those that there are.
	Namespaces map[string]map[string]string
}

// Resolver finds backends and certificates. The backends of one Resolver are those of one table: each port of a Service is in it
// once, so that all routes to it take turns with its endpoints together. It is for one goroutine.
type Resolver struct {
	Objects
	keys     *KeyPairs
	backends map[string]*table.Backend
}

// New returns a Resolver for one table.
func New(o Objects, keys *KeyPairs) *Resolver {
	return &Resolver{Objects: o, keys: keys, backends: map[string]*table.Backend{}}
}

// Port of a Service, by number, or by name if there is one.
type Port struct {
	Number int32
	Name   string
	// HTTP2 says that what asks for it speaks HTTP/2, whatever the Service says.
	HTTP2 bool
	// UDP says that it is one of UDP, and not of TCP.
	UDP bool
	// TLS is how a port, by its name, is spoken to by TLS. usable false: nobody may speak to it. nil: there is no such rule.
	TLS func(port string) (how *table.BackendTLS, usable bool)
}

// protocol is that of the ports that are meant.
func (p Port) protocol() corev1.Protocol {
	if p.UDP {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

func (p Port) String() string {
	if p.Name != "" {
		return p.Name
	}
	return strconv.Itoa(int(p.Number))
}

// Backend returns the backend that is a port of a Service.
func (r *Resolver) Backend(service types.NamespacedName, port Port) (*table.Backend, error) {
	s := r.Services[service]
	if s == nil {
		return nil, fmt.Errorf("service %q %w", service, ErrNotFound)
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, fmt.Errorf("service %q is of type ExternalName, which is %w", service, ErrUnsupported)
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if port.Name != "" && p.Name != port.Name || port.Name == "" && p.Port != port.Number || cmp.Or(p.Protocol, corev1.ProtocolTCP) != port.protocol() {
			continue
		}
		protocol := table.HTTP1
		key := service.String() + ":" + strconv.Itoa(int(p.Port))
		if port.HTTP2 || text(p.AppProtocol) == "kubernetes.io/h2c" {
			protocol = table.H2C
			key += "/h2c"
		}
		var how *table.BackendTLS
		all := endpoints(s, p.Name, port.protocol(), r.Slices[service])
		if port.TLS != nil {
			var usable bool
			if how, usable = port.TLS(p.Name); !usable {
				all = nil // whoever asks is told that there is nobody
			}
			if how != nil {
				key += "/tls/" + how.Key
			}
		}
		if port.UDP {
			key += "/udp"
		}
		if r.backends[key] == nil {
			r.backends[key] = table.NewBackend(key, protocol, all)
			r.backends[key].TLS = how
		}
		return r.backends[key], nil
	}
	return nil, fmt.Errorf("port %s of service %q %w", port, service, ErrNotFound)
}

// endpoints are those that are ready; if none is, those that end but still serve, as the service proxy has it.
func endpoints(s *corev1.Service, port string, protocol corev1.Protocol, slices []*discoveryv1.EndpointSlice) []string {
	family := discoveryv1.AddressTypeIPv4
	if len(s.Spec.IPFamilies) > 0 {
		family = discoveryv1.AddressType(s.Spec.IPFamilies[0])
	}
	var ready, ending []string
	seen := map[string]bool{}
	for _, slice := range slices {
		if slice.AddressType != family {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || text(p.Name) != port || p.Protocol != nil && *p.Protocol != protocol || p.Protocol == nil && protocol != corev1.ProtocolTCP {
				continue
			}
			for i := range slice.Endpoints {
				e := &slice.Endpoints[i]
				if len(e.Addresses) == 0 {
					continue
				}
				address := net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port)))
				if seen[address] {
					continue
				}
				switch c := e.Conditions; {
				case c.Ready == nil || *c.Ready:
					ready = append(ready, address)
				case c.Terminating != nil && *c.Terminating && (c.Serving == nil || *c.Serving):
					ending = append(ending, address)
				default:
					continue
				}
				seen[address] = true
			}
		}
	}
	if len(ready) == 0 {
		return ending
	}
	return ready
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Certificate returns the one in a Secret of type kubernetes.io/tls.
func (r *Resolver) Certificate(secret types.NamespacedName) (*tls.Certificate, error) {
	s := r.Secrets[secret]
	if s == nil {
		return nil, fmt.Errorf("secret %q of type %s %w", secret, corev1.SecretTypeTLS, ErrNotFound)
	}
	c, err := r.keys.parse(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("secret %q is %w: %w", secret, ErrInvalid, err)
	}
	return c, nil
}

// AuthoritiesKey is where a ConfigMap has the certificates of authorities.
const AuthoritiesKey = "ca.crt"

// Authorities adds those in a ConfigMap to a pool.
func (r *Resolver) Authorities(configMap types.NamespacedName, to *x509.CertPool) error {
	c := r.ConfigMaps[configMap]
	if c == nil {
		return fmt.Errorf("configmap %q %w", configMap, ErrNotFound)
	}
	if !to.AppendCertsFromPEM([]byte(c.Data[AuthoritiesKey])) {
		return fmt.Errorf("configmap %q is %w: there is no certificate at %s", configMap, ErrInvalid, AuthoritiesKey)
	}
	return nil
}

// KeyPairs keeps what was parsed for the next table, for that takes long. It is safe for concurrent use.
type KeyPairs struct {
	mu    sync.Mutex
	pairs map[string]keyPair // by certificate; guarded by mu
}

type keyPair struct {
	key    []byte
	parsed *tls.Certificate
}

// maxKeyPairs bounds what is kept of certificates that nobody uses any more.
const maxKeyPairs = 1000

func (k *KeyPairs) parse(certificate, key []byte) (*tls.Certificate, error) {
	k.mu.Lock()
	known, ok := k.pairs[string(certificate)]
	k.mu.Unlock()
	if ok && bytes.Equal(known.key, key) {
		return known.parsed, nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pairs == nil || len(k.pairs) >= maxKeyPairs {
		k.pairs = map[string]keyPair{}
	}
	k.pairs[string(certificate)] = keyPair{key: key, parsed: &pair}
	return &pair, nil
}
