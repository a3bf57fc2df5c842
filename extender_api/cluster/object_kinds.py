"""The kinds of objects that own or describe workloads, and where the API server has them."""

from __future__ import annotations

from typing import Final, NamedTuple

from topology import vocabulary


class ObjectKind(NamedTuple):
    """A namespaced kind. `versions` are those that are understood, newest first."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str

    def path(self, version: str) -> str:
        """The collection of all namespaces."""
        return f"/apis/{self.group}/{version}/{self.plural}"

    @property
    def api_version(self) -> str:
        """In the newest version."""
        return f"{self.group}/{self.versions[0]}"

    @property
    def definition(self) -> str:
        """Its name among all kinds, e.g. `podgroups.tangram.scheduler`."""
        return f"{self.plural}.{self.group}"


OUR_POD_GROUP: Final = ObjectKind(vocabulary.API_GROUP, ("v1alpha1",), "PodGroup", "podgroups")

OBJECT_KINDS: Final = (
    # -- what describes groups of pods
    OUR_POD_GROUP,
    ObjectKind(vocabulary.KAI_QUEUE_GROUP, ("v2alpha2",), "PodGroup", "podgroups"),
    ObjectKind("scheduling.volcano.sh", ("v1beta1",), "PodGroup", "podgroups"),
    ObjectKind("scheduling.x-k8s.io", ("v1alpha1",), "PodGroup", "podgroups"),
    ObjectKind("scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2"), "PodGroup", "podgroups"),
    ObjectKind("scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"), "Workload", "workloads"),
    ObjectKind("scheduler.grove.io", ("v1alpha1",), "PodGang", "podgangs"),
    # -- what owns pods
    ObjectKind("batch", ("v1",), "Job", "jobs"),
    ObjectKind("batch", ("v1",), "CronJob", "cronjobs"),
    ObjectKind("apps", ("v1",), "ReplicaSet", "replicasets"),
    ObjectKind("apps", ("v1",), "Deployment", "deployments"),
    ObjectKind("apps", ("v1",), "StatefulSet", "statefulsets"),
    ObjectKind("jobset.x-k8s.io", ("v1alpha2",), "JobSet", "jobsets"),
    ObjectKind("leaderworkerset.x-k8s.io", ("v1",), "LeaderWorkerSet", "leaderworkersets"),
    ObjectKind("kubeflow.org", ("v1",), "PyTorchJob", "pytorchjobs"),
    ObjectKind("kubeflow.org", ("v1",), "TFJob", "tfjobs"),
    ObjectKind("kubeflow.org", ("v1",), "XGBoostJob", "xgboostjobs"),
    ObjectKind("kubeflow.org", ("v1",), "JAXJob", "jaxjobs"),
    ObjectKind("kubeflow.org", ("v1",), "PaddleJob", "paddlejobs"),
    ObjectKind("kubeflow.org", ("v2beta1", "v1"), "MPIJob", "mpijobs"),
    ObjectKind("kubeflow.org", ("v1", "v1beta1"), "Notebook", "notebooks"),
    ObjectKind("trainer.kubeflow.org", ("v1alpha1",), "TrainJob", "trainjobs"),
    ObjectKind("ray.io", ("v1", "v1alpha1"), "RayCluster", "rayclusters"),
    ObjectKind("ray.io", ("v1", "v1alpha1"), "RayJob", "rayjobs"),
    ObjectKind("ray.io", ("v1", "v1alpha1"), "RayService", "rayservices"),
    ObjectKind("sparkoperator.k8s.io", ("v1beta2",), "SparkApplication", "sparkapplications"),
    ObjectKind("argoproj.io", ("v1alpha1",), "Workflow", "workflows"),
    ObjectKind("serving.knative.dev", ("v1",), "Service", "services"),
    ObjectKind("serving.knative.dev", ("v1",), "Configuration", "configurations"),
    ObjectKind("serving.knative.dev", ("v1",), "Revision", "revisions"),
)
