"""Pods as kube-scheduler sends them: what a Deployment's pod carries, about 6 kB, in Go's order."""

from __future__ import annotations

from typing import Any, Final

from topology import vocabulary

GPU: Final = "nvidia.com/gpu"
NAMESPACE: Final = "team-vision"


def pod(
    name: str,
    uid: str,
    *,
    gpus: int = 0,
    fraction: str = "",
    cpu: str = "4",
    gates: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A v1 Pod without apiVersion and kind, as it stands in ExtenderArgs."""
    annotations = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "9100",
        "prometheus.io/scrape": "true",
    }
    if fraction:
        annotations[vocabulary.GPU_FRACTION.key] = fraction
    spec: dict[str, Any] = {
        "volumes": _volumes(),
        "containers": [_trainer(cpu, gpus), _side_container()],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "trainer",
        "serviceAccount": "trainer",
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "schedulerName": vocabulary.DEFAULT_SCHEDULER_NAME,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{what}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for what in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return {
        "metadata": {
            "name": name,
            "generateName": "trainer-6d4cf56db6-",
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": "184467",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/component": "trainer",
                "app.kubernetes.io/instance": "vision",
                "app.kubernetes.io/name": "trainer",
                "pod-template-hash": "6d4cf56db6",
            },
            "annotations": dict(sorted(annotations.items())),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "trainer-6d4cf56db6",
                    "uid": "5b4a5a0e-6c1d-4d43-9e0a-8f2f6c1f9b11",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _volumes() -> list[dict[str, Any]]:
    token = {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        ],
        "defaultMode": 420,
    }
    return [
        *({"name": f"scratch-{number}", "emptyDir": {"sizeLimit": "20Gi"}} for number in range(4)),
        {"name": "settings", "configMap": {"name": "trainer-settings", "defaultMode": 420}},
        {"name": "kube-api-access-x7k2p", "projected": token},
    ]


def _trainer(cpu: str, gpus: int) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": "16Gi"} | ({GPU: str(gpus)} if gpus else {})
    return {
        "name": "trainer",
        "image": "registry.example.com/vision/trainer:2026.01.3",
        "command": ["python", "-m", "trainer"],
        "args": [f"--option-{number}=/srv/settings/value-{number}.yaml" for number in range(16)],
        "ports": [{"name": "metrics", "containerPort": 9100, "protocol": "TCP"}],
        "env": [{"name": f"TRAINER_OPTION_{number}", "value": "v" * 24} for number in range(24)],
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [
            *({"name": f"scratch-{number}", "mountPath": f"/scratch/{number}"} for number in range(4)),
            {"name": "settings", "readOnly": True, "mountPath": "/srv/settings"},
            _token_mount(),
        ],
        "livenessProbe": _probe("/live"),
        "readinessProbe": _probe("/ready"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    }


def _side_container() -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "128Mi"}
    return {
        "name": "log-shipper",
        "image": "registry.example.com/base/log-shipper:1.4.2",
        "args": ["--follow", "/scratch/0/logs"],
        "env": [{"name": f"SHIPPER_OPTION_{number}", "value": "w" * 16} for number in range(6)],
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "scratch-0", "mountPath": "/scratch/0"}, _token_mount()],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _token_mount() -> dict[str, Any]:
    return {
        "name": "kube-api-access-x7k2p",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }


def _probe(path: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": 9100, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
