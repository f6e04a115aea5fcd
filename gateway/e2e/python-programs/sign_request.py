"""Signs a request, given as JSON, with http-message-signatures of PyPI. Prints its headers as JSON."""

import json
import sys
from types import SimpleNamespace

from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms

asked = json.load(sys.stdin)


class Keys(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id: str):
        return asked["key"].encode()

    def resolve_public_key(self, key_id: str):
        raise NotImplementedError


message = SimpleNamespace(method=asked["method"], url=asked["url"], headers=asked["headers"])
signer = HTTPMessageSigner(signature_algorithm=getattr(algorithms, asked["algorithm"]), key_resolver=Keys())
signer.sign(
    message,
    key_id=asked["keyid"],
    tag=asked["tag"],
    nonce=asked["nonce"],
    include_alg=asked["alg"],
    covered_component_ids=asked["components"],
    body=asked["body"].encode(),
)
json.dump(dict(message.headers), sys.stdout)
