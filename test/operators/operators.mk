.PHONY: operators
operators: docker build kubectl images ## published operators at work, unmodified: JobSet, LeaderWorkerSet by Helm, Kueue, KEDA, CloudNativePG, Tekton, Gatekeeper, VPA, Argo Rollouts, MetalLB, cert-manager with an ACME server, Knative on the cluster's own Gateways, Volcano, Kyverno, Argo Workflows; builds them first, three quarters of an hour once; NAMES="jobset kueue"
	test/operators/run $(NAMES)
