# Outside suites of network policies. ONLY=CNPAdminTierPriorityField runs one test, and of cyclonus the cases of a tag.
.PHONY: networkpolicy cyclonus
networkpolicy: docker build ## run the Network Policy API's conformance suite against a fresh cluster: ONLY=NAME for one test
	test/networkpolicy/images
	ONLY='$(ONLY)' test/networkpolicy/run cluster

cyclonus: docker build ## run cyclonus' cases of NetworkPolicies against a fresh cluster: ONLY=TAG for some
	test/networkpolicy/images
	ONLY='$(ONLY)' test/networkpolicy/run cyclonus
