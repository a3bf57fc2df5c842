"""Parts of what is shipped, for tests that leave some of it away or run several of it."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane import installation
from tests.controlplane.binaries import Binaries
from tests.controlplane.control_plane import ControlPlane

TANGRAM_CONFIGURATION = installation.BASE / "config" / "tangram.yaml"
ADVISE = installation.MANIFESTS / "advise"
ADVISE_NAMESPACE = "tangram-advise"


def without_policies(control_plane: ControlPlane, binaries: Binaries) -> Path:
    """The shipped manifests without the admission policies; the kubeconfig of the service account."""
    documents = installation.rendered(binaries)
    control_plane.kube.apply(*(one for one in documents if "AdmissionPolicy" not in one["kind"]))
    return control_plane.service_account_kubeconfig(installation.NAMESPACE, installation.SERVICE_ACCOUNT)


def advise_mode(control_plane: ControlPlane, binaries: Binaries) -> Path:
    """The manifests of advise mode; the kubeconfig of their service account."""
    control_plane.kube.apply(*installation.rendered(binaries, ADVISE))
    return control_plane.service_account_kubeconfig(ADVISE_NAMESPACE, installation.SERVICE_ACCOUNT)
