# controller-runtime's own tests on our programs. UPSTREAM=dir runs them also on the kube-apiserver (and kubectl) in dir; ONLY='./pkg/client/...' runs some.
.PHONY: envtest
envtest: build ## run controller-runtime's own test suite on this API server: UPSTREAM=test/conformance/bin to compare
	go run ./test/envtest -upstream '$(UPSTREAM)' -only '$(or $(ONLY),./...)'
