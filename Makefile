# minik8s: `make help` lists what can be made.
KUBERNETES_VERSION := v1.37.2
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMPONENT_VERSION := k8s.io/component-base/version
LDFLAGS := -s -w \
	-X main.productVersion=$(VERSION) \
	-X $(COMPONENT_VERSION).gitVersion=$(KUBERNETES_VERSION) \
	-X $(COMPONENT_VERSION).gitMajor=1 -X $(COMPONENT_VERSION).gitMinor=37 \
	-X $(COMPONENT_VERSION).gitCommit=$(shell git rev-parse HEAD 2>/dev/null) \
	-X $(COMPONENT_VERSION).gitTreeState=clean

# The same settings for every go command, so that builds and tests share one cache. The profile tells the compiler what
# matters: https://go.dev/doc/pgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath '-pgo=$(CURDIR)/cmd/minik8s/default.pgo'

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

.PHONY: build
build: ## build bin/minik8s
	go build -ldflags '$(LDFLAGS)' -o bin/minik8s ./cmd/minik8s

.PHONY: docker
docker: ## see that a Docker engine answers, install it on Debian and Ubuntu
	@hack/ensure-docker

.PHONY: up
up: docker build ## build, start a cluster, wait until it is Ready, and say what to do next
	bin/minik8s up

.PHONY: down
down: ## stop that cluster; its data stays (bin/minik8s down --purge leaves nothing)
	bin/minik8s down

.PHONY: python-client
python-client: ## see that Python has the Kubernetes client, install it on Debian and Ubuntu
	@hack/ensure-python-client

.PHONY: images
images: docker ## build the images of the examples
	examples/guestbook/build

.PHONY: test
test: docker verify build ## everything that CI runs
	go test -timeout 15m ./...
	$(MAKE) e2e

.PHONY: kubectl
kubectl: ## build bin/kubectl, upstream's published module and nothing else
	go build -ldflags '$(LDFLAGS)' -o bin/kubectl ./test/e2e/kubectl

.PHONY: e2e
e2e: docker build kubectl images python-client ## the end-to-end tests: the real binary, a separate kubectl, real Docker
	MINIK8S_E2E=1 go test -count=1 -timeout 15m ./test/e2e/...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml
	@command -v golangci-lint >/dev/null || { echo "error: golangci-lint is not installed: see https://golangci-lint.run/docs/welcome/install/ (version 2)" >&2; exit 1; }
	golangci-lint run ./...

.PHONY: verify
verify: ## check format, vet, modules and generated files; tells which update mends what
	hack/verify/all

.PHONY: update
update: ## mend what verify complains about
	hack/update/all

.PHONY: generate
generate: ## generate what is derived from the API types
	hack/update/codegen

.PHONY: bench-boot
bench-boot: docker build images ## print how fast a cluster and a pod start, and what an idle cluster takes
	go run ./test/bench/boot

.PHONY: bench-apiserver
bench-apiserver: build test/conformance/bin/kube-apiserver ## measure upstream's kube-apiserver and ours side by side; QUICK=1 for a short look
	go run ./test/bench/apiserver $(if $(QUICK),-quick)

.PHONY: bench-controllers
bench-controllers: build test/conformance/bin/kube-apiserver test/conformance/bin/kube-controller-manager ## measure upstream's kube-controller-manager and our controllers side by side; QUICK=1 for a short look
	go run ./test/bench/controllers $(if $(QUICK),-quick)

test/conformance/bin/kube-controller-manager:
	test/conformance/build kube-controller-manager

.PHONY: profile
profile: build ## measure anew what the compiler is told to matter, in half an hour
	hack/profile

include test/conformance/conformance.mk
include test/differential/differential.mk
include test/envtest/envtest.mk
include test/fuzz/fuzz.mk
