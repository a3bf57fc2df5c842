"""A real control plane: a kube-apiserver of its own, on an etcd that others may share."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.controlplane.async_kube import ApiError
from tests.controlplane.binaries import Binaries
from tests.controlplane.credentials import User, new_user, read_token, write_kubeconfig
from tests.controlplane.etcd import Etcd, data_folder
from tests.controlplane.kube import Kube
from tests.controlplane.processes import Process, ProcessError, free_port
from tests.controlplane.readiness import ready
from tests.controlplane.resources import LEASES, NAMESPACES, NODES, PODS
from tests.controlplane.waiting import eventually

SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")
_numbers = itertools.count()


class ControlPlane:
    """kube-apiserver with RBAC, and kube-controller-manager where controllers are named.

    `service_accounts` turns the admission plugin on that gives each pod its service account (which must exist: add
    the controller `serviceaccount-controller`). Policies in CEL, TokenRequest and RBAC work in any case. `logs` is
    a folder that exists. Client limits are wide, since tests measure schedulers and not the API server's patience.
    """

    def __init__(
        self,
        binaries: Binaries,
        etcd: Etcd,
        logs: Path,
        *,
        service_accounts: bool = False,
        controllers: Sequence[str] = (),
        flags: Sequence[str] = (),
    ) -> None:
        number = next(_numbers)
        self.name = f"c{number}"
        self._binaries = binaries
        self._logs = logs
        self._data = data_folder(self.name)
        self._controllers = tuple(controllers)
        self._admin = new_user("admin", "system:masters")
        self._scheduler = new_user("system:kube-scheduler")
        self._kube: Kube | None = None
        self._port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        places = [
            f"--etcd-servers={etcd.url}",
            f"--etcd-prefix=/{self.name}",
            f"--service-cluster-ip-range=10.{number % 256}.0.0/24",
        ]
        admission = [] if service_accounts else ["--disable-admission-plugins=ServiceAccount"]
        self.api_server = Process(
            "kube-apiserver",
            [binaries.path("kube-apiserver"), *places, *self._api_server_flags(), *admission, *flags],
            logs / f"{self.name}-kube-apiserver.log",
        )
        self.controller_manager: Process | None = None

    # -- life ----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        (self._data / "tokens.csv").write_text(self._admin.line + self._scheduler.line)
        self.api_server.start()
        self.api_server.wait_ready(self._certificate.exists)
        self.api_server.wait_ready(lambda: ready(f"{self.server}/readyz", self.authority_pem))
        self._kube = Kube(self.server, self._admin.token, self.authority_pem)
        self.api_server.wait_ready(self._has_namespaces)
        if self._controllers:
            self._start_controllers()

    def stop(self) -> None:
        """Ends the processes and forgets the data."""
        if self._kube is not None:
            self._kube.close()
            self._kube = None
        if self.controller_manager is not None:
            self.controller_manager.stop()
        self.api_server.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def wipe(self) -> None:
        """Deletes all nodes, pods and leases, finished or not; the processes that wrote them have ended."""
        for pod_namespace in {pod["metadata"]["namespace"] for pod in self.kube.list(PODS)}:
            self.kube.delete_all(PODS, pod_namespace)
        self.kube.delete_all(NODES)
        own = "apiserver.kubernetes.io/identity"  # the API server's own lease stays
        for lease_namespace in {lease["metadata"]["namespace"] for lease in self.kube.list(LEASES)}:
            self.kube.delete_all(LEASES, lease_namespace, label_selector=f"!{own}")
        eventually(lambda: not self.kube.list(PODS), "all pods are gone")

    # -- access --------------------------------------------------------------------------------------------------
    @property
    def kube(self) -> Kube:
        """A client with all rights."""
        if self._kube is None:
            raise ProcessError(f"control plane {self.name} does not run")
        return self._kube

    @property
    def authority_pem(self) -> str:
        """The certificate chain that clients trust."""
        return self._certificate.read_text()

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig with all rights."""
        return self._kubeconfig(self._admin)

    @property
    def scheduler_kubeconfig(self) -> Path:
        """A kubeconfig with the rights of Kubernetes' own scheduler."""
        return self._kubeconfig(self._scheduler)

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 7200) -> Path:
        """A kubeconfig with a fresh token of the service account, valid for `seconds`."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        token = self.kube.request("POST", path, request)["status"]["token"]
        return self._write(f"{namespace}-{name}", str(token))

    def client(self, user_kubeconfig: Path) -> Kube:
        """A client with the token of a kubeconfig of this control plane; the caller closes it."""
        return Kube(self.server, read_token(user_kubeconfig), self.authority_pem)

    def metrics(self) -> str:
        """The API server's own metrics, as text."""
        return str(self.kube.request("GET", "/metrics"))

    # -- parts ---------------------------------------------------------------------------------------------------
    @property
    def _certificate(self) -> Path:
        return self._data / "apiserver.crt"

    def _kubeconfig(self, user: User) -> Path:
        return self._write(user.name.replace(":", "-"), user.token)

    def _write(self, name: str, token: str) -> Path:
        return write_kubeconfig(self._data / f"{name}.kubeconfig", self.server, self.authority_pem, token)

    def _has_namespaces(self) -> bool:
        try:
            return all(self.kube.find(NAMESPACES, name) for name in SYSTEM_NAMESPACES)
        except ApiError:
            return False

    def _api_server_flags(self) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._data}",
            f"--token-auth-file={self._data / 'tokens.csv'}",
            # nobody comes with a certificate, but kube-scheduler looks for what these make the API server publish
            f"--client-ca-file={self._certificate}",
            f"--requestheader-client-ca-file={self._certificate}",
            "--requestheader-allowed-names=nobody",
            "--authorization-mode=RBAC",
            # the API server makes this key for its certificate before it reads it for the tokens
            f"--service-account-key-file={self._data / 'apiserver.key'}",
            f"--service-account-signing-key-file={self._data / 'apiserver.key'}",
            "--service-account-issuer=https://localhost",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
            "--delete-collection-workers=8",
        ]

    def _start_controllers(self) -> None:
        port = free_port()
        self.controller_manager = Process(
            "kube-controller-manager",
            [
                self._binaries.path("kube-controller-manager"),
                f"--kubeconfig={self.admin_kubeconfig}",
                f"--controllers={','.join(self._controllers)}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self._data / 'controllers'}",
                "--leader-elect=false",
                f"--service-account-private-key-file={self._data / 'apiserver.key'}",
                f"--root-ca-file={self._certificate}",
                # fake nodes write few leases
                "--node-monitor-grace-period=1h",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
            ],
            self._logs / f"{self.name}-kube-controller-manager.log",
        )
        self.controller_manager.start()
        self.controller_manager.wait_ready(lambda: ready(f"https://127.0.0.1:{port}/healthz"))
