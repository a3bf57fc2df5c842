"""Where the API server is and how we prove who we are: kubeconfig files and service accounts.

Everything is read by the official client's loaders (certificates, tokens, exec plug-ins, OIDC); this module adds when
to read again. The official client is imported on first use, since that takes a second.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any, Final

KUBECONFIG: Final = "KUBECONFIG"
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
Stamp = tuple[tuple[str, int], ...]


class AccessError(Exception):
    """No cluster to talk to, or no usable credentials; the text says what to mend."""


class Access:
    """The address of a cluster and our credentials. `source` says where they come from, for people."""

    def __init__(self, configuration: Any, loader: Any, source: str) -> None:
        self.configuration: Final = configuration
        self.source: Final = source
        self._loader = loader

    @property
    def host(self) -> str:
        """Scheme, host and port of the API server, and a path where a proxy adds one."""
        return str(self.configuration.host).rstrip("/")

    async def authorization(self) -> str | None:
        """The value of the Authorization header, or None when a certificate (or nothing) speaks for us."""
        value = await self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return value.strip() if value else None

    async def renew(self, *, refused: bool) -> None:
        """Reads the credentials again. With `refused`, also those that should still be good."""
        if refused:
            vars(self._loader).pop("exec_plugin_expiry", None)
        elif self._runs_plugin_each_time():
            return
        result = self._loader.load_and_set(self.configuration)
        if inspect.isawaitable(result):
            await result

    def stamp(self) -> Stamp:
        """Changes when the files behind the TLS connections do: certificate, key and authorities."""
        files = (self.configuration.ssl_ca_cert, self.configuration.cert_file, self.configuration.key_file)
        return tuple((str(file), _modified_ns(file)) for file in files if file)

    def tls_context(self) -> Any:
        """An SSLContext with the files as they are now."""
        from kubernetes.aio.client.rest import RESTClientObject

        return RESTClientObject(self.configuration).ssl_context

    def _runs_plugin_each_time(self) -> bool:
        # A plug-in that gives no expiry means "until refused"; asking it every minute may be slow or cost money.
        user = getattr(self._loader, "_user", None)
        return user is not None and "exec" in user and not hasattr(self._loader, "exec_plugin_expiry")


async def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The cluster named by a kubeconfig (path, or several joined by ":"), else by $KUBECONFIG, else by the service
    account of the pod that we run in, else by ~/.kube/config.

    Raises AccessError.
    """
    paths = kubeconfig or os.environ.get(KUBECONFIG)
    if paths:
        return await _from_kubeconfig(paths, context)
    if os.environ.get(_IN_CLUSTER):
        return await _from_service_account()
    home = Path.home() / ".kube" / "config"
    if home.exists():
        return await _from_kubeconfig(str(home), context)
    raise AccessError(
        f"no cluster: name a kubeconfig in the settings or in ${KUBECONFIG}; {home} does not exist, "
        "and this is no pod with a service account"
    )


async def _from_kubeconfig(paths: str, context: str | None) -> Access:
    from kubernetes.aio import config

    existing = _existing(paths)
    if not existing:
        raise AccessError(f"no kubeconfig at {paths}")
    source = f"kubeconfig {existing}" + (f", context {context}" if context else "")
    configuration = _new_configuration()
    try:
        loader = await config.load_kube_config(
            config_file=existing,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except Exception as err:  # the loader passes on whatever it meets: YAML, base64, OS and type errors
        raise AccessError(f"{source}: {err}") from err
    user = loader._user
    if user is not None and "exec" in user and not configuration.api_key and not configuration.cert_file:
        command = user["exec"]["command"]
        raise AccessError(f"{source}: the plug-in {command} gave no credentials; run it by hand to see why")
    return Access(configuration, loader, source)


async def _from_service_account() -> Access:
    from kubernetes.aio.config import incluster_config

    configuration = _new_configuration()
    loader = incluster_config.InClusterConfigLoader(
        token_filename=incluster_config.SERVICE_TOKEN_FILENAME,
        cert_filename=incluster_config.SERVICE_CERT_FILENAME,
    )
    try:
        loader.load_and_set(configuration)
    except Exception as err:  # as above
        raise AccessError(f"service account: {err}") from err
    return Access(configuration, loader, "service account")


def _new_configuration() -> Any:
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    # As Go does: the authorities of many clusters lack extensions that Python 3.13 would insist on.
    configuration.disable_strict_ssl_verification = True
    return configuration


def _existing(paths: str) -> str:
    return os.pathsep.join(path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists())


def _modified_ns(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
