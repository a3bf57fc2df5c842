"""Tokens and kubeconfig files for the tests' API servers."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class User:
    """A user of an API server's token file."""

    name: str
    token: str
    groups: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The user's line in the token file: token, name, uid, groups."""
        return f'{self.token},{self.name},{self.name},"{",".join(self.groups)}"\n'


def new_user(name: str, *groups: str) -> User:
    """A user with a fresh token."""
    return User(name, secrets.token_hex(16), groups)


def write_kubeconfig(path: Path, server: str, authority_pem: str, token: str) -> Path:
    """Writes a kubeconfig with one cluster and one user, readable by its owner alone; its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "tests",
                "cluster": {"server": server, "certificate-authority-data": _base64(authority_pem)},
            }
        ],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def read_token(kubeconfig: Path) -> str:
    """The token in a kubeconfig that `write_kubeconfig` wrote."""
    return str(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
