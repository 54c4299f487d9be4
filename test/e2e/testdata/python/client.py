#!/usr/bin/python3
# Copyright 2026 The minik8s Authors
# SPDX-License-Identifier: Apache-2.0

"""Talks to a cluster by the Python client, which shares no code with ours. Run by python_test.go: client.py NAMESPACE."""

import json
import sys
import threading
import unittest

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = sys.argv.pop()
GROUP = "python.example.com"


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"made": "by-python"}), data=data)


def deployment(name):
    labels = {"app": name}
    pod = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="example.com/c:1")]),
    )
    spec = client.V1DeploymentSpec(replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=pod)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def manifest(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def custom_resource_definition():
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    names = {"plural": "snakes", "singular": "snake", "kind": "Snake", "listKind": "SnakeList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "snakes." + GROUP},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def until(stream, seen):
    """Reads events until seen(event); a watch that ends before is an error."""
    for event in stream:
        if seen(event):
            return event
    raise AssertionError("the watch ended")


class PythonClient(unittest.TestCase):
    def setUp(self):
        config.load_kube_config()
        self.core = client.CoreV1Api()
        self.apps = client.AppsV1Api()

    def fails(self, status, reason, call, *args, **kwargs):
        with self.assertRaises(ApiException) as caught:
            call(*args, **kwargs)
        self.assertEqual(status, caught.exception.status, caught.exception)
        self.assertIn('"reason":"%s"' % reason, caught.exception.body)

    def test_errors(self):
        self.core.create_namespaced_config_map(NAMESPACE, config_map("once"))
        self.fails(409, "AlreadyExists", self.core.create_namespaced_config_map, NAMESPACE, config_map("once"))
        self.fails(404, "NotFound", self.core.read_namespaced_config_map, "none", NAMESPACE)
        self.fails(422, "Invalid", self.core.create_namespaced_config_map, NAMESPACE, config_map("Not A Name"))
        self.fails(400, "BadRequest", self.core.list_namespaced_pod, NAMESPACE, field_selector="spec.nonsense=1")
        stale = self.core.read_namespaced_config_map("once", NAMESPACE)
        self.core.patch_namespaced_config_map("once", NAMESPACE, {"data": {"a": "b"}})
        self.fails(409, "Conflict", self.core.replace_namespaced_config_map, "once", NAMESPACE, stale)
        with client.ApiClient() as somebody:
            somebody.set_default_header("Impersonate-User", "somebody")
            self.fails(403, "Forbidden", client.CoreV1Api(somebody).list_namespaced_secret, NAMESPACE)

    def test_list_in_chunks(self):
        for i in range(5):
            self.core.create_namespaced_config_map(NAMESPACE, config_map("chunk-%d" % i, number=str(i)))
        names, following = [], None
        while following != "":
            page = self.core.list_namespaced_config_map(NAMESPACE, limit=2, _continue=following, field_selector="metadata.name!=once")
            names += [m.metadata.name for m in page.items if m.metadata.name.startswith("chunk-")]
            following = page.metadata._continue or ""
        self.assertEqual(["chunk-%d" % i for i in range(5)], names)
        self.core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="made=by-python", field_selector="metadata.name=chunk-0")
        self.fails(404, "NotFound", self.core.read_namespaced_config_map, "chunk-0", NAMESPACE)

    def test_watch(self):
        first = self.core.create_namespaced_config_map(NAMESPACE, config_map("watched", n="0"))

        def change():
            self.core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"n": "1"}})
            self.core.delete_namespaced_config_map("watched", NAMESPACE)

        writer = threading.Thread(target=change)
        stream = watch.Watch().stream(
            self.core.list_namespaced_config_map, NAMESPACE, resource_version=first.metadata.resource_version,
            field_selector="metadata.name=watched", timeout_seconds=30,
        )
        writer.start()
        kinds = []
        until(stream, lambda e: kinds.append((e["type"], e["object"].data["n"])) or e["type"] == "DELETED")
        writer.join()
        self.assertEqual([("MODIFIED", "1"), ("DELETED", "1")], kinds)

    def test_watch_bookmark(self):
        version = self.core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
        over = threading.Event()

        def change():
            n = 0
            while not over.wait(0.2):
                n += 1
                self.core.patch_namespaced_config_map("unseen", NAMESPACE, {"data": {"n": str(n)}})

        self.core.create_namespaced_config_map(NAMESPACE, config_map("unseen"))
        writer = threading.Thread(target=change)
        writer.start()
        # A watch that is about to end is told how far it got, although it has seen nothing.
        events = list(watch.Watch().stream(
            self.core.list_namespaced_config_map, NAMESPACE, label_selector="none=none", resource_version=version,
            allow_watch_bookmarks=True, timeout_seconds=4))
        over.set()
        writer.join()
        self.assertEqual({"BOOKMARK"}, {e["type"] for e in events})
        self.assertGreater(int(events[-1]["raw_object"]["metadata"]["resourceVersion"]), int(version))

    def test_patches(self):
        maps = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")
        maps.create(body=manifest("patched", a="1", b="2"), namespace=NAMESPACE)
        for kind, body, want in (
            ("merge-patch", {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
            ("strategic-merge-patch", {"data": {"b": "4"}}, {"b": "4", "c": "3"}),
            ("json-patch", [{"op": "remove", "path": "/data/c"}], {"b": "4"}),
        ):
            got = maps.patch(name="patched", namespace=NAMESPACE, body=body, content_type="application/%s+json" % kind)
            self.assertEqual(want, got.to_dict()["data"], kind)
        apply = dict(namespace=NAMESPACE, name="patched", content_type="application/apply-patch+yaml")
        with self.assertRaises(dynamic.exceptions.ConflictError):
            maps.patch(body=json.dumps(manifest("patched", b="5")), field_manager="python", **apply)
        got = maps.patch(body=json.dumps(manifest("patched", b="5")), field_manager="python", force_conflicts=True, **apply)
        self.assertEqual({"b": "5"}, got.to_dict()["data"])
        self.assertIn(("python", "Apply"), [(m.manager, m.operation) for m in got.metadata.managedFields])

    def test_delete_propagation(self):
        self.apps.create_namespaced_deployment(NAMESPACE, deployment("deleted"))
        sets = watch.Watch().stream(
            self.apps.list_namespaced_replica_set, NAMESPACE, label_selector="app=deleted", timeout_seconds=60)
        until(sets, lambda e: e["type"] == "ADDED")
        self.apps.delete_namespaced_deployment("deleted", NAMESPACE, body=client.V1DeleteOptions(propagation_policy="Orphan"))
        orphan = until(sets, lambda e: not e["object"].metadata.owner_references)["object"].metadata.name
        self.apps.delete_namespaced_replica_set(orphan, NAMESPACE, propagation_policy="Foreground")
        until(sets, lambda e: e["type"] == "DELETED")

    def test_custom_objects(self):
        extensions = client.ApiextensionsV1Api()
        name = "snakes." + GROUP
        extensions.create_custom_resource_definition(custom_resource_definition())
        self.addCleanup(extensions.delete_custom_resource_definition, name)
        ready = lambda e: any(c.type == "Established" and c.status == "True" for c in e["object"].status.conditions or [])
        until(watch.Watch().stream(extensions.list_custom_resource_definition, field_selector="metadata.name=" + name, timeout_seconds=30), ready)
        custom = client.CustomObjectsApi()
        where = (GROUP, "v1", NAMESPACE, "snakes")
        snake = lambda size: {"apiVersion": GROUP + "/v1", "kind": "Snake", "metadata": {"name": "kaa"}, "spec": {"size": size}}
        self.fails(422, "Invalid", custom.create_namespaced_custom_object, *where, snake(0))
        custom.create_namespaced_custom_object(*where, snake(1))
        custom.patch_namespaced_custom_object(*where, "kaa", {"spec": {"size": 2}})
        custom.patch_namespaced_custom_object_status(*where, "kaa", {"status": {"long": True}})
        items = custom.list_namespaced_custom_object(*where)["items"]
        self.assertEqual([2], [s["spec"]["size"] for s in items])
        custom.delete_namespaced_custom_object(*where, "kaa", propagation_policy="Background")
        self.fails(404, "NotFound", custom.get_namespaced_custom_object, *where, "kaa")

    def test_rest(self):
        self.assertTrue(client.VersionApi().get_code().git_version.startswith("v1.37."))
        self.assertIn("apps", [g.name for g in client.ApisApi().get_api_versions().groups])
        self.assertTrue(self.core.create_namespaced_service_account_token(
            "default", NAMESPACE, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))).status.token)
        self.apps.create_namespaced_deployment(NAMESPACE, deployment("scaled"))
        scale = self.apps.patch_namespaced_deployment_scale("scaled", NAMESPACE, {"spec": {"replicas": 2}})
        self.assertEqual(2, scale.spec.replicas)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # about connections that the client leaves to the end of the process
