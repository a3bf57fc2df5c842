"""Who wrote what, as the API server's audit log has it."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.credentials import read_token

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}],
}


class Audit:
    """The audit log of one API server, which has to be started with `flags`."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.json"
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY))
        self.flags: Final = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]

    def writes(self, kubeconfig: Path) -> Counter[str]:
        """Successful writes with the token of this kubeconfig, each as `verb resource/subresource`."""
        credential = credential_id(kubeconfig)
        found: Counter[str] = Counter()
        for line in self._log.read_text().splitlines():
            event = json.loads(line)
            if credential in event["user"].get("extra", {}).get(_CREDENTIAL, ()):
                about = event["objectRef"]
                parts = [about["resource"], *([about["subresource"]] if "subresource" in about else [])]
                if event["responseStatus"]["code"] < 300:
                    found[f"{event['verb']} {'/'.join(parts)}"] += 1
        return found


def credential_id(kubeconfig: Path) -> str:
    """What the API server calls a service account's token in its audit log."""
    claims = read_token(kubeconfig).split(".")[1]
    document = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"JTI={document['jti']}"
