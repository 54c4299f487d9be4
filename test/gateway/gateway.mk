# The Gateway API's own conformance suite. ONLY=HTTPRouteMatching runs one test, KEEP=1 leaves the cluster for the next run.
.PHONY: gateway
gateway: docker build ## run the Gateway API's conformance suite against a fresh cluster: ONLY=NAME for one test
	test/gateway/images
	ONLY='$(ONLY)' KEEP='$(KEEP)' test/gateway/run
